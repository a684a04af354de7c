//! Servers that are one shard each, on cores of one machine.

use crate::service::Core;
use drover_base::{Actor, Progress};
use drover_rt::control::{ControlStream, Desk};
use drover_sim::VirtualCpu;
use drover_verbs_sim::{Doorbells, SimDevice, World};
use std::rc::Rc;

/// A server of one shard.
pub(crate) trait Shard: Actor<VirtualCpu> + 'static {
    /// Where it works.
    fn core(&self) -> Rc<Core>;

    /// Lets a client in.
    fn adopt(&mut self, stream: ControlStream);
}

/// Opens `count` of them on machine 0; each lets in whoever knocks at its desk.
pub(crate) fn open<S: Shard>(
    world: &World,
    count: usize,
    make: impl Fn(&SimDevice, usize) -> S,
) -> Vec<Desk> {
    // As over libibverbs, where every context opens the device and so has registers of its own.
    let device = world.device_with(0, Doorbells::PerContext);
    let open = |nth| {
        let (shard, desk) = (make(&device, nth), Desk::new());
        let core = shard.core();
        let there = desk.clone();
        world.spawn(&core, Box::new(Open { shard, desk: there }));
        desk
    };
    (0..count).map(open).collect()
}

struct Open<S> {
    shard: S,
    desk: Desk,
}

impl<S: Shard> Actor<VirtualCpu> for Open<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.desk.accept() {
            self.shard.adopt(stream);
        }
        self.shard.step(cpu)
    }
}
