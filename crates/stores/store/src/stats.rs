//! [`PartitionStats`]: operation counters and sizes of a partition.

/// Declares the counters once, for the owner's own counters and for the public report.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters on the hot path: one addition per operation.
        #[derive(Clone, Copy, Default, Debug)]
        pub(crate) struct Counters { $(pub(crate) $name: u64,)* }

        /// Counters of operations since the partition was created or thawed, and current sizes. GETs of a
        /// [`Reader`](crate::Reader) are included once it has [counted](crate::Reader::count) them.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct PartitionStats {
            /// Bytes of all items, with headers, padding and, in store mode, the heap's tags.
            pub bytes: u64,
            /// Bytes of memory for items, used or free; in an elastic cache for items and index.
            pub bytes_max: u64,
            /// Number of slots of the index, used or free, without those of spare buckets.
            pub slots: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn stats(&self, bytes: u64, bytes_max: u64, slots: u64) -> PartitionStats {
                PartitionStats { bytes, bytes_max, slots, $($name: self.$name,)* }
            }

            pub(crate) fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Number of items now. Expired items that no operation and no eviction has found are included.
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
    /// Items that were due to leave the log of new items and moved to the main log, most of them because they had been
    /// used again; 0 in store mode and in a FIFO cache.
    promoted,
    /// Items that were due to leave the main log and were appended to it again, because they had been used since; 0 in
    /// store mode and in a FIFO cache.
    renewed,
    /// DELETEs that found their key, not expired.
    deletes,
    /// Items evicted because their bucket was full; 0 in store mode.
    evicted_bucket_full,
    /// Items evicted because a log had no space for another item; 0 in store mode.
    evicted_log_wrapped,
    /// Evicted items that no GET had read since they were stored.
    evicted_unread,
    /// Items removed because an operation found them expired. (A PUT that replaces an expired item is not counted
    /// here.)
    expired,
    /// Expired items removed because their space was needed; 0 in store mode.
    reclaimed,
    /// Expired items, of both kinds, that no GET had read since they were stored.
    expired_unread,
    /// Items removed by [`clear`](crate::Partition::clear).
    cleared,
}

impl PartitionStats {
    /// Number of GETs, with or without a hit.
    pub fn gets(&self) -> u64 {
        self.hits + self.misses
    }

    /// Number of items evicted, for whatever reason.
    pub fn evicted(&self) -> u64 {
        self.evicted_bucket_full + self.evicted_log_wrapped
    }

    /// Number of PUTs that were stored, and of changes that added fields.
    pub fn puts(&self) -> u64 {
        self.inserts + self.updates_in_place + self.updates_moved
    }
}
