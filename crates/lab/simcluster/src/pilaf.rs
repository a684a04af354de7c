//! [`Pilaf`]: Pilaf's shards in a cluster, each on a core of the server.

use crate::shards::OneSided;
use crate::{Load, Setup};
use drover_kv_pilaf::client::{ClientOptions, Reader};
use drover_kv_pilaf::layout::record_bytes;
use drover_kv_pilaf::server::{ServerOptions, ShardState};
use drover_mem::PageWish;
use drover_verbs_sim::Sim;

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
}

/// Cluster for chunks of every size.
const MEMORY_MIN: usize = 64 << 20;

impl OneSided for Pilaf {
    type ShardLogic = ShardState<Sim>;
    type Reader = Reader;

    fn shard_count(&self) -> usize {
        self.shards
    }

    /// With space for four times its records.
    fn server_options(&self, setup: &Setup, shard: usize) -> ServerOptions {
        let record = record_bytes(Load::key(0).len(), setup.load.value_bytes);
        let records = 4 * self.entry_count * record.next_power_of_two();
        ServerOptions {
            shard: shard as u16,
            shard_count: self.shards as u16,
            entry_count: self.entry_count,
            // What a figure assumes of its load stays true.
            entry_count_max: self.entry_count,
            grows_into_records: false,
            memory_bytes: records.max(MEMORY_MIN),
            pages: PageWish::Small,
            hash_seed: Some(setup.hash_seed()),
            ..ServerOptions::default()
        }
    }

    fn client_options(&self) -> ClientOptions {
        self.client.clone()
    }
}
