//! [`ShardId`] and [`Epoch`]: what a map of shards is about, and which map it is.

use drover_base::KeyHash;
use std::fmt;
use std::ops::RangeInclusive;

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

    /// The partitions, of `partition_count`, that have keys of this shard, of `shard_count`: both are ranges of the same bits of a hash.
    pub fn partitions(self, shard_count: usize, partition_count: usize) -> RangeInclusive<usize> {
        let start = |shard: usize| (shard << 16).div_ceil(shard_count) as u64;
        let partition = |bits: u64| {
            let high = bits << 48;
            KeyHash { low: 0, high }.partition_index(partition_count)
        };
        partition(start(self.index()))..=partition(start(self.index() + 1) - 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partitions_of_a_shard_have_its_keys_and_no_others() {
        for (shard_count, partition_count) in [(SHARD_COUNT, 1), (SHARD_COUNT, 3), (64, 48), (7, 5), (1, 4)] {
            let mut found = vec![Vec::new(); shard_count];
            for bits in 0..1u64 << 16 {
                let high = bits << 48;
                let hash = KeyHash { low: 0, high };
                let partition = hash.partition_index(partition_count);
                let partitions: &mut Vec<usize> = &mut found[ShardId::of(hash, shard_count).index()];
                if partitions.last() != Some(&partition) {
                    partitions.push(partition);
                }
            }
            for (partitions, shard) in found.into_iter().zip((0..).map(ShardId)) {
                let expected = shard.partitions(shard_count, partition_count);
                assert_eq!(
                    partitions,
                    expected.collect::<Vec<_>>(),
                    "{shard} of {shard_count}"
                );
            }
        }
    }
}
