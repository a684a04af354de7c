//! Services of systems whose servers are one shard each, on cores of one machine.

use crate::service::Core;
use crate::{Service, Setup};
use drover_base::{Actor, Progress};
use drover_one_sided::{Client, ClientOptions, Reader, Server, ShardLogic};
use drover_rt::control::{Dial, LocalListener};
use drover_sim::VirtualCpu;
use drover_verbs_sim::{Doorbells, Sim, World};
use std::rc::Rc;

/// A system whose GETs pass its servers by.
pub trait OneSided {
    /// Its half of a server.
    type ShardLogic: ShardLogic<Sim> + 'static;
    /// Its half of a client.
    type Reader: Reader<Sim> + 'static;

    /// Shards, each on a core.
    fn shard_count(&self) -> usize;

    /// Of shard `shard`.
    fn server_options(&self, setup: &Setup, shard: usize) -> <Self::ShardLogic as ShardLogic<Sim>>::Options;

    /// Of every client.
    fn client_options(&self) -> ClientOptions<<Self::Reader as Reader<Sim>>::Miss>;
}

/// Clients fill it.
impl<S: OneSided> Service for S {
    type Client = Client<Sim, S::Reader>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<LocalListener> {
        // As over libibverbs, where every context opens the device and so has registers of its own.
        let device = world.device_with(0, Doorbells::PerContext);
        let open = |shard| {
            let options = self.server_options(setup, shard);
            let server = Server::<Sim, S::ShardLogic>::new(&device, &options).expect("a server");
            let (core, listener) = (server.context(), LocalListener::new());
            let there = listener.clone();
            world.spawn(
                &core,
                Box::new(Open {
                    server,
                    listener: there,
                }),
            );
            listener
        };
        (0..self.shard_count()).map(open).collect()
    }

    fn is_filled_when_open(&self) -> bool {
        false
    }

    fn client(&self, core: Rc<Core>, listeners: &[LocalListener]) -> Client<Sim, S::Reader> {
        let dials = listeners.iter().map(Dial::at).collect();
        Client::new(core, dials, self.client_options())
    }

    fn is_ready(client: &mut Client<Sim, S::Reader>) -> bool {
        client.is_ready()
    }

    fn part_count(&self) -> usize {
        self.shard_count()
    }
}

/// A server that accepts the clients that connect to its listener.
struct Open<H: ShardLogic<Sim>> {
    server: Server<Sim, H>,
    listener: LocalListener,
}

impl<H: ShardLogic<Sim>> Actor<VirtualCpu> for Open<H> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu)
    }
}
