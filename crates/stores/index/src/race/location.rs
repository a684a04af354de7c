//! [`Location`]: where a key may be; [`Shape`]: where the buckets of a subtable are.
//!
//! ```text
//! bit 127      112              80 79          64 63       40 39       16 15    8 7           0
//!     | partition |    unused     |  directory   |  bucket 2 |  bucket 1 |       | fingerprint |
//! ```
//! The fields are disjoint: if the directory and a bucket shared bits, a subtable would only ever use some of its
//! buckets. A shard is chosen by the partition's bits.

use super::{BUCKET_BYTES, Bucket, DEPTH_MAX, GROUP_BUCKETS, SLOTS};
use drover_base::KeyHash;

const BUCKET_BITS: u32 = 24;

/// Number of groups of every subtable of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    group_count: u32,
}

/// Identifies a slot within a subtable; ordered by address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// Index of the bucket among all buckets of the subtable, overflow buckets included.
    pub bucket: u32,
    /// Index within the bucket, below [`SLOTS`].
    pub slot: u8,
}

impl SlotId {
    /// Offset of the slot from the start of the subtable, bytes.
    pub const fn offset(self) -> u64 {
        self.bucket as u64 * BUCKET_BYTES as u64 + Bucket::slot_offset(self.slot as usize) as u64
    }
}

impl Shape {
    /// Most groups of a subtable.
    pub const GROUPS_MAX: u32 = 1 << 20;

    /// The shape of subtables of `group_count` groups, 2 to [`GROUPS_MAX`](Shape::GROUPS_MAX); `None` beyond.
    pub const fn new(group_count: u32) -> Option<Shape> {
        match group_count {
            2..=Shape::GROUPS_MAX => Some(Shape { group_count }),
            _ => None,
        }
    }

    /// Number of groups.
    pub const fn group_count(self) -> u32 {
        self.group_count
    }

    /// Number of buckets, overflow buckets included.
    pub const fn bucket_count(self) -> u32 {
        self.group_count * GROUP_BUCKETS as u32
    }

    /// Bytes of a subtable.
    pub const fn bytes(self) -> u64 {
        self.bucket_count() as u64 * BUCKET_BYTES as u64
    }

    /// Number of slots of a subtable.
    pub const fn slot_count(self) -> u64 {
        self.bucket_count() as u64 * SLOTS as u64
    }

    const fn main_count(self) -> u32 {
        self.group_count * 2
    }
}

/// Where a key may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The bits that choose the subtable; as many of the lowest ones count as the directory is deep.
    pub directory_bits: u32,
    /// First bucket of each of the key's pairs, the main or the overflow bucket: the pair is this bucket and the next.
    /// The pairs are of different groups.
    pub pairs: [u32; 2],
    /// The key's fingerprint. Any value, 0 included.
    pub fingerprint: u8,
}

impl Location {
    /// Computes where the key with `hash` may be.
    #[inline]
    pub fn new(hash: KeyHash, shape: Shape) -> Location {
        let mains = shape.main_count();
        let first = scaled((hash.low >> 16) as u32, mains);
        // The second choice is one of the other groups' mains, all of them equally likely.
        let second = (first & !1) + 2 + scaled((hash.low >> 40) as u32, mains - 2);
        Location {
            directory_bits: hash.high as u32 & ((1 << DEPTH_MAX) - 1),
            pairs: [pair_of(first), pair_of(second % mains)],
            fingerprint: hash.low as u8,
        }
    }

    /// Offset of a pair from the start of the subtable, bytes.
    #[inline]
    pub const fn pair_offset(&self, choice: usize) -> u64 {
        self.pairs[choice] as u64 * BUCKET_BYTES as u64
    }
}

/// First bucket of the pair of main bucket `main`: `main, overflow` for an even one, `overflow, main` for an odd one.
const fn pair_of(main: u32) -> u32 {
    main / 2 * GROUP_BUCKETS as u32 + main % 2
}

