//! [`PartitionStats`]: operation counters and sizes of a partition.

/// Declares the counters once, for the owner's own counters and for the public report.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters on the hot path: one addition per operation.
        #[derive(Clone, Copy, Default, Debug)]
        pub(crate) struct Counters { $(pub(crate) $name: u64,)* }

        /// Counters since the partition was created or thawed, and current sizes.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct PartitionStats {
            /// Bytes of memory that hold items, headers and padding included. In cache mode the log up to its head on
            /// the first lap, then all of it.
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
    /// Number of slots in use. In cache mode some may be of items that the log has overwritten: an upper bound of the
    /// number of items.
    items,
    /// GETs that found their key.
    hits,
    /// GETs that did not find their key.
    misses,
    /// PUTs of a key that did not exist.
    inserts,
    /// PUTs that overwrote their key's item in place.
    updates_in_place,
    /// PUTs of an existing key that wrote the item to another place, because its own was too short or, in store mode,
    /// far too long.
    updates_moved,
    /// PUTs refused because there was no space (store mode).
    full,
    /// PUTs refused because key or value is too long.
    too_large,
    /// Items that a GET moved to the head of the log.
    renewed,
    /// DELETEs that found their key.
    deletes,
    /// Items evicted because their bucket was full, expired ones included.
    evicted_bucket_full,
    /// Slots emptied or reused because the log had overwritten their items.
    evicted_log_wrapped,
    /// Items removed because an operation found them expired.
    expired,
    /// Buckets that the sweep for overwritten items has visited.
    sweeps,
}

impl PartitionStats {
    /// Number of GETs, with or without a hit.
    pub fn gets(&self) -> u64 {
        self.hits + self.misses
    }

    /// Number of PUTs that were stored.
    pub fn puts(&self) -> u64 {
        self.inserts + self.updates_in_place + self.updates_moved
    }
}
