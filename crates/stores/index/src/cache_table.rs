//! [`CacheTable`]: 8-slot buckets without chains. If a bucket is full, an item *spills* into a free slot of the neighbour, or a
//! new item takes the slot of another.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i | [`Slot`], little-endian, written by the table's owner only |
//!
//! No header: the owner is one thread *(8 slots without header: stated in `[HERD §4.1]`; spilling: our choice)*. Buckets 2 n
//! and 2 n + 1 are neighbours. The mark in a bucket's first slot says that items of the bucket are in its neighbour, so a
//! look-up without result reads a second line only then.

use crate::{BUCKET_BYTES, BucketLines, CACHE_SLOTS, Slot, SlotMask};
use drover_base::{KeyHash, Line};
use drover_mem::{AllocError, LineRef, LineTable, PageWish, Region, Spread, WordRef, first_of};

/// A lossy table of [`Slot`]s: any number of 8-slot buckets, a cache line each. Its owner decides which entry of a full
/// bucket gives way to a new one. The number of buckets can change while the table is used, a bucket at a time.
#[derive(Clone, Debug)]
pub struct CacheTable {
    lines: LineTable,
    /// Number of buckets that the table has, or will have when all buckets have been moved.
    wanted: u64,
}

/// Result of [`CacheTable::move_buckets`].
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Whether that was the last bucket, so that the number of buckets is the wanted one.
    pub done: bool,
    /// Entries of items that are not in the table any more, because their new bucket and its neighbour are full of items. The
    /// other elements are empty.
    pub displaced: [Slot; 2 * CACHE_SLOTS],
}

/// A reference to one bucket of a [`CacheTable`].
#[derive(Clone, Copy, Debug)]
pub struct CacheBucket<'t> {
    line: LineRef<'t>,
}

/// A reference to one slot of a [`CacheTable`].
#[derive(Clone, Copy, Debug)]
pub struct SlotRef<'t> {
    word: WordRef<'t>,
}

impl SlotRef<'_> {
    /// Address of the bucket's cache line.
    #[inline(always)]
    pub fn line(self) -> Line {
        self.word.line()
    }

    /// The entry.
    #[inline(always)]
    pub fn get(self) -> Slot {
        Slot::from_word(self.word.load())
    }

    /// Stores an entry made from what [`get`](SlotRef::get) has just returned, so that the bucket's mark stays.
    #[inline(always)]
    pub fn update(self, slot: Slot) {
        self.word.store(slot.word());
    }

    /// Stores `new`, made from `old`, if the entry is still `old`: for threads other than the owner, which change only the
    /// counts of uses. What the owner stores meanwhile stays.
    #[inline]
    pub fn try_update(self, old: Slot, new: Slot) {
        self.word.replace(old.word(), new.word());
    }
}

impl CacheTable {
    /// Places a table of `bucket_count` buckets at offset `start` of `region`, with the entries that are in this memory
    /// already: zeros are an empty table.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31, or the buckets do not fit.
    pub fn new(region: Region, start: usize, bucket_count: usize) -> CacheTable {
        CacheTable {
            lines: LineTable::new(region, start, bucket_count),
            wanted: bucket_count as u64,
        }
    }

    /// Creates an empty table as [`new`](CacheTable::new) does, in newly allocated private memory.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31.
    pub fn private(bucket_count: usize, pages: PageWish) -> Result<CacheTable, AllocError> {
        let region = Region::private(bucket_count * BUCKET_BYTES, pages)?;
        Ok(CacheTable::new(region, 0, bucket_count))
    }

    /// Number of buckets; while it changes, the larger of the old and the new number.
    pub fn bucket_count(&self) -> u64 {
        self.lines.spread().lines()
    }

    /// Number of buckets that there is memory for.
    pub fn capacity(&self) -> u64 {
        self.lines.capacity()
    }

    /// How hashes are spread over the buckets.
    pub fn spread(&self) -> Spread {
        self.lines.spread()
    }

