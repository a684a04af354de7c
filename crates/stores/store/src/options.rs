//! [`PartitionOptions`]: sizes of a partition and its behaviour when full.

use drover_base::HashSeed;
use drover_index::{CACHE_SLOTS, StoreTable};
use drover_mem::{LINE_BYTES, PageWish};

/// Behaviour of a partition that is full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// A PUT that is not too large always finds space: other items are evicted. If its bucket of the index is full, one
    /// of the items there is evicted.
    Cache {
        /// Which items are evicted.
        eviction: Eviction,
    },
    /// A cache whose items are in a heap, not in logs: an item is overwritten in place by one of about its length, and other
    /// items do not move. A new item in a full bucket evicts the one there that was used longest ago *(stated in
    /// `[RFP §4.1]`)*. If the heap is full, others are evicted as well: the oldest of some buckets, and for a large item those
    /// next to one of them. There are no [readers](crate::Reader).
    Lru,
    /// Nothing is evicted; a PUT that finds no space returns [`PutOutcome::Full`](crate::PutOutcome::Full).
    Store,
}

impl Mode {
    /// A cache that evicts the items that were stored longest ago.
    pub const FIFO: Mode = Mode::Cache {
        eviction: Eviction::Fifo,
    };
    /// A cache that evicts the items that are used least.
    pub const S3_FIFO: Mode = Mode::Cache {
        eviction: Eviction::S3Fifo,
    };
}

impl Mode {
    /// What a full partition does, for an operator to read.
    pub fn when_full(self) -> &'static str {
        match self {
            Mode::Store => "answers \"full\" (-M)",
            Mode::Lru => "evicts the item of a full bucket that was used longest ago (LRU)",
            Mode::S3_FIFO => "evicts the items that are used least (S3-FIFO)",
            Mode::FIFO => "evicts the items that were stored longest ago (FIFO)",
        }
    }
}

/// Which items a full cache evicts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Eviction {
    /// Those that were stored longest ago, whether they were read or not, as MICA and HERD do.
    Fifo,
    /// Those that are not used again soon after they were stored, and later those that are not used between two laps of
    /// the log (S3-FIFO). Usually more hits from the same memory than LRU *(stated in `[S3-FIFO]`)*; a client that stores
    /// many keys once does not push out all others.
    #[default]
    S3Fifo,
}

/// Mode, sizes and pages of a [`Partition`](crate::Partition).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PartitionOptions {
    /// Cache or store: the behaviour when full.
    pub mode: Mode,
    /// Bytes of memory for items with their headers (in LRU and store mode it is a heap, not a log): a multiple of 64. The index is not part of it.
    pub log_bytes: usize,
    /// Number of buckets of 8 slots (caches), or of 7 slots without the spare buckets for chains (store), 1 to 2^31.
    pub bucket_count: usize,
    /// Whether a cache may change the number of buckets as its items need it. What the index gains, the memory for items
    /// loses, and the other way round: the sum stays as given. Needs the [seed](PartitionOptions::hash_seed). In store mode, whether the index may take further buckets from the memory for items.
    pub elastic: bool,
    /// Seed of the keys' hashes. A cache that knows it finds the index entry of an item that it evicts; one that does not
    /// searches the whole index, which only tests can afford.
    pub hash_seed: Option<HashSeed>,
    /// Longest value accepted in bytes. [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) applies if this is larger, and an
    /// item must fit into `log_bytes`.
    pub value_bytes_max: usize,
    /// Kind of pages wanted for the memory of index and items. Unused if the caller provides that memory
    /// ([`create_in`](crate::Partition::create_in), [`WarmFile`](crate::WarmFile)).
    pub pages: PageWish,
}

impl Default for PartitionOptions {
    /// A cache of 64 MiB with space for a million small items.
    fn default() -> PartitionOptions {
        PartitionOptions {
            mode: Mode::S3_FIFO,
            log_bytes: 64 << 20,
            bucket_count: 1 << 17,
            elastic: false,
            hash_seed: None,
            value_bytes_max: 1 << 20,
            pages: PageWish::HugeIfAny,
        }
    }
}

