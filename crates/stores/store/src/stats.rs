//! [`PartitionStats`]: operation counters and sizes of a partition.

/// Declares the counters once, for the owner's own counters and for the public report.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters on the hot path: one addition per operation.
        #[derive(Clone, Copy, Default, Debug)]
        pub(crate) struct Counters { $(pub(crate) $name: u64,)* }

        /// Counters of the owner's operations since the partition was created or thawed, and current sizes. Reads by a
        /// [`Reader`](crate::Reader) are not counted.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct PartitionStats {
            /// Bytes of memory that hold items, with headers, padding and, in store mode, the heap's tags. In cache
            /// mode the bytes ever appended to the log, at most its size: removing items does not reduce the number.
            pub bytes: u64,
            /// Bytes of memory for items, used or free.
            pub bytes_max: u64,
            /// Number of slots of the index, used or free, without those of spare buckets.
            pub slots: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn stats(&self, bytes: u64, bytes_max: u64, slots: u64) -> PartitionStats {
                PartitionStats { bytes, bytes_max, slots, $($name: self.$name,)* }
            }
        }
    };
}

counters! {
    /// Number of slots in use now. In cache mode some may be of items that the log has overwritten: an upper bound of
    /// the number of items. In both modes expired items that no operation has found are included.
    items,
    /// GETs that found their key, not expired.
    hits,
    /// GETs that did not find their key, or found it expired.
    misses,
    /// PUTs of a key without an item. (An expired item that was not removed yet counts as an item here.)
    inserts,
    /// PUTs that overwrote their key's item in place, and changes that added fields in place.
    updates_in_place,
    /// PUTs of an existing key that wrote the item to another place, because its own was too short or, in store mode,
    /// more than 24 bytes too long; and changes of expiry or marks that added fields so.
    updates_moved,
    /// PUTs refused because there was no space; always 0 in cache mode.
    full,
    /// PUTs refused because the key, the value or the whole item is too long.
    too_large,
    /// Items that a GET, an expiry change or a mark moved to the head of the log; 0 in store mode and in a FIFO cache.
    renewed,
    /// DELETEs that found their key, not expired.
    deletes,
    /// Items evicted because their bucket was full, expired ones included; 0 in store mode.
    evicted_bucket_full,
    /// Slots emptied or reused because the log had overwritten their items; 0 in store mode.
    evicted_log_wrapped,
    /// Items removed because a GET, DELETE, expiry change or mark found them expired. (A PUT that replaces an expired
    /// item is not counted here.)
    expired,
    /// Buckets that the sweep for overwritten items has visited; 0 in store mode.
    sweeps,
}

impl PartitionStats {
    /// Number of GETs, with or without a hit.
    pub fn gets(&self) -> u64 {
        self.hits + self.misses
    }

    /// Number of PUTs that were stored, and of changes that added fields.
    pub fn puts(&self) -> u64 {
        self.inserts + self.updates_in_place + self.updates_moved
    }
}
