//! Options and counters of a server.

use drover_base::Ns;
use drover_mem::PageWish;
use drover_one_sided::Membership;

/// Options of a server, which is one shard: all sizes are per shard.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Index of this shard, number of shards of the service, hash seed, and interval of polling control channels.
    pub membership: Membership,
    /// Number of entries of the table at the start, a power of two. Plan four entries for three keys.
    pub entry_count: usize,
    /// Number of entries up to which the table grows in memory of its own: it doubles at a load of 0.75, or earlier if
    /// a key finds no entry, as long as memory can be allocated. An entry costs 32 bytes that clients READ and 24
    /// private bytes.
    pub entry_count_max: usize,
    /// Whether a table of `entry_count_max` entries may keep growing at the expense of the memory for records. It grows
    /// only if as many bytes as it grows by are unused at the end of that memory; records cannot use them any more.
    pub grows_into_records: bool,
    /// How long a client that does not confirm the switch to a larger table may READ the replaced one. A client that
    /// outlives its lease gets a remote-access error and reconnects.
    pub lease: Ns,
    /// Bytes of memory for records, all allocated and registered at the start.
    pub memory_bytes: usize,
    /// Longest record, bytes: header of 24 bytes, key and value. Longer items are refused. A limit of 16 MiB or more is
    /// reduced to 8 bytes less than 16 MiB.
    pub item_bytes_max: usize,
    /// Longest request and reply, with their headers, bytes; at least 33, reduced to the longest SEND of the fabric.
    /// Values that do not fit are transferred by READ.
    pub message_bytes: usize,
    /// Whether a full shard evicts the key whose record was written longest ago, instead of refusing a new record.
    pub evicts: bool,
    /// How long the memory of a replaced or removed record is not reused, so that READs under way still find it;
    /// shorter if memory is short.
    pub grace: Ns,
    /// Kind of pages wanted for table and records.
    pub pages: PageWish,
}

impl Default for ServerOptions {
    /// One shard: 64 MiB of records, 2^20 entries.
    fn default() -> ServerOptions {
        ServerOptions {
            membership: Membership::alone(),
            entry_count: 1 << 20,
            entry_count_max: 1 << 28,
            grows_into_records: false,
            lease: Ns::from_s(1),
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            message_bytes: 1024,
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
    /// GET messages: misses and expiries to confirm, and GETs after too many torn READs. The server does not see other
    /// GETs.
    pub gets: u64,
    /// READs begun by the server to fetch a long value from a client's memory, one per value.
    pub pulls: u64,
    /// Keys evicted to make space.
    pub evictions: u64,
    /// Tables replaced by larger ones.
    pub growths: u64,
    /// Updates that came again over another session, and were answered with what had come of them.
    pub repeated: u64,
    /// PUTs refused because the memory for records or the table is full.
    pub refusals: drover_one_sided::Refusals,
}
