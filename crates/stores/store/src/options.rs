//! [`PartitionOptions`]: sizes of a partition and its behaviour when full.

use drover_index::CACHE_SLOTS;
use drover_mem::PageWish;

/// Behaviour of a partition that is full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// A PUT always finds space; the oldest items are evicted.
    Cache {
        /// A GET copies an item that lies further than this share of the log behind the head to the head, so that items
        /// in use stay: 1.0 = never (FIFO, as HERD), 0.0 = always (LRU).
        move_to_head: f64,
    },
    /// Nothing is evicted; a PUT may find the partition full.
    Store,
}

/// Mode, sizes and pages of a [`Partition`](crate::Partition).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PartitionOptions {
    /// Cache or store.
    pub mode: Mode,
    /// Bytes of memory for items with their headers: a power of two.
    pub log_bytes: usize,
    /// Number of buckets of 8 slots (cache) or of 7 slots with a chain (store): a power of two.
    pub bucket_count: usize,
    /// Longest value accepted in bytes, at most [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    pub value_bytes_max: usize,
    /// Kind of pages wanted for the memory of index and items.
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
    /// Options for `item_count` items of `item_bytes` bytes each (see [`item_bytes`](crate::item_bytes)): the index at
    /// most three quarters full (six sevenths in store mode), the memory for items rounded up to a power of two.
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
