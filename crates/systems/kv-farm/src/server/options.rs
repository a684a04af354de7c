//! Options and counters of a server.

use crate::logic::RING_BYTES;
use drover_base::Ns;
use drover_index::hopscotch::{Geometry, SlotKind};
use drover_mem::PageWish;
use drover_one_sided::Membership;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What this shard is among those of its service.
    pub membership: Membership,
    /// Which slots a key may be in, depending on its home.
    pub geometry: Geometry,
    /// Wide: slots hold values of up to 32 bytes. Narrow: all values are in objects.
    pub kind: SlotKind,
    /// Number of homes of the table, a power of two. In the classic geometry, plan four homes for three keys.
    pub home_count: usize,
    /// Number of overflow blocks, two keys each.
    pub block_count: usize,
    /// Bytes of memory for objects.
    pub memory_bytes: usize,
    /// Longest item (20 bytes, key, value), bytes.
    pub item_bytes_max: usize,
    /// Longest request, and length of a reply's place, bytes. Longer values are transferred by READ and WRITE.
    pub message_bytes: usize,
    /// Length of each client's ring, bytes: a multiple of 64, at least four requests.
    pub ring_bytes: usize,
    /// Evict a key instead of refusing a new one.
    pub evicts: bool,
    /// How long the memory of a removed object is not reused.
    pub grace: Ns,
    /// Page size of table and objects.
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

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// PUT messages.
    pub puts: u64,
    /// DELETE messages.
    pub deletes: u64,
    /// GET messages: misses to confirm, and GETs after too many torn READs. The server does not see other GETs.
    pub gets: u64,
    /// Long values that the server READ from clients.
    pub pulls: u64,
    /// Long values that the server WROTE to clients.
    pub pushes: u64,
    /// Keys evicted to make space.
    pub evictions: u64,
    /// PUTs refused because memory is full.
    pub refusals: drover_one_sided::Refusals,
}