impl PartitionOptions {
    /// Options for `item_count` items of `item_bytes` bytes each (see [`item_bytes`](crate::item_bytes)). The index is
    /// then at most three quarters full (six sevenths in store mode). `log_bytes` is the product of the two numbers,
    /// rounded up to a power of two, at least 64 KiB, and the number of buckets is a power of two; the rest is as by
    /// default. In store mode add 24 to `item_bytes`: 8 for the terms that every item has there, and 16 for the
    /// heap's tags. In LRU mode likewise.
    pub fn for_items(mode: Mode, item_count: usize, item_bytes: usize) -> PartitionOptions {
        let slots = item_count + item_count / 3;
        PartitionOptions {
            mode,
            log_bytes: (item_count * item_bytes).next_power_of_two().max(1 << 16),
            bucket_count: slots.div_ceil(CACHE_SLOTS).next_power_of_two(),
            ..Default::default()
        }
    }

    /// Options for a partition whose items and index together take `bytes`, rounded down to whole lines: at least 4 KiB.
    /// The index of a cache begins small and follows the number of items; that of a store is a tenth, and grows if short
    /// items need more; that of an LRU cache is an eighth.
    pub fn for_memory(mode: Mode, bytes: usize) -> PartitionOptions {
        let lines = (bytes / LINE_BYTES).max(64);
        let bucket_count = match mode {
            Mode::Cache { .. } => lines / LINES_PER_BUCKET,
            Mode::Lru => lines / LINES_PER_LRU_BUCKET,
            // A tenth more are spare buckets.
            Mode::Store => lines / 11,
        };
        let index_lines = match mode {
            Mode::Cache { .. } | Mode::Lru => bucket_count,
            Mode::Store => StoreTable::bytes(bucket_count) / LINE_BYTES,
        };
        PartitionOptions {
            mode,
            log_bytes: (lines - index_lines) * LINE_BYTES,
            bucket_count: bucket_count.max(1),
            elastic: true,
            ..Default::default()
        }
    }

    /// The same options with another mode. If they are those of a cache [for memory](PartitionOptions::for_memory), the
    /// same memory is divided as that mode needs it.
    pub fn in_mode(self, mode: Mode) -> PartitionOptions {
        if !self.elastic {
            return PartitionOptions { mode, ..self };
        }
        PartitionOptions {
            value_bytes_max: self.value_bytes_max,
            pages: self.pages,
            hash_seed: self.hash_seed,
            ..PartitionOptions::for_memory(mode, self.bytes())
        }
    }

    /// Bytes of items and index together; an elastic index changes only their division.
    pub fn bytes(&self) -> usize {
        self.log_bytes
            + match self.mode {
                Mode::Cache { .. } | Mode::Lru => self.bucket_count * LINE_BYTES,
                Mode::Store => StoreTable::bytes(self.bucket_count),
            }
    }

    /// The same options with a fixed division of the memory: for memory that cannot be returned to the system in part.
    pub fn inelastic(self) -> PartitionOptions {
        if !self.elastic || matches!(self.mode, Mode::Store | Mode::Lru) {
            return PartitionOptions {
                elastic: false,
                ..self
            };
        }
        let lines = self.bytes() / LINE_BYTES;
        let bucket_count = (lines / LINES_PER_FIXED_BUCKET).max(1);
        PartitionOptions {
            log_bytes: (lines - bucket_count) * LINE_BYTES,
            bucket_count,
            elastic: false,
            ..self
        }
    }

    /// Most buckets that the index may come to have.
    pub fn bucket_count_max(&self) -> usize {
        match self.mode {
            Mode::Cache { .. } => crate::cache::memory_of(self)[1] / LINE_BYTES,
            Mode::Lru | Mode::Store => self.bucket_count,
        }
    }
}

/// Lines of memory for each bucket of an index that begins small: enough for items of 1 KiB and more.
const LINES_PER_BUCKET: usize = 80;
/// Lines of memory for each bucket of a cache's index that cannot grow: enough for items of 300 bytes and more.
const LINES_PER_FIXED_BUCKET: usize = 22;
/// Lines of memory for each bucket of an LRU cache's index: enough for items of 100 bytes and more. Where so many fill the
/// memory, half of the slots are used, and one bucket in fifty has more items than slots.
const LINES_PER_LRU_BUCKET: usize = 8;
