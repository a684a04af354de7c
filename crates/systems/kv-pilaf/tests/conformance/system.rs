//! [`server_options`]: Pilaf as the beds of systems of shards set it up.

use drover_base::HashSeed;
use drover_mem::PageWish;
use drover_testkit::kv_conformance::BedOptions;

pub use drover_kv_pilaf::client::{ClientOptions, PilafClient as Client};
pub use drover_kv_pilaf::server::{Server, ServerOptions};

pub fn server_options(options: &BedOptions, shard: usize) -> ServerOptions {
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
