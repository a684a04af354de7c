//! What a server is told at its start, and what it tells.

use drover_base::{HashSeed, Ns};
use drover_mem::PageWish;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Which shard it is.
    pub shard: u16,
    /// Of how many.
    pub shard_count: u16,
    /// Places of the table at first, a power of two: four for three keys.
    pub entry_count: usize,
    /// Places of the table at most, as long as there is memory: it doubles whenever three quarters are taken. A place costs 32
    /// bytes that clients READ and 24 beside.
    pub entry_count_max: usize,
    /// A table of that many places may grow on if as much memory at the end of the records is unused: that memory is
    /// given up.
    pub grows_into_records: bool,
    /// How long a client that says nothing may use a table that was replaced. Who comes back later finds its connection
    /// broken, and makes another.
    pub lease: Ns,
    /// Bytes for records: all there will ever be, had and registered at the start.
    pub memory_bytes: usize,
    /// Longest record (24 bytes, key, value), bytes.
    pub item_bytes_max: usize,
    /// Longest request and reply, bytes: longer values are fetched by READ.
    pub message_bytes: usize,
    /// Forgets the oldest record instead of refusing a new one.
    pub evicts: bool,
    /// How long a record that was replaced stays readable.
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
    /// One shard: 64 MiB of records, 2^20 places.
    fn default() -> ServerOptions {
        ServerOptions {
            shard: 0,
            shard_count: 1,
            entry_count: 1 << 20,
            entry_count_max: 1 << 28,
            grows_into_records: false,
            lease: Ns::from_s(1),
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            message_bytes: 1024,
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
    /// Keys forgotten to make space.
    pub evictions: u64,
    /// Tables that gave way to larger ones.
    pub growths: u64,
    /// PUTs refused because memory is full.
    pub refusals: drover_one_sided::Refusals,
}
