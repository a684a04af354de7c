//! [`CacheTable`]: 8-slot buckets without chains. A full bucket loses one of its items.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i | [`Slot`], little-endian, written by the table's owner only |
//!
//! No header: the owner is one thread *(8 slots without header: stated in `[HERD §4.1]`)*.

use crate::{BUCKET_BYTES, BucketLines, CACHE_SLOTS, Slot, SlotMask};
use drover_base::{KeyHash, Line};
use drover_mem::{AllocError, LineRef, LineTable, PageWish, Region};

/// A lossy table of [`Slot`]s: any number of 8-slot buckets, a cache line each. Its owner decides which entry of a full
/// bucket gives way to a new one.
#[derive(Clone, Debug)]
pub struct CacheTable {
    lines: LineTable,
}

/// A reference to one bucket of a [`CacheTable`].
#[derive(Clone, Copy, Debug)]
pub struct CacheBucket<'t> {
    line: LineRef<'t>,
}

impl CacheTable {
    /// Places a table of `bucket_count` buckets at offset `start` of `region`, with the entries that are in this memory
    /// already: zeros are an empty table.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^32, or the buckets do not fit.
    pub fn new(region: Region, start: usize, bucket_count: usize) -> CacheTable {
        CacheTable {
            lines: LineTable::new(region, start, bucket_count),
        }
    }

    /// Creates an empty table as [`new`](CacheTable::new) does, in newly allocated private memory.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^32.
    pub fn private(bucket_count: usize, pages: PageWish) -> Result<CacheTable, AllocError> {
        let region = Region::private(bucket_count * BUCKET_BYTES, pages)?;
        Ok(CacheTable::new(region, 0, bucket_count))
    }

    /// Number of buckets.
    pub fn bucket_count(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Number of the bucket of the keys with `hash`, from 0.
    #[inline(always)]
    pub fn bucket_index(&self, hash: KeyHash) -> u64 {
        self.lines.index_of(hash.bucket_bits())
    }

    /// The bucket of the keys with `hash`.
    #[inline(always)]
    pub fn bucket(&self, hash: KeyHash) -> CacheBucket<'_> {
        CacheBucket {
            line: self.lines.of_hash(hash.bucket_bits()),
        }
    }

    /// The bucket numbered `index`, from 0; that numbered 0 if there is no such bucket.
    #[inline(always)]
    pub fn bucket_at(&self, index: u64) -> CacheBucket<'_> {
        CacheBucket {
            line: self.lines.at(index),
        }
    }

    /// Addresses of the buckets, for prefetching.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        BucketLines::new(&self.lines)
    }

    /// Empties every bucket. Cost: writes the whole table.
    pub fn clear(&self) {
        self.lines.zero();
    }
}

impl CacheBucket<'_> {
    /// Address of the bucket's cache line, for prefetching.
    #[inline(always)]
    pub fn line(self) -> Line {
        self.line.line()
    }

    /// Slots of items with this tag; for tag 0 those that have no item: empty ones and ghosts.
    #[inline(always)]
    pub fn matches(self, tag: u16) -> SlotMask {
        SlotMask::new(self.line.match_high16(tag))
    }

    /// The slot with index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn slot(self, slot_index: usize) -> Slot {
        Slot::from_word(self.line.load(slot_index))
    }

    /// Stores `slot` at index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn set(self, slot_index: usize, slot: Slot) {
        self.line.store(slot_index, slot.word());
    }

    /// All slots of the bucket, empty ones included, in order.
    #[inline]
    pub fn slots(self) -> [Slot; CACHE_SLOTS] {
        std::array::from_fn(|i| self.slot(i))
    }

    /// Index of the slot whose item, with `tag`, is at `offset`; `None` if there is none.
    #[inline]
    pub fn slot_of(self, tag: u16, offset: u64) -> Option<usize> {
        self.matches(tag).find(|&i| self.slot(i).offset() == offset)
    }

    /// Index of the ghost with `tag`, and its time; `None` if there is none.
    #[inline]
    pub fn ghost_of(self, tag: u16) -> Option<(usize, u32)> {
        self.matches(0).find_map(|i| match self.slot(i).as_ghost() {
            Some((ghost, time)) if ghost == tag => Some((i, time)),
            _ => None,
        })
    }

    /// Index of a slot that has no item: an empty one, or else the ghost that is oldest at `time`; `None` if all have
    /// items.
    #[inline]
    pub fn free(self, time: u32) -> Option<usize> {
        let age = |i: &usize| match self.slot(*i).as_ghost() {
            Some((_, went)) => u64::from(time.wrapping_sub(went)),
            None => u64::MAX,
        };
        self.matches(0).max_by_key(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CacheTable {
        CacheTable::private(1, PageWish::Small).expect("memory")
    }

    #[test]
    fn a_free_slot_is_an_empty_one_before_the_oldest_ghost() {
        let table = table();
        let bucket = table.bucket_at(0);
        (0..8).for_each(|i| bucket.set(i, Slot::new(i as u16 + 1, 64 * i as u64)));
        assert_eq!(bucket.free(9), None);
        // The clock has wrapped: the ghost of slot 5 is the older one.
        bucket.set(2, Slot::ghost(3, 4));
        bucket.set(5, Slot::ghost(6, u32::MAX - 1));
        assert_eq!(bucket.free(9), Some(5));
        bucket.set(7, Slot::EMPTY);
        assert_eq!(bucket.free(9), Some(7));
        assert_eq!((bucket.ghost_of(6), bucket.ghost_of(4)), (Some((5, u32::MAX - 1)), None));
    }

    #[test]
    fn ghosts_are_not_found_as_items() {
        let table = table();
        let bucket = table.bucket_at(0);
        bucket.set(1, Slot::ghost(7, 1));
        bucket.set(4, Slot::new(7, 128).read());
        assert_eq!(bucket.matches(7).collect::<Vec<_>>(), [4]);
        assert_eq!((bucket.slot_of(7, 128), bucket.slot_of(7, 136)), (Some(4), None));
        table.clear();
        assert!(bucket.slots().iter().all(|slot| slot.is_empty()));
    }

    #[test]
    fn a_hash_has_one_bucket() {
        let table = CacheTable::private(5, PageWish::Small).expect("memory");
        for i in 0..1000u64 {
            let hash = KeyHash {
                low: i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                high: 0,
            };
            let index = table.bucket_index(hash);
            assert!(index < 5);
            assert_eq!(table.bucket(hash).line(), table.bucket_at(index).line());
        }
    }
}
