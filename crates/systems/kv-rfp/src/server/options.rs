//! Options and counters of a server.

use drover_mem::PageWish;
use drover_one_sided::Membership;
use drover_rpc::fetch::Transfer;
use drover_store::Mode;

/// Options of a server, which is one shard: all sizes are per shard.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Index of this shard, number of shards of the service, hash seed, and interval of polling control channels.
    pub membership: Membership,
    /// What a full shard does: [`Mode::Lru`] evicts, [`Mode::Store`] refuses new items.
    pub mode: Mode,
    /// Number of buckets of the index, of eight slots each (seven in a store, which has chains of buckets), 1 to 2^31.
    pub bucket_count: usize,
    /// Bytes of memory for items, rounded down to whole lines. The index takes further memory.
    pub memory_bytes: usize,
    /// Longest item, bytes: header of 24 bytes, key and value. Longer items are refused. A limit above 8 MiB is reduced
    /// to that.
    pub item_bytes_max: usize,
    /// Payload of a request slot and of a result slot, bytes; at least 282. Values that do not fit are transferred by
    /// READ and WRITE. Each operation in flight of each client has one slot of both kinds. With a multiple of 4 KiB
    /// less the headers, all slots would share a few lines of the processor's caches.
    pub slot_bytes: usize,
    /// How results come to clients that leave it open, in Jakiro.
    pub transfer: Transfer,
    /// Whether a handler works on each request before it is executed: see [`Trial`](drover_kv::Trial).
    pub has_handler: bool,
    /// Kind of pages wanted for items and index.
    pub pages: PageWish,
}

impl Default for ServerOptions {
    /// One shard: a cache of 64 MiB, with an index for 2^20 items; slots of 2 KiB.
    fn default() -> ServerOptions {
        ServerOptions {
            membership: Membership::alone(),
            mode: Mode::Lru,
            bucket_count: 1 << 17,
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            slot_bytes: 2 << 10,
            transfer: Transfer::Auto,
            has_handler: false,
            pages: PageWish::HugeIfAny,
        }
    }
}

/// Counters of a shard since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// GETs executed; one of a long value may be two.
    pub gets: u64,
    /// PUTs, refused ones included.
    pub puts: u64,
    /// DELETEs, whether or not the key existed.
    pub deletes: u64,
    /// READs begun by the server to fetch a long value from a client's memory, one per value.
    pub pulls: u64,
    /// WRITEs begun by the server to put a long value into a client's memory, one per value.
    pub long_pushes: u64,
    /// Updates that came again over another session, and were answered with what had come of them.
    pub repeated: u64,
    /// Values that clients were told to READ where they are.
    pub in_place: u64,
    /// Sessions that have ended.
    pub quarantined: u64,
    /// Requests for keys that the shard does not own.
    pub elsewhere: u64,
    /// PUTs refused because the memory is full.
    pub refusals: drover_one_sided::Refusals,
}