    /// Number of buckets that the table has, or will have when all buckets have been moved.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Continues with the table that an earlier owner left in this memory. `spread` and `wanted` are what its
    /// [`spread`](CacheTable::spread) and [`wanted`](CacheTable::wanted) returned. Returns `false`, and changes nothing,
    /// if they are impossible.
    pub fn resume(&mut self, spread: Spread, wanted: u64) -> bool {
        let fits = |count| (1..=self.lines.capacity()).contains(&count);
        let sound = fits(spread.low)
            && fits(spread.high)
            && spread.low <= spread.high
            && (wanted == spread.low || wanted == spread.high);
        if sound {
            self.lines.set_spread(spread);
            self.wanted = wanted;
        }
        sound
    }

    /// Whether the number of buckets is being changed.
    #[inline(always)]
    pub fn is_resizing(&self) -> bool {
        let spread = self.lines.spread();
        spread.low != spread.high
    }

    /// Begins to change the number of buckets to `count`. [`move_buckets`](CacheTable::move_buckets) must be called until it
    /// is done; meanwhile every key is found. Buckets that are added must be zero.
    ///
    /// # Panics
    /// If the number is already being changed, or there is no space for so many.
    pub fn begin_resize(&mut self, count: u64) {
        assert!(!self.is_resizing(), "a change inside a change");
        let old = self.lines.spread().high;
        self.wanted = count;
        // Buckets of a growing table move upwards, the last one first; those of a shrinking one downwards, the first one
        // first. So a bucket's new place is free of entries that are still to be moved, but for those of that bucket and
        // its neighbour, which move together.
        self.lines.set_spread(match count > old {
            true => Spread {
                low: old,
                high: count,
                boundary: u64::MAX,
            },
            false => Spread {
                low: count,
                high: old,
                boundary: 0,
            },
        });
    }

    /// Moves the items of two more buckets, neighbours, to where they belong from now on; their ghosts are dropped. `hash_of`
    /// returns the [bucket bits](KeyHash::bucket_bits) of an item's key; `time` is as for [`free`](CacheBucket::free).
    /// Items spill if `spills`. Does nothing if the number of buckets is not being changed.
    pub fn move_buckets(&mut self, time: u32, spills: bool, hash_of: impl Fn(Slot) -> u64) -> Moved {
        let Spread { low, high, boundary } = self.lines.spread();
        let mut displaced = [Slot::EMPTY; 2 * CACHE_SLOTS];
        if low == high {
            return Moved {
                done: true,
                displaced,
            };
        }
        let grows = self.wanted == high;
        let (old, new) = if grows { (low, high) } else { (high, low) };
        // The bucket next to the boundary, on the side that is still spread as before.
        let last = if grows { boundary - 1 } else { boundary };
        let index = ((u128::from(last) * u128::from(old)) >> 64) as u64;
        let (first, end) = (index & !1, old.min((index | 1) + 1));
        let done = if grows { first == 0 } else { end == old };
        let boundary = match done {
            true => 0,
            false => first_of(if grows { first } else { end }, old) as u64,
        };
        let mut slots = [Slot::EMPTY; 2 * CACHE_SLOTS];
        for (index, slots) in (first..end).zip(slots.chunks_exact_mut(CACHE_SLOTS)) {
            let bucket = self.bucket_at(index);
            slots.copy_from_slice(&bucket.slots());
            bucket.clear();
        }
        self.lines.set_spread(match done {
            true => Spread::even(new),
            false => Spread { low, high, boundary },
        });
        for (i, slot) in slots.into_iter().enumerate().filter(|(_, slot)| slot.is_item()) {
            let hash = hash_of(slot);
            match self.space(hash, time, spills) {
                Some(place) => self.store(hash, place, slot),
                None => displaced[i] = slot,
            }
        }
        Moved { done, displaced }
    }

    /// Bucket and slot index of a slot without an item for a key with the bucket bits `hash`: in its own bucket or, if that is
    /// full and the item may spill, in the neighbour. `time` is as for [`free`](CacheBucket::free).
    #[inline]
    pub fn space(&self, hash: u64, time: u32, spills: bool) -> Option<(u64, usize)> {
        let own = self.lines.spread().index_of(hash);
        let space = |index: u64| self.bucket_at(index).free(time).map(|i| (index, i));
        space(own).or_else(|| space(self.neighbour_of(hash).filter(|_| spills)?))
    }

    /// Stores the entry of an item whose key has the bucket bits `hash` in a slot of its own bucket or of the neighbour.
    #[inline]
    pub fn store(&self, hash: u64, (index, i): (u64, usize), slot: Slot) {
        let own = self.lines.spread().index_of(hash);
        self.bucket_at(index).set(i, slot.with_spilled(index != own));
        if index != own {
            self.bucket_at(own).mark_spilled(true);
        }
    }

