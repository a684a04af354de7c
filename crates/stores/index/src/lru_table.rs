//! [`LruTable`]: 8-slot buckets whose entries are in the order of their last use.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i | [`Slot`], little-endian, written by the table's owner only; empty ones are behind all others |
//!
//! The entry used last is in slot 0, that used longest ago is the last one. So the order takes no space, and a use moves
//! only entries of a line that is cached anyway *(8 slots in a line, strict LRU in a full bucket: stated in `[RFP §4.1]`;
//! order by place: our choice)*.

use crate::{BUCKET_BYTES, BucketLines, CACHE_SLOTS, Slot, SlotMask};
use drover_base::{KeyHash, Line};
use drover_mem::{AllocError, LineRef, LineTable, PageWish, Region};

/// A table of [`Slot`]s in any number of 8-slot buckets, a cache line each, without chains. A full bucket takes no more
/// entries until its owner removes one, usually the [oldest](LruBucket::oldest).
#[derive(Clone, Debug)]
pub struct LruTable {
    lines: LineTable,
}

/// A reference to one bucket of an [`LruTable`].
#[derive(Clone, Copy, Debug)]
pub struct LruBucket<'t> {
    line: LineRef<'t>,
}

impl LruTable {
    /// Places a table of `bucket_count` buckets at offset `start` of `region`, with the entries that are in this memory
    /// already: zeros are an empty table.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31, or the buckets do not fit.
    pub fn new(region: Region, start: usize, bucket_count: usize) -> LruTable {
        LruTable {
            lines: LineTable::new(region, start, bucket_count),
        }
    }

    /// Creates an empty table in newly allocated private memory.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31.
    pub fn private(bucket_count: usize, pages: PageWish) -> Result<LruTable, AllocError> {
        let region = Region::private(bucket_count * BUCKET_BYTES, pages)?;
        Ok(LruTable::new(region, 0, bucket_count))
    }

    /// Number of buckets.
    pub fn bucket_count(&self) -> u64 {
        self.lines.capacity()
    }

    /// Addresses of the buckets, for prefetching.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        BucketLines::new(&self.lines)
    }

    /// Number of the bucket of the keys with `hash`, from 0.
    #[inline(always)]
    pub fn bucket_index(&self, hash: KeyHash) -> u64 {
        self.lines.spread().index_of(hash.bucket_bits())
    }

    /// The bucket of the keys with `hash`.
    #[inline(always)]
    pub fn bucket(&self, hash: KeyHash) -> LruBucket<'_> {
        LruBucket {
            line: self.lines.of_hash(hash.bucket_bits()),
        }
    }

    /// The bucket numbered `index`, from 0; that numbered 0 if there is no such bucket.
    #[inline(always)]
    pub fn bucket_at(&self, index: u64) -> LruBucket<'_> {
        LruBucket {
            line: self.lines.at(index),
        }
    }

    /// Empties every bucket. Cost: writes the whole table.
    pub fn clear(&self) {
        self.lines.zero();
    }
}