/// The lowest [`BUCKET_BITS`] bits of `bits`, scaled to `count`.
fn scaled(bits: u32, count: u32) -> u32 {
    let bits = u64::from(bits & ((1 << BUCKET_BITS) - 1));
    ((bits * u64::from(count)) >> BUCKET_BITS) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_base::HashSeed;
    use proptest::prelude::*;

    fn hashes(count: u32) -> impl Iterator<Item = KeyHash> {
        (0..count).map(|i| HashSeed::new(1, 2).hash(&i.to_le_bytes()))
    }

    /// RACE's public code took bucket and suffix from the same bits, so that a subtable used one in 64 of its buckets.
    #[test]
    #[cfg_attr(miri, ignore = "statistics want many keys")]
    fn race_defect_bucket_and_suffix_share_bits() {
        let shape = Shape::new(16).expect("16 groups");
        let mut used = [[0u32; 48]; 2];
        for hash in hashes(80_000).filter(|hash| hash.high & 0xf == 9) {
            let location = Location::new(hash, shape);
            for (choice, pair) in location.pairs.into_iter().enumerate() {
                used[choice][pair as usize] += 1;
            }
        }
        for (choice, used) in used.iter().enumerate() {
            for (pair, count) in used.iter().enumerate() {
                // 5,000 keys, 32 mains.
                let want = if pair % 3 == 2 { 0..1 } else { 100..220 };
                assert!(want.contains(count), "choice {choice}, pair {pair}: {count}");
            }
        }
    }

    /// RACE's public code placed odd mains in the middle bucket and left the third one unused.
    #[test]
    #[cfg_attr(miri, ignore = "statistics want many keys")]
    fn race_defect_third_bucket_unused() {
        let shape = Shape::new(4).expect("4 groups");
        let mut used = [0u32; 12];
        for hash in hashes(4_000) {
            for pair in Location::new(hash, shape).pairs {
                // The main of a pair: the first bucket of a group, or the last one.
                used[pair as usize + (pair as usize % 3)] += 1;
            }
        }
        for (bucket, count) in used.iter().enumerate() {
            let want = if bucket % 3 == 1 { 0..1 } else { 800..1200 };
            assert!(want.contains(count), "bucket {bucket}: {count}");
        }
    }

    #[test]
    fn fields_are_disjoint() {
        let shape = Shape::new(Shape::GROUPS_MAX).expect("the largest");
        let none = Location::new(KeyHash { low: 0, high: 0 }, shape);
        let with = |low, high| Location::new(KeyHash { low, high }, shape);
        assert_eq!(
            with(0xff, 0),
            Location {
                fingerprint: 0xff,
                ..none
            }
        );
        assert_eq!(
            with(0, 0xffff),
            Location {
                directory_bits: 0xffff,
                ..none
            }
        );
        assert_eq!(with(0xff00, !0xffff), none);
        assert_eq!(with(0xff_ffff << 40, 0).pairs[0], none.pairs[0]);
        assert_ne!(with(0xff_ffff << 40, 0).pairs[1], none.pairs[1]);
    }

    #[test]
    fn offsets() {
        let id = SlotId { bucket: 4, slot: 6 };
        assert_eq!(id.offset(), 4 * 64 + 56);
        let shape = Shape::new(1024).expect("1024 groups");
        assert_eq!((shape.bytes(), shape.slot_count()), (196_608, 21_504));
        assert_eq!((Shape::new(1), Shape::new(Shape::GROUPS_MAX + 1)), (None, None));
    }

    proptest! {
        #[test]
        fn pairs_are_of_two_groups_and_within_bounds(low in any::<u64>(), high in any::<u64>(), groups in 2u32..5000) {
            let shape = Shape::new(groups).expect("enough");
            let location = Location::new(KeyHash { low, high }, shape);
            for (choice, pair) in location.pairs.into_iter().enumerate() {
                prop_assert!(pair % 3 != 2 && pair + 1 < shape.bucket_count());
                prop_assert!(location.pair_offset(choice) + 128 <= shape.bytes());
            }
            prop_assert_ne!(location.pairs[0] / 3, location.pairs[1] / 3);
        }
    }
}
