//! What a server is told at its start, and what it tells.

use crate::logic::RING_BYTES;
use drover_base::{HashSeed, Ns};
use drover_index::hopscotch::{Geometry, SlotKind};
use drover_mem::PageWish;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Which shard it is.
    pub shard: u16,
    /// Of how many.
    pub shard_count: u16,
    /// Which slots are whose.
    pub geometry: Geometry,
    /// Wide: values of up to 32 bytes are in the table. Narrow: none is.
    pub kind: SlotKind,
    /// Homes of the table, a power of two: in a classic geometry four for three keys.
    pub home_count: usize,
    /// Blocks of overflow, two keys each.
    pub block_count: usize,
    /// Bytes for objects.
    pub memory_bytes: usize,
    /// Longest item (20 bytes, key, value), bytes.
    pub item_bytes_max: usize,
    /// Longest request, and place of a reply, bytes: longer values are fetched by READ and handed over by WRITE.
    pub message_bytes: usize,
    /// Of each client's ring; a multiple of 64, and four requests at least.
    pub ring_bytes: usize,
    /// Forgets something instead of refusing a new key.
    pub evicts: bool,
    /// How long the place of an object that was given up is not used again.
    pub grace: Ns,
    /// How often control channels are looked at: a system call for every client, which costs a core that sleeps its
    /// sleep.
    pub look_every: Ns,
    /// Which pages.
    pub pages: PageWish,
    /// Keys the hash of keys; `None`: random. All shards of a service have one.
    pub hash_seed: Option<HashSeed>,
}

impl Default for ServerOptions {
    /// One shard: 64 MiB of objects, 2^20 slots with small values inside.
    fn default() -> ServerOptions {
        ServerOptions {
            shard: 0,
            shard_count: 1,
            geometry: Geometry::CLASSIC,
            kind: SlotKind::Wide,
            home_count: 1 << 20,
            block_count: 1 << 16,
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            message_bytes: 1024,
            ring_bytes: RING_BYTES,
            evicts: false,
            grace: Ns::from_ms(1),
            look_every: Ns::from_us(20),
            pages: PageWish::HugeIfAny,
            hash_seed: None,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// PUT messages.
    pub puts: u64,
    /// DELETE messages.
    pub deletes: u64,
    /// GET messages: misses to confirm, and readers who gave up. Other GETs are not seen.
    pub gets: u64,
    /// Values fetched from clients.
    pub pulls: u64,
    /// Values WRITTEN to clients.
    pub pushes: u64,
    /// Keys forgotten to make space.
    pub evictions: u64,
    /// PUTs refused because memory is full.
    pub refusals: drover_one_sided::Refusals,
}
