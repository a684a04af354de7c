//! [`Farm`]: FaRM-KV's shards in a room, each on a core of the server.

use crate::service::Core;
use crate::shards::{self, Shard};
use crate::{Service, Setup};
use drover_index::hopscotch::SlotKind;
use drover_kv_farm::client::{ClientOptions, Dial, FarmClient};
use drover_kv_farm::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::{ControlStream, Desk};
use drover_verbs_sim::{Sim, World};
use std::rc::Rc;

/// FaRM-KV.
#[derive(Clone)]
pub struct Farm {
    /// Shards, each on a core.
    pub shards: usize,
    /// Homes of each shard's table, a power of two: how full it is follows from the load's keys.
    pub home_count: usize,
    /// Whether small values are in the table.
    pub kind: SlotKind,
    /// Every client.
    pub client: ClientOptions,
}

impl Farm {
    /// One shard, whose table is three quarters full of `keys`; small values are in it.
    pub fn for_keys(keys: u64) -> Farm {
        Farm {
            shards: 1,
            home_count: (keys as usize * 4).div_ceil(3).next_power_of_two(),
            kind: SlotKind::Wide,
            client: ClientOptions::default(),
        }
    }

    /// A shard's options: with room for four times its objects.
    pub fn server_options(&self, setup: &Setup, shard: usize) -> ServerOptions {
        let object = (setup.load.value_bytes + OBJECT_OVERHEAD_MAX).next_power_of_two();
        ServerOptions {
            shard: shard as u16,
            shard_count: self.shards as u16,
            kind: self.kind,
            home_count: self.home_count,
            memory_bytes: (4 * self.home_count * object).max(MEMORY_MIN),
            pages: PageWish::Small,
            hash_seed: Some(setup.hash_seed()),
            ..ServerOptions::default()
        }
    }
}

/// More than header, key and the lines' versions of an object of a load take.
const OBJECT_OVERHEAD_MAX: usize = 96;
/// Room for chunks of every size.
const MEMORY_MIN: usize = 64 << 20;

impl Service for Farm {
    type Client = FarmClient<Sim>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<Desk> {
        shards::open(world, self.shards, |device, shard| {
            Server::new(device, &self.server_options(setup, shard)).expect("a server")
        })
    }

    fn is_filled_when_open(&self) -> bool {
        false
    }

    fn client(&self, core: Rc<Core>, desks: &[Desk]) -> FarmClient<Sim> {
        let dials = desks.iter().map(Dial::at).collect();
        FarmClient::new(core, dials, self.client.clone())
    }

    fn is_ready(client: &mut FarmClient<Sim>) -> bool {
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
