//! [`PartitionOptions`]: sizes of a partition and its behaviour when full.

use drover_index::CACHE_SLOTS;
use drover_mem::PageWish;

/// Behaviour of a partition that is full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// A PUT that is not too large always finds space: it overwrites the items of the log that were appended longest
    /// ago and, if the bucket is full, evicts the oldest item in it.
    Cache {
        /// Share of the log, 0.0 to 1.0 (other numbers are clamped): a GET, expiry change or mark of an item further
        /// behind the head than this copies the item to the head, so that items in use stay. 1.0 = never (FIFO, as
        /// HERD), 0.0 = always (LRU).
        move_to_head: f64,
    },
    /// Nothing is evicted; a PUT that finds no space returns [`PutOutcome::Full`](crate::PutOutcome::Full).
    Store,
}

/// Mode, sizes and pages of a [`Partition`](crate::Partition).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PartitionOptions {
    /// Cache or store: the behaviour when full.
    pub mode: Mode,
    /// Bytes of memory for items with their headers, in either mode (in store mode it is a heap, not a log): a power of
    /// two. The index takes further memory.
    pub log_bytes: usize,
    /// Number of buckets of 8 slots (cache), or of 7 slots without the spare buckets for chains (store): a power of
    /// two.
    pub bucket_count: usize,
    /// Longest value accepted in bytes. [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) applies if this is larger, and an
    /// item must fit into `log_bytes`.
    pub value_bytes_max: usize,
    /// Kind of pages wanted for the memory of index and items. Unused if the caller provides that memory
    /// ([`create_in`](crate::Partition::create_in), [`WarmFile`](crate::WarmFile)).
    pub pages: PageWish,
}

impl Default for PartitionOptions {
    /// A FIFO cache of 64 MiB with space for a million small items.
    fn default() -> PartitionOptions {
        PartitionOptions {
            mode: Mode::Cache { move_to_head: 1.0 },
            log_bytes: 64 << 20,
            bucket_count: 1 << 17,
            value_bytes_max: 1 << 20,
            pages: PageWish::HugeIfAny,
        }
    }
}

impl PartitionOptions {
    /// Options for `item_count` items of `item_bytes` bytes each (see [`item_bytes`](crate::item_bytes)). The index is
    /// then at most three quarters full (six sevenths in store mode). `log_bytes` is the product of the two numbers,
    /// rounded up to a power of two, at least 64 KiB; the rest is as by default. In store mode add 24 to `item_bytes`:
    /// 8 for the terms that every item has there, and 16 for the heap's tags.
    pub fn for_items(mode: Mode, item_count: usize, item_bytes: usize) -> PartitionOptions {
        let slots = item_count + item_count / 3;
        PartitionOptions {
            mode,
            log_bytes: (item_count * item_bytes).next_power_of_two().max(1 << 16),
            bucket_count: slots.div_ceil(CACHE_SLOTS).next_power_of_two(),
            ..Default::default()
        }
    }
}