    /// Replaces the entry of an item in slot `i` of bucket `index` by `after`, which has no item. A ghost is dropped if the
    /// item is not in its own bucket, where it would be looked for.
    #[inline]
    pub fn remove(&self, index: u64, i: usize, after: Slot) {
        let bucket = self.bucket_at(index);
        if !bucket.slot(i).is_spilled() {
            return bucket.set(i, after);
        }
        bucket.set(i, Slot::EMPTY);
        if !bucket.slots().iter().any(|slot| slot.is_spilled()) {
            self.bucket_at(index ^ 1).mark_spilled(false);
        }
    }

    /// Number of the bucket that takes the items for which the bucket of the keys with the bucket bits `hash` has no space;
    /// `None` for the last one of an odd number of buckets.
    #[inline]
    pub fn neighbour_of(&self, hash: u64) -> Option<u64> {
        let spread = self.lines.spread();
        let index = spread.index_of(hash) ^ 1;
        (index < spread.count_of(hash)).then_some(index)
    }

    /// Number of the bucket of the keys with `hash`, from 0.
    #[inline(always)]
    pub fn bucket_index(&self, hash: KeyHash) -> u64 {
        self.lines.spread().index_of(hash.bucket_bits())
    }

    /// The bucket of the keys with `hash`, and its number.
    #[inline(always)]
    pub fn numbered_bucket(&self, hash: KeyHash) -> (u64, CacheBucket<'_>) {
        (self.bucket_index(hash), self.bucket(hash))
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

    /// The slot numbered `number`: 8 times the number of its bucket, and its index there. That numbered 0 if there is no
    /// such slot.
    #[inline(always)]
    pub fn slot_ref(&self, number: u64) -> SlotRef<'_> {
        SlotRef {
            word: self.lines.word(number),
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

impl<'t> CacheBucket<'t> {
    /// The slot with index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn slot_ref(self, slot_index: usize) -> SlotRef<'t> {
        SlotRef {
            word: self.line.word_ref(slot_index),
        }
    }

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

    /// Stores `slot` at index `slot_index`, 0 to 7. The bucket's mark stays.
    #[inline(always)]
    pub fn set(self, slot_index: usize, slot: Slot) {
        let mark = self.line.load(slot_index) & Slot::MARK;
        self.line.store(slot_index, slot.word() & !Slot::MARK | mark);
    }

    /// Whether items of this bucket may be in its neighbour.
    #[inline(always)]
    pub fn has_spilled(self) -> bool {
        self.line.load(0) & Slot::MARK != 0
    }

    fn mark_spilled(self, has_spilled: bool) {
        let mark = if has_spilled { Slot::MARK } else { 0 };
        self.line.store(0, self.line.load(0) & !Slot::MARK | mark);
    }

    /// Empties all slots and removes the mark.
    fn clear(self) {
        (0..CACHE_SLOTS).for_each(|i| self.line.store(i, 0));
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

    /// Index of the slot with a ghost with `tag`; `None` if there is none.
    #[inline]
    pub fn ghost_of(self, tag: u16) -> Option<usize> {
        self.matches(0).find(|&i| self.slot(i).ghost_tag() == Some(tag))
    }

    /// Index of a slot that has no item: an empty one, or else the ghost that is oldest at `time`; `None` if all have
    /// items.
    #[inline]
    pub fn free(self, time: u32) -> Option<usize> {
        let mut oldest = None;
        for i in self.matches(0) {
            let slot = self.slot(i);
            if slot.is_empty() {
                return Some(i);
            }
            let age = slot.ghost_age(time);
            if oldest.is_none_or(|(_, most)| age > most) {
                oldest = Some((i, age));
            }
        }
        oldest.map(|(i, _)| i)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!((bucket.ghost_of(6), bucket.ghost_of(4)), (Some(5), None));
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

    /// A table with space for `capacity` buckets, of which `count` are in use, with entries for `items` random hashes; and
    /// those hashes. The offset of an item is 8 times its number.
    fn filled(seed: u64, capacity: usize, count: u64, items: u64) -> (CacheTable, Vec<KeyHash>) {
        let mut table = CacheTable::private(capacity, PageWish::Small).expect("memory");
        assert!(table.resume(Spread::even(count), count));
        let mut rng = drover_base::Rng::new(seed, 0, 0);
        let mut hashes = Vec::new();
        for number in 0..items {
            let hash = KeyHash {
                low: rng.next_u64(),
                high: 0,
            };
            if let Some(place) = table.space(hash.bucket_bits(), 0, true) {
                table.store(hash.bucket_bits(), place, Slot::new(hash.tag(), 8 * number));
            }
            hashes.push(hash);
        }
        (table, hashes)
    }

    /// Numbers of the items that a look-up finds: in their own bucket, or in the neighbour if the mark says so.
    fn found(table: &CacheTable, hashes: &[KeyHash]) -> Vec<u64> {
        let is_there = |&number: &u64| {
            let hash = hashes[number as usize];
            let is_in = |bucket: CacheBucket<'_>| bucket.slot_of(hash.tag(), 8 * number).is_some();
            let own = table.bucket(hash);
            let neighbour = table
                .neighbour_of(hash.bucket_bits())
                .filter(|_| own.has_spilled());
            is_in(own) || neighbour.is_some_and(|index| is_in(table.bucket_at(index)))
        };
        (0..hashes.len() as u64).filter(is_there).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 16 }))]

        #[test]
        fn a_table_of_another_size_has_the_same_items_at_every_step(seed in any::<u64>()) {
            keeps_its_items(seed);
        }

        #[test]
        fn the_mark_goes_with_the_last_spilled_item(seed in any::<u64>()) {
            marks_go(seed);
        }
    }

