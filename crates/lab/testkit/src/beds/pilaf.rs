//! [`Pilaf`]: Pilaf as the beds of systems of shards set it up.

use super::shards::ShardSystem;
use crate::kv_conformance::BedOptions;
use drover_base::HashSeed;
use drover_kv_pilaf::client::Reader;
use drover_kv_pilaf::logic::Miss;
use drover_kv_pilaf::server::{ServerOptions, ShardState};
use drover_mem::PageWish;
use drover_verbs::Provider;

/// Pilaf.
#[derive(Debug)]
pub struct Pilaf;

impl ShardSystem for Pilaf {
    type ServerOptions = ServerOptions;
    type Miss = Miss;
    type ShardLogic<P: Provider> = ShardState<P>;
    type Reader<P: Provider> = Reader;

    fn server_options(options: &BedOptions, shard: usize) -> ServerOptions {
        ServerOptions {
            shard: shard as u16,
            shard_count: options.partition_count as u16,
            // As few as may be: whatever the suite does, it does while tables grow.
            entry_count: 64,
            memory_bytes: options.memory_bytes,
            item_bytes_max: options.item_bytes_max,
            evicts: !options.store_mode,
            pages: PageWish::Small,
            hash_seed: Some(HashSeed::new(options.seed, 7)),
            ..ServerOptions::default()
        }
    }
}
