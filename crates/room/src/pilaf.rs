//! [`Pilaf`]: Pilaf's shards in a room, each on a core of the server.

use crate::service::Core;
use crate::{Load, Service, Setup};
use drover_base::{Actor, Progress};
use drover_kv_pilaf::client::{ClientOptions, Dial, PilafClient};
use drover_kv_pilaf::layout::record_bytes;
use drover_kv_pilaf::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::Desk;
use drover_sim::VirtualCpu;
use drover_verbs_sim::{Doorbells, Sim, World};
use std::rc::Rc;

/// Pilaf.
#[derive(Clone)]
pub struct Pilaf {
    /// Shards, each on a core.
    pub shards: usize,
    /// Places of each shard's table, a power of two: how full it is follows from the load's keys.
    pub entry_count: usize,
    /// Every client.
    pub client: ClientOptions,
}

impl Pilaf {
    /// One shard, whose table is three quarters full `[HERD §5.1]` of `keys`.
    pub fn for_keys(keys: u64) -> Pilaf {
        Pilaf {
            shards: 1,
            entry_count: (keys as usize * 4).div_ceil(3).next_power_of_two(),
            client: ClientOptions::default(),
        }
    }

    /// A shard's options: with room for four times its records.
    pub fn server_options(&self, setup: &Setup, shard: usize) -> ServerOptions {
        let record = record_bytes(Load::key(0).len(), setup.load.value_bytes);
        let records = 4 * self.entry_count * record.next_power_of_two();
        ServerOptions {
            shard: shard as u16,
            shard_count: self.shards as u16,
            entry_count: self.entry_count,
            memory_bytes: records.max(MEMORY_MIN),
            pages: PageWish::Small,
            hash_seed: Some(setup.hash_seed()),
            ..ServerOptions::default()
        }
    }
}

/// Room for chunks of every size.
const MEMORY_MIN: usize = 64 << 20;

impl Service for Pilaf {
    type Client = PilafClient<Sim>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<Desk> {
        // As over libibverbs, where every context opens the device and so has registers of its own.
        let device = world.device_with(0, Doorbells::PerContext);
        let open = |shard| {
            let options = self.server_options(setup, shard);
            let server = Server::<Sim>::new(&device, &options).expect("a server");
            let (core, desk) = (server.context(), Desk::new());
            let shard = Shard {
                server,
                desk: desk.clone(),
            };
            world.spawn(&core, Box::new(shard));
            desk
        };
        (0..self.shards).map(open).collect()
    }

    fn is_filled_when_open(&self) -> bool {
        false
    }

    fn client(&self, core: Rc<Core>, desks: &[Desk]) -> PilafClient<Sim> {
        let dials = desks.iter().map(Dial::at).collect();
        PilafClient::new(core, dials, self.client.clone())
    }

    fn is_ready(client: &mut PilafClient<Sim>) -> bool {
        client.is_ready()
    }

    fn part_count(&self) -> usize {
        self.shards
    }
}

/// A shard that lets in whoever knocks.
struct Shard {
    server: Server<Sim>,
    desk: Desk,
}

impl Actor<VirtualCpu> for Shard {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.desk.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu)
    }
}
