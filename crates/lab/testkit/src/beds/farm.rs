//! [`Farm`]: FaRM-KV as the beds of systems of shards set it up.

use super::shards::ShardSystem;
use crate::kv_conformance::BedOptions;
use drover_base::HashSeed;
use drover_kv_farm::client::Reader;
use drover_kv_farm::logic::Miss;
use drover_kv_farm::server::{ServerOptions, ShardState};
use drover_mem::PageWish;
use drover_verbs::Provider;

/// FaRM-KV.
#[derive(Debug)]
pub struct Farm;

impl ShardSystem for Farm {
    type ServerOptions = ServerOptions;
    type Miss = Miss;
    type ShardLogic<P: Provider> = ShardState<P>;
    type Reader<P: Provider> = Reader;

    fn server_options(options: &BedOptions, shard: usize) -> ServerOptions {
        ServerOptions {
            shard: shard as u16,
            shard_count: options.partition_count as u16,
            home_count: (options.memory_bytes / 64).next_power_of_two(),
            block_count: options.memory_bytes / 1024,
            memory_bytes: options.memory_bytes,
            item_bytes_max: options.item_bytes_max,
            evicts: !options.store_mode,
            pages: PageWish::Small,
            hash_seed: Some(HashSeed::new(options.seed, 7)),
            ..ServerOptions::default()
        }
    }
}