impl LruBucket<'_> {
    /// Address of the bucket's cache line, for prefetching.
    #[inline(always)]
    pub fn line(self) -> Line {
        self.line.line()
    }

    /// Slots with this tag; for tag 0 the empty ones.
    #[inline(always)]
    pub fn matches(self, tag: u16) -> SlotMask {
        SlotMask::new(self.line.match_high16(tag))
    }

    /// The slot with index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn slot(self, slot_index: usize) -> Slot {
        Slot::from_word(self.line.load(slot_index))
    }

    /// Replaces the entry at index `slot_index`, 0 to 7, by `slot`, which is not empty.
    #[inline(always)]
    pub fn set(self, slot_index: usize, slot: Slot) {
        self.line.store(slot_index, slot.word());
    }

    /// All slots, empty ones included, in order.
    pub fn slots(self) -> [Slot; CACHE_SLOTS] {
        std::array::from_fn(|i| self.slot(i))
    }

    /// Replaces the entry at index `slot_index` by `slot`, the same entry after a use, and makes it the one used last.
    #[inline]
    pub fn used(self, slot_index: usize, slot: Slot) {
        self.shift(slot_index);
        self.set(0, slot);
    }

    /// Adds an entry as the one used last. Returns `false`, and changes nothing, if the bucket is full.
    #[inline]
    pub fn insert(self, slot: Slot) -> bool {
        let last = CACHE_SLOTS - 1;
        let has_space = self.slot(last).is_empty();
        if has_space {
            self.used(last, slot);
        }
        has_space
    }

    /// Removes the entry at index `slot_index`. Those behind it keep their order.
    #[inline]
    pub fn remove(self, slot_index: usize) {
        for i in slot_index + 1..CACHE_SLOTS {
            self.set(i - 1, self.slot(i));
        }
        self.set(CACHE_SLOTS - 1, Slot::EMPTY);
    }

    /// Index of the entry that was used longest ago; `None` if the bucket is empty.
    #[inline]
    pub fn oldest(self) -> Option<usize> {
        let empty = self.matches(0).first().unwrap_or(CACHE_SLOTS);
        empty.checked_sub(1)
    }

    /// Moves the entries before `end` one slot back; that at `end` is overwritten.
    #[inline]
    fn shift(self, end: usize) {
        for i in (0..end).rev() {
            self.set(i + 1, self.slot(i));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert,
        Use(usize),
        Remove(usize),
        RemoveOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Insert),
            4 => (0..CACHE_SLOTS).prop_map(Step::Use),
            1 => (0..CACHE_SLOTS).prop_map(Step::Remove),
            1 => Just(Step::RemoveOldest),
        ]
    }

    proptest! {
        /// A bucket is a list of at most eight entries, the one used last at the front.
        #[test]
        fn a_bucket_is_in_the_order_of_uses(steps in prop::collection::vec(step(), 0..200)) {
            let table = LruTable::private(3, PageWish::Small).expect("memory");
            let bucket = table.bucket_at(1);
            let mut list: Vec<u64> = Vec::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert => {
                        let offset = 8 * (i as u64 + 1);
                        let fits = bucket.insert(Slot::new(i as u16 % 3 + 1, offset));
                        prop_assert_eq!(fits, list.len() < CACHE_SLOTS);
                        if fits {
                            list.insert(0, offset);
                        }
                    }
                    Step::Use(i) if i < list.len() => {
                        bucket.used(i, bucket.slot(i).read());
                        let used = list.remove(i);
                        list.insert(0, used);
                        prop_assert!(bucket.slot(0).is_read());
                    }
                    Step::Remove(i) if i < list.len() => {
                        bucket.remove(i);
                        list.remove(i);
                    }
                    Step::RemoveOldest => {
                        prop_assert_eq!(bucket.oldest(), list.len().checked_sub(1));
                        if let Some(i) = bucket.oldest() {
                            bucket.remove(i);
                            list.pop();
                        }
                    }
                    Step::Use(_) | Step::Remove(_) => {}
                }
                let slots = bucket.slots();
                prop_assert!(slots[list.len()..].iter().all(|slot| slot.is_empty()));
                let offsets: Vec<u64> = slots[..list.len()].iter().map(|slot| slot.offset()).collect();
                prop_assert_eq!(&offsets, &list);
                for other in [0, 2] {
                    prop_assert!(table.bucket_at(other).slots().iter().all(|slot| slot.is_empty()));
                }
            }
        }
    }

    #[test]
    fn tags_are_found_where_their_entries_moved() {
        let table = LruTable::private(1, PageWish::Small).expect("memory");
        let bucket = table.bucket_at(0);
        for tag in 1..=8u16 {
            assert!(bucket.insert(Slot::new(tag % 4 + 1, u64::from(tag) * 8)));
        }
        assert_eq!(bucket.matches(1).collect::<Vec<_>>(), [0, 4]);
        bucket.used(4, bucket.slot(4));
        assert_eq!(bucket.matches(1).collect::<Vec<_>>(), [0, 1]);
        table.clear();
        assert_eq!(bucket.oldest(), None);
    }
}