    fn keeps_its_items(seed: u64) {
        for (from, to) in [(1, 7), (5, 6), (40, 45), (7, 3), (64, 1), (9, 200), (12, 30)] {
            let capacity = from.max(to) as usize;
            let (mut table, hashes) = filled(seed, capacity, from, 6 * from.min(to));
            let mut want = found(&table, &hashes);
            let stored = entries(&table).filter(|slot| slot.is_item()).count();
            assert_eq!(want.len(), stored, "every item is found");
            table.begin_resize(to);
            for step in 1.. {
                let moved =
                    table.move_buckets(0, true, |slot| hashes[slot.offset() as usize / 8].bucket_bits());
                let gone = moved.displaced.into_iter().filter(|slot| slot.is_item());
                for slot in gone {
                    want.retain(|&number| number != slot.offset() / 8);
                }
                assert_eq!(found(&table, &hashes), want, "{from} to {to}, step {step}");
                if moved.done {
                    assert_eq!(step, from.div_ceil(2), "each pair of buckets is moved once");
                    break;
                }
            }
            assert_eq!(table.spread(), Spread::even(to));
            let items = entries(&table).filter(|slot| slot.is_item()).count();
            assert_eq!(items, want.len(), "nothing is left behind");
        }
    }

    /// All slots that there is memory for.
    fn entries(table: &CacheTable) -> impl Iterator<Item = Slot> {
        (0..table.capacity()).flat_map(|index| table.bucket_at(index).slots())
    }

    /// Every item of two full buckets leaves, in random order: the marks are exact at every step.
    fn marks_go(seed: u64) {
        let mut rng = drover_base::Rng::new(seed, 1, 0);
        let (table, hashes) = filled(seed, 2, 2, 40);
        let mut left = found(&table, &hashes);
        assert_eq!(left.len(), 16, "both are full");
        while !left.is_empty() {
            let number = left.swap_remove(rng.below(left.len() as u64) as usize);
            let (index, i) = (0..2)
                .find_map(|index| {
                    let tag = hashes[number as usize].tag();
                    Some((index, table.bucket_at(index).slot_of(tag, 8 * number)?))
                })
                .expect("it is there");
            table.remove(index, i, Slot::ghost(1, 0));
            let mut after = found(&table, &hashes);
            after.sort_unstable();
            left.sort_unstable();
            assert_eq!(after, left);
            for index in 0..2 {
                let spilled = table
                    .bucket_at(index ^ 1)
                    .slots()
                    .iter()
                    .any(|slot| slot.is_spilled());
                assert_eq!(table.bucket_at(index).has_spilled(), spilled);
            }
        }
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
