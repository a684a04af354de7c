//! Services of systems whose servers are one shard each, on cores of one machine.

use crate::service::Core;
use crate::{Service, Setup};
use drover_base::{Actor, Progress};
use drover_one_sided::{Client, ClientOptions, Host, Reader, Server};
use drover_rt::control::{Desk, Dial};
use drover_sim::VirtualCpu;
use drover_verbs_sim::{Doorbells, Sim, World};
use std::rc::Rc;

/// A system whose GETs pass its servers by.
pub trait OneSided {
    /// Its half of a server.
    type Host: Host<Sim> + 'static;
    /// Its half of a client.
    type Reader: Reader<Sim> + 'static;

    /// Shards, each on a core.
    fn shard_count(&self) -> usize;

    /// Of shard `shard`.
    fn server_options(&self, setup: &Setup, shard: usize) -> <Self::Host as Host<Sim>>::Options;

    /// Of every client.
    fn client_options(&self) -> ClientOptions<<Self::Reader as Reader<Sim>>::Miss>;
}

/// Clients fill it.
impl<S: OneSided> Service for S {
    type Client = Client<Sim, S::Reader>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<Desk> {
        // As over libibverbs, where every context opens the device and so has registers of its own.
        let device = world.device_with(0, Doorbells::PerContext);
        let open = |shard| {
            let options = self.server_options(setup, shard);
            let server = Server::<Sim, S::Host>::new(&device, &options).expect("a server");
            let (core, desk) = (server.context(), Desk::new());
            let there = desk.clone();
            world.spawn(&core, Box::new(Open { server, desk: there }));
            desk
        };
        (0..self.shard_count()).map(open).collect()
    }

    fn is_filled_when_open(&self) -> bool {
        false
    }

    fn client(&self, core: Rc<Core>, desks: &[Desk]) -> Client<Sim, S::Reader> {
        let dials = desks.iter().map(Dial::at).collect();
        Client::new(core, dials, self.client_options())
    }

    fn is_ready(client: &mut Client<Sim, S::Reader>) -> bool {
        client.is_ready()
    }

    fn part_count(&self) -> usize {
        self.shard_count()
    }
}

/// A server that lets in whoever knocks at its desk.
struct Open<H: Host<Sim>> {
    server: Server<Sim, H>,
    desk: Desk,
}

impl<H: Host<Sim>> Actor<VirtualCpu> for Open<H> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.desk.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu)
    }
}
