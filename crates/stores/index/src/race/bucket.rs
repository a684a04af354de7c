//! [`Bucket`]: a header and seven slots; [`BucketPair`]: what a READ of a client fetches.

use super::{BUCKET_BYTES, BadHeader, GROUP_BUCKETS, Header, PAIR_BYTES, Slot, SlotId};

/// Slots of a bucket.
pub const SLOTS: usize = BUCKET_BYTES / 8 - 1;

/// A copy of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bucket {
    /// The header.
    pub header: Header,
    /// The slots.
    pub slots: [Slot; SLOTS],
}

impl Bucket {
    /// Decodes a bucket of any bytes.
    ///
    /// # Errors
    /// [`BadHeader`] if its first word is not a header. Slots can be anything.
    #[inline]
    pub fn from_bytes(bytes: &[u8; BUCKET_BYTES]) -> Result<Bucket, BadHeader> {
        let words = bytes.as_chunks::<8>().0;
        Ok(Bucket {
            header: Header::from_word(u64::from_le_bytes(words[0]))?,
            slots: std::array::from_fn(|slot| Slot::from_word(u64::from_le_bytes(words[slot + 1]))),
        })
    }

    /// The bytes of the bucket.
    pub fn to_bytes(&self) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        bytes[..8].copy_from_slice(&self.header.word().to_le_bytes());
        for (to, slot) in bytes[8..].chunks_exact_mut(8).zip(self.slots) {
            to.copy_from_slice(&slot.word().to_le_bytes());
        }
        bytes
    }

    /// Offset of a slot from the start of its bucket, bytes.
    pub const fn slot_offset(slot: usize) -> usize {
        (slot + 1) * 8
    }
}

/// A copy of a main bucket and the overflow bucket of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketPair {
    first: u32,
    /// In the order of addresses.
    buckets: [Bucket; 2],
}

impl BucketPair {
    /// Decodes what a READ at bucket `first`, which begins a pair, has fetched.
    ///
    /// # Errors
    /// [`BadHeader`] if a bucket has none.
    ///
    /// # Panics
    /// If the length is not [`PAIR_BYTES`].
    #[inline]
    pub fn from_bytes(first: u32, bytes: &[u8]) -> Result<BucketPair, BadHeader> {
        let bytes: &[u8; PAIR_BYTES] = bytes.try_into().expect("a pair was READ");
        let buckets = bytes.as_chunks::<BUCKET_BYTES>().0;
        Ok(BucketPair {
            first,
            buckets: [Bucket::from_bytes(&buckets[0])?, Bucket::from_bytes(&buckets[1])?],
        })
    }

    /// Index of the first bucket.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// The two headers.
    pub const fn headers(&self) -> [Header; 2] {
        [self.buckets[0].header, self.buckets[1].header]
    }

    /// The buckets in the order of addresses.
    pub const fn buckets(&self) -> &[Bucket; 2] {
        &self.buckets
    }

    /// Puts another bucket's copy in place of the first (0) or second (1) one.
    pub(super) fn replace(&mut self, which: usize, bucket: Bucket) {
        self.buckets[which] = bucket;
    }

    /// All slots in the order of addresses.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        let of = |which: usize| {
            let bucket = self.first + which as u32;
            let slots = self.buckets[which].slots.iter().enumerate();
            slots.map(move |(slot, word)| {
                (
                    SlotId {
                        bucket,
                        slot: slot as u8,
                    },
                    *word,
                )
            })
        };
        of(0).chain(of(1))
    }

    /// The slots of the main bucket, then those of the overflow bucket.
    pub(super) fn main_first(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        // The middle bucket of a group is the overflow bucket.
        let main = usize::from(!(self.first as usize).is_multiple_of(GROUP_BUCKETS));
        let of = move |which: usize| self.slots().skip(which * SLOTS).take(SLOTS);
        of(main).chain(of(1 - main))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::BlockRef;
    use super::*;
    use proptest::prelude::*;

    fn numbered(header: Header, from: u64) -> Bucket {
        let slot = |at: usize| {
            let addr = (from + at as u64) * 64;
            Slot::new(at as u8, BlockRef { addr, units: 1 }, 0)
        };
        Bucket {
            header,
            slots: std::array::from_fn(slot),
        }
    }

    #[test]
    fn slots_have_their_addresses_and_mains_come_first() {
        let (first, second) = (numbered(Header::new(0, 0), 1), numbered(Header::new(1, 1), 8));
        let bytes = [first.to_bytes(), second.to_bytes()].concat();
        for (at, mains) in [(3, [3, 4]), (4, [5, 4])] {
            let pair = BucketPair::from_bytes(at, &bytes).expect("headers");
            assert_eq!(
                (pair.first(), pair.headers()),
                (at, [first.header, second.header])
            );
            let ids: Vec<_> = pair.slots().map(|(id, _)| (id.bucket, id.slot)).collect();
            assert!(ids.is_sorted() && ids.len() == 14 && ids[7] == (at + 1, 0));
            let order: Vec<_> = pair.main_first().map(|(id, _)| id.bucket).collect();
            assert_eq!((order[0], order[7]), (mains[0], mains[1]));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_pair_or_none(bytes in proptest::collection::vec(any::<u8>(), 128), sane in any::<bool>()) {
            let mut bytes = bytes;
            if sane {
                bytes[..8].fill(0);
                bytes[64..72].fill(0);
            }
            match BucketPair::from_bytes(0, &bytes) {
                Ok(pair) => {
                    let again = pair.buckets().map(|bucket| bucket.to_bytes()).concat();
                    prop_assert_eq!(again, bytes);
                    prop_assert_eq!(pair.main_first().count(), 14);
                }
                Err(_) => prop_assert!(!sane),
            }
        }
    }
}
