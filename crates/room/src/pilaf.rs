//! [`Pilaf`]: Pilaf's shards in a room, each on a core of the server.

use crate::service::Core;
use crate::shards::{self, Shard};
use crate::{Load, Service, Setup};
use drover_kv_pilaf::client::{ClientOptions, Dial, PilafClient};
use drover_kv_pilaf::layout::record_bytes;
use drover_kv_pilaf::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::{ControlStream, Desk};
use drover_verbs_sim::{Sim, World};
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
            // What a figure assumes of its load stays true.
            entry_count_max: self.entry_count,
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
        shards::open(world, self.shards, |device, shard| {
            Server::new(device, &self.server_options(setup, shard)).expect("a server")
        })
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

impl Shard for Server<Sim> {
    fn core(&self) -> Rc<Core> {
        self.context()
    }

    fn adopt(&mut self, stream: ControlStream) {
        self.adopt(stream);
    }
}
