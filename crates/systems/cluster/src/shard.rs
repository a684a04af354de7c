//! [`ShardId`] and [`Epoch`]: what a map of shards is about, and which map it is.

use drover_base::KeyHash;
use std::fmt;

/// Shards of a service, and the most that a map can have: enough to move a few percent of the keys of a large service at a
/// time. *(our choice)*
pub const SHARD_COUNT: usize = 4096;

/// Index of a shard, from 0: the part of the keys that one member serves at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard of the key with this hash, in a service of `shard_count` shards, 1 to [`SHARD_COUNT`].
    #[inline]
    pub fn of(hash: KeyHash, shard_count: usize) -> ShardId {
        ShardId(hash.partition_index(shard_count) as u16)
    }

    /// The index, for tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a map: each change of the map raises it by one. There is no map with epoch 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Before the first map.
    pub const NONE: Epoch = Epoch(0);
    /// The last epoch: a service that changes every millisecond reaches it after a hundred million years.
    pub const MAX: Epoch = Epoch((1 << 62) - 1);

    /// The epoch after this one.
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
