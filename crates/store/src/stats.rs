//! [`PartitionStats`]: what a partition did and holds.

/// Counters since the partition was made, and sizes now.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Slots in use. In cache mode that includes items overwritten but not yet met: an upper bound.
    pub items: u64,
    /// Memory holding items, headers and padding included. In cache mode the log up to its head, then all.
    pub bytes: u64,
    /// Memory for items.
    pub bytes_max: u64,
    /// Slots of the index, spare buckets not counted.
    pub slots: u64,
    /// GETs.
    pub gets: u64,
    /// GETs that found their key.
    pub hits: u64,
    /// PUTs stored, in whatever way.
    pub puts: u64,
    /// PUTs that overwrote their key's item in place.
    pub updates_in_place: u64,
    /// PUTs of a present key whose item had to move.
    pub updates_moved: u64,
    /// Items that a GET moved to the head of the log.
    pub renewed: u64,
    /// DELETEs that found their key.
    pub deletes: u64,
    /// Live items evicted because their bucket was full.
    pub evicted_bucket_full: u64,
    /// Slots emptied or taken over whose items the log had overwritten.
    pub evicted_log_wrapped: u64,
    /// Items removed because they were met after their time.
    pub expired: u64,
    /// PUTs that replaced another key with the same 128-bit hash.
    pub hash_collision: u64,
    /// PUTs refused because there was no room (store mode).
    pub full: u64,
    /// PUTs refused because key or value is too long.
    pub too_large: u64,
    /// Buckets cleaned by the sweep.
    pub sweeps: u64,
}
