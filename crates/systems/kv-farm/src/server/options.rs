//! Options and counters of a server.

use drover_base::Ns;
use drover_index::hopscotch::{Geometry, SlotKind};
use drover_mem::PageWish;
use drover_one_sided::Membership;
use drover_rpc::ring::RING_BYTES;

/// Options of a server, which is one shard: all sizes are per shard.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Index of this shard, number of shards of the service, hash seed, and interval of polling control channels.
    pub membership: Membership,
    /// Which slots a key may be in, depending on its home.
    pub geometry: Geometry,
    /// Wide: slots hold values of up to 32 bytes that do not expire. Narrow: all values are in objects.
    pub kind: SlotKind,
    /// Number of homes of the table, a power of two; in the classic geometry each is one slot: plan four for three
    /// keys.
    pub home_count: usize,
    /// Number of overflow blocks of two slots each, for all homes together; below 2^24.
    pub block_count: usize,
    /// Bytes of memory for objects, all allocated and registered at the start. The table takes further memory.
    pub memory_bytes: usize,
    /// Longest item, bytes: header of 20 bytes, key and value. Longer items are refused. A limit above 8 MiB is reduced
    /// to that.
    pub item_bytes_max: usize,
    /// Longest request, and space for a reply (there rounded up to a multiple of 64), with their headers, bytes; at
    /// least 282. Values that do not fit are transferred by READ and WRITE.
    pub message_bytes: usize,
    /// Length of each client's ring, bytes: a multiple of 64, at least four times the record of the longest request, at
    /// most 16 MiB (clients refuse a longer one).
    pub ring_bytes: usize,
    /// Whether a full shard evicts a key instead of refusing a new one: the object written longest ago if memory is
    /// full, a key of the new key's neighbourhood if the table is.
    pub evicts: bool,
    /// How long the memory of a replaced or removed object is not reused, so that READs under way still find it;
    /// shorter if memory is short.
    pub grace: Ns,
    /// Kind of pages wanted for table and objects.
    pub pages: PageWish,
}

impl Default for ServerOptions {
    /// One shard: 64 MiB of objects, 2^20 slots that hold short values.
    fn default() -> ServerOptions {
        ServerOptions {
            membership: Membership::alone(),
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
            pages: PageWish::HugeIfAny,
        }
    }
}

/// Counters of a shard since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// PUT messages, refused ones included.
    pub puts: u64,
    /// DELETE messages, whether or not the key existed.
    pub deletes: u64,
    /// GET messages: misses and expiries to confirm, and GETs after too many torn or late READs; a GET of a long value
    /// may send two. The server does not see other GETs.
    pub gets: u64,
    /// READs begun by the server to fetch a long value from a client's memory, one per value.
    pub pulls: u64,
    /// WRITEs begun by the server to put a long value into a client's memory, one per value.
    pub pushes: u64,
    /// Keys evicted to make space.
    pub evictions: u64,
    /// Updates that came again over another session, and were answered with what had come of them.
    pub repeated: u64,
    /// PUTs refused because the memory for objects or the table is full.
    pub refusals: drover_one_sided::Refusals,
}
