//! [`PartitionOptions`]: how large a partition is and what it does when it is full.

use drover_index::CACHE_SLOTS;
use drover_mem::PageWish;

/// What a partition promises.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// A PUT always succeeds; the oldest items make space.
    Cache {
        /// A GET moves an item that is further than this share of the log behind the head to the front, so
        /// that what is read stays: 1.0 = never (FIFO, as HERD), 0.0 = always (LRU).
        move_to_head: f64,
    },
    /// Nothing is ever forgotten; a PUT may find the partition full.
    Store,
}

/// Sizes of a [`Partition`](crate::Partition).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PartitionOptions {
    /// Cache or store.
    pub mode: Mode,
    /// Memory for items: a power of two.
    pub log_bytes: usize,
    /// Buckets of 8 slots (cache) or 7 slots and a chain (store): a power of two.
    pub bucket_count: usize,
    /// The longest value accepted, at most [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    pub value_bytes_max: usize,
    /// Pages of index and log.
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
    /// Space for `item_count` items of `item_bytes` bytes each (see [`item_bytes`](crate::item_bytes)):
    /// the index at most three quarters full, the log rounded up.
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
