//! [`Farm`]: FaRM-KV's shards in a cluster, each on a core of the server.

use crate::Setup;
use crate::shards::OneSided;
use drover_index::hopscotch::SlotKind;
use drover_kv_farm::client::{ClientOptions, Reader};
use drover_kv_farm::server::{ServerOptions, ShardState};
use drover_mem::PageWish;
use drover_verbs_sim::Sim;

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
}

/// More than header, key and the lines' versions of an object of a load take.
const OBJECT_OVERHEAD_MAX: usize = 96;
/// Cluster for chunks of every size.
const MEMORY_MIN: usize = 64 << 20;

impl OneSided for Farm {
    type ShardLogic = ShardState<Sim>;
    type Reader = Reader;

    fn shard_count(&self) -> usize {
        self.shards
    }

    /// With space for four times its objects.
    fn server_options(&self, setup: &Setup, shard: usize) -> ServerOptions {
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

    fn client_options(&self) -> ClientOptions {
        self.client.clone()
    }
}
