//! [`StoreTable`]: 7-slot buckets with chains of spare ones. It never evicts.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i, i < 7 | [`Slot`], little-endian, written by the table's owner only |
//! | 56 | 8 | next | the next bucket of the chain: number of a spare bucket from 1, 0 = none |
//!
//! Spare buckets are a tenth of the main ones, behind these; the owner may [add](StoreTable::add_spares) other lines of the
//! region. Free ones form a list through `next`, last in, first out. A deleted slot
//! is filled from the end of the chain, so only the last bucket of a chain has holes, and an emptied spare bucket
//! becomes free again *(stated in `[MICA §4.3.2]`, where the header also holds the version; ours is a
//! [`Seqlock`](crate::Seqlock) elsewhere, so that an unshared table does not pay for it)*.

use crate::{BUCKET_BYTES, BucketLines, STORE_SLOTS, Slot, SlotMask};
use drover_base::{KeyHash, Line};
use drover_mem::{AllocError, LineRef, LineTable, PageWish, Region};

/// Index of the word that links to the next bucket.
const NEXT: usize = STORE_SLOTS;

/// The bits of a [`SlotMask`] that are slots, not the link.
const SLOTS_MASK: u32 = (1 << STORE_SLOTS) - 1;

/// A table of [`Slot`]s that never evicts: 7-slot *main* buckets, of any number. A full bucket is followed by
/// a *spare* bucket, so that a key's bucket becomes a chain.
#[derive(Clone, Debug)]
pub struct StoreTable {
    main: LineTable,
    spare: LineTable,
    /// The region from its start on: lines that were added later as spare buckets are numbered behind the others, by
    /// their place here.
    lines: LineTable,
    /// Number of the first free spare bucket, 0 = none.
    free: u64,
}

/// A reference to one bucket of a [`StoreTable`], main or spare.
#[derive(Clone, Copy, Debug)]
pub struct StoreBucket<'t> {
    line: LineRef<'t>,
    /// Number of the spare bucket, 0 for a main bucket.
    spare_number: u64,
}

/// Position of a slot in a known chain: a bucket of the chain and an index in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotPosition {
    /// Number of the spare bucket, from 1; 0 = the main bucket.
    pub spare_number: u64,
    /// Index of the slot in that bucket, 0 to 6.
    pub slot_index: usize,
}

impl StoreTable {
    /// Number of spare buckets for `bucket_count` main ones: a tenth of them, rounded up.
    pub const fn spare_count(bucket_count: usize) -> usize {
        bucket_count.div_ceil(10)
    }

    /// Bytes of a table of `bucket_count` main buckets, and its spare ones.
    pub const fn bytes(bucket_count: usize) -> usize {
        (bucket_count + Self::spare_count(bucket_count)) * BUCKET_BYTES
    }

    /// Places a table of `bucket_count` main buckets, and spare ones, at offset `start` of `region`. That memory must
    /// be zero. The table is then empty.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31, or the buckets do not fit.
    pub fn new(region: Region, start: usize, bucket_count: usize) -> StoreTable {
        let mut table = StoreTable::resume(region, start, bucket_count, 0);
        table.link_spares();
        table
    }

    /// Resumes the table that an earlier owner left, unchanged since, in this memory. `free` is what its
    /// [`free`](StoreTable::free) returned.
    ///
    /// # Panics
    /// As [`new`](StoreTable::new).
    pub fn resume(region: Region, start: usize, bucket_count: usize, free: u64) -> StoreTable {
        let main_bytes = bucket_count * BUCKET_BYTES;
        let line_count = (region.len() / BUCKET_BYTES).min(1 << 31);
        StoreTable {
            main: LineTable::new(region.clone(), start, bucket_count),
            spare: LineTable::new(
                region.clone(),
                start + main_bytes,
                Self::spare_count(bucket_count),
            ),
            lines: LineTable::new(region, 0, line_count),
            free,
        }
    }

    /// Adds `count` lines of the region, from offset `start` on, as spare buckets, until the table is
    /// [cleared](StoreTable::clear). Nothing else may use them. Lines beyond 2^31 are left out.
    ///
    /// # Panics
    /// If `start` is not a multiple of 64.
    pub fn add_spares(&mut self, start: usize, count: usize) {
        assert!(start.is_multiple_of(BUCKET_BYTES), "a bucket at {start}");
        let first = (start / BUCKET_BYTES) as u64;
        for line in first..(first + count as u64).min(self.lines.capacity()) {
            let number = self.spare.capacity() + 1 + line;
            let added = self.spare(number);
            (0..STORE_SLOTS).for_each(|i| added.set(i, Slot::EMPTY));
            added.set_next(self.free);
            self.free = number;
        }
    }

    /// Which spare bucket is the first free one, numbered from 1; 0 = none is free. (For their count see
    /// [`free_spares`](StoreTable::free_spares).) Together with the memory this is the whole state of a table: see
    /// [`resume`](StoreTable::resume).
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Creates an empty table as [`new`](StoreTable::new) does, in newly allocated private memory.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `bucket_count` is not 1 to 2^31.
    pub fn private(bucket_count: usize, pages: PageWish) -> Result<StoreTable, AllocError> {
        let region = Region::private(Self::bytes(bucket_count), pages)?;
        Ok(StoreTable::new(region, 0, bucket_count))
    }

    /// Number of main buckets, without spare ones.
    pub fn bucket_count(&self) -> u64 {
        self.main.capacity()
    }

    /// Addresses of the main buckets, for prefetching.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        BucketLines::new(&self.main)
    }

    /// Empties every bucket and frees all spare ones; those that were added are no part of it any more. Cost: writes the
    /// whole table.
    pub fn clear(&mut self) {
        self.main.zero();
        self.spare.zero();
        self.link_spares();
    }

    fn link_spares(&mut self) {
        let count = Self::spare_count(self.bucket_count() as usize) as u64;
        for number in 1..=count {
            self.spare(number)
                .set_next(if number < count { number + 1 } else { 0 });
        }
        self.free = 1;
    }

    /// The main bucket of the keys with `hash`.
    #[inline(always)]
    pub fn bucket(&self, hash: KeyHash) -> StoreBucket<'_> {
        StoreBucket {
            line: self.main.of_hash(hash.bucket_bits()),
            spare_number: 0,
        }
    }

    /// Number of the main bucket of the keys with `hash`, from 0.
    #[inline(always)]
    pub fn bucket_index(&self, hash: KeyHash) -> u64 {
        self.main.spread().index_of(hash.bucket_bits())
    }

    /// The main bucket numbered `index`, from 0; that numbered 0 if there is no such bucket.
    #[inline(always)]
    pub fn bucket_at(&self, index: u64) -> StoreBucket<'_> {
        StoreBucket {
            line: self.main.at(index),
            spare_number: 0,
        }
    }

    /// The bucket after `bucket` in its chain; `None` if it is the last.
    #[inline(always)]
    pub fn next(&self, bucket: StoreBucket<'_>) -> Option<StoreBucket<'_>> {
        let number = bucket.line.load(NEXT);
        (number != 0).then(|| self.spare(number))
    }

    /// The bucket at `place` in the chain of `hash`.
    #[inline]
    pub fn bucket_of(&self, hash: KeyHash, place: SlotPosition) -> StoreBucket<'_> {
        if place.spare_number == 0 {
            self.bucket(hash)
        } else {
            self.spare(place.spare_number)
        }
    }

    #[inline]
    fn spare(&self, number: u64) -> StoreBucket<'_> {
        let at = number - 1;
        let line = match at.checked_sub(self.spare.capacity()) {
            None => self.spare.at(at),
            Some(line) => self.lines.at(line),
        };
        StoreBucket {
            line,
            spare_number: number,
        }
    }

    /// Finds a free slot in the chain of `hash`; appends a spare bucket to the chain if needed. The caller must store
    /// an entry there before it changes the chain again. `None` if the chain is full and no spare bucket is free.
    pub fn space(&mut self, hash: KeyHash) -> Option<SlotPosition> {
        let mut last = self.bucket(hash);
        loop {
            if let Some(slot_index) = last.matches(0).first() {
                return Some(SlotPosition {
                    spare_number: last.spare_number,
                    slot_index,
                });
            }
            match self.next(last) {
                Some(next) => last = next,
                None => break,
            }
        }
        let number = self.free;
        if number == 0 {
            return None;
        }
        let added = self.spare(number);
        let free = added.line.load(NEXT);
        added.set_next(0);
        last.set_next(number);
        self.free = free;
        Some(SlotPosition {
            spare_number: number,
            slot_index: 0,
        })
    }

    /// Removes the entry at `place` in the chain of `hash`: moves the last entry of the chain there, and frees the last
    /// bucket if it is a spare one and empty now.
    ///
    /// # Panics
    /// If the last bucket of the chain has no entry.
    pub fn remove(&mut self, hash: KeyHash, place: SlotPosition) {
        let mut before = None;
        let mut last = self.bucket(hash);
        while let Some(next) = self.next(last) {
            before = Some(last);
            last = next;
        }
        let hole = self.bucket_of(hash, place);
        let filled = SlotMask::new(!last.line.match_high16(0) & SLOTS_MASK);
        let filler = filled
            .last()
            .expect("the last bucket of a chain is never empty while one is to be removed");
        hole.set(place.slot_index, last.slot(filler));
        last.set(filler, Slot::EMPTY);
        let emptied = filled.is_single();
        if let (true, Some(before)) = (emptied, before) {
            let number = last.spare_number;
            before.set_next(0);
            last.set_next(self.free);
            self.free = number;
        }
    }

    /// Number of free spare buckets. Cost: walks their list.
    pub fn free_spares(&self) -> u64 {
        let (mut number, mut count) = (self.free, 0);
        while number != 0 {
            count += 1;
            number = self.spare(number).line.load(NEXT);
        }
        count
    }
}

impl StoreBucket<'_> {
    /// Address of the bucket's cache line, for prefetching.
    #[inline(always)]
    pub fn line(self) -> Line {
        self.line.line()
    }

    /// Position of the bucket's slot with index `slot_index`, 0 to 6.
    #[inline(always)]
    pub fn place(self, slot_index: usize) -> SlotPosition {
        SlotPosition {
            spare_number: self.spare_number,
            slot_index,
        }
    }

    /// Slots with this tag; for tag 0 the empty ones.
    #[inline(always)]
    pub fn matches(self, tag: u16) -> SlotMask {
        SlotMask::new(self.line.match_high16(tag) & SLOTS_MASK)
    }

    /// The slot with index `slot_index`, 0 to 6.
    #[inline(always)]
    pub fn slot(self, slot_index: usize) -> Slot {
        Slot::from_word(self.line.load(slot_index))
    }

    /// Stores `slot` at index `slot_index`, 0 to 6.
    #[inline(always)]
    pub fn set(self, slot_index: usize, slot: Slot) {
        self.line.store(slot_index, slot.word());
    }

    /// All slots of this bucket (not of its chain), empty ones included, in order.
    pub fn slots(self) -> [Slot; STORE_SLOTS] {
        std::array::from_fn(|i| self.slot(i))
    }

    fn set_next(self, number: u64) {
        self.line.store(NEXT, number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A hash of bucket `bucket`, of up to 64: the upper bits choose the bucket, so they are its bits in reverse.
    fn hash(bucket: u64) -> KeyHash {
        KeyHash {
            low: bucket.reverse_bits() | 5,
            high: 0,
        }
    }

    fn chain(table: &StoreTable, bucket: u64) -> Vec<Vec<u64>> {
        let mut out = Vec::new();
        let mut at = Some(table.bucket(hash(bucket)));
        while let Some(b) = at {
            out.push(
                b.slots()
                    .into_iter()
                    .filter(|s| !s.is_empty())
                    .map(Slot::offset)
                    .collect(),
            );
            at = table.next(b);
        }
        out
    }

    fn insert(table: &mut StoreTable, bucket: u64, offset: u64) -> bool {
        let Some(place) = table.space(hash(bucket)) else {
            return false;
        };
        table
            .bucket_of(hash(bucket), place)
            .set(place.slot_index, Slot::new(9, offset));
        true
    }

    fn remove(table: &mut StoreTable, bucket: u64, offset: u64) {
        let mut at = Some(table.bucket(hash(bucket)));
        while let Some(b) = at {
            if let Some(i) = b
                .slots()
                .iter()
                .position(|s| !s.is_empty() && s.offset() == offset)
            {
                let place = b.place(i);
                return table.remove(hash(bucket), place);
            }
            at = table.next(b);
        }
        panic!("{offset} is not in bucket {bucket}");
    }

    #[test]
    fn a_full_bucket_chains_and_the_chain_shrinks_again() {
        let mut table = StoreTable::private(16, PageWish::Small).expect("memory");
        assert_eq!(table.free_spares(), 2);
        (1..=20).for_each(|o| assert!(insert(&mut table, 3, o * 8)));
        assert_eq!(
            chain(&table, 3).iter().map(Vec::len).collect::<Vec<_>>(),
            [7, 7, 6]
        );
        assert_eq!(table.free_spares(), 0);
        (21..=21).for_each(|o| assert!(insert(&mut table, 3, o * 8)));
        assert!(!insert(&mut table, 3, 22 * 8), "no spare bucket is left");
        (0..7).for_each(|o| assert!(insert(&mut table, 4, 800 + o * 8)));
        assert!(!insert(&mut table, 4, 900));
        remove(&mut table, 3, 8);
        assert_eq!(chain(&table, 3)[0][0], 21 * 8, "the last entry fills the hole");
        (2..=20).for_each(|o| remove(&mut table, 3, o * 8));
        assert_eq!((chain(&table, 3), table.free_spares()), (vec![vec![21 * 8]], 2));
        remove(&mut table, 3, 21 * 8);
        assert_eq!(chain(&table, 3), [vec![]]);
        table.clear();
        assert_eq!((chain(&table, 4), table.free_spares()), (vec![vec![]], 2));
    }

    #[test]
    fn lines_that_are_added_are_spare_buckets_until_the_table_is_cleared() {
        let region = Region::private(1 << 16, PageWish::Small).expect("memory");
        let mut table = StoreTable::new(region, 1 << 15, 16);
        let mut offset = 0;
        let mut fill = |table: &mut StoreTable| {
            let before = offset;
            while insert(table, 3, offset + 8) {
                offset += 8;
            }
            (offset - before) / 8
        };
        assert_eq!(fill(&mut table), 7 * 3);
        table.add_spares(640, 4);
        assert_eq!((table.free_spares(), fill(&mut table)), (4, 7 * 4));
        let all: Vec<u64> = chain(&table, 3).into_iter().flatten().collect();
        assert_eq!(all, (1..=49).map(|n| 8 * n).collect::<Vec<_>>());
        (1..=49).for_each(|n| remove(&mut table, 3, 8 * n));
        assert_eq!((chain(&table, 3), table.free_spares()), (vec![vec![]], 6));
        table.clear();
        assert_eq!(table.free_spares(), 2);
    }

    const OPS_END: usize = if cfg!(miri) { 25 } else { 200 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        #[test]
        fn chains_hold_what_was_inserted(ops in prop::collection::vec((0u64..2, any::<prop::sample::Index>(), any::<bool>()), 1..OPS_END)) {
            let mut table = StoreTable::private(32, PageWish::Small).expect("memory");
            let mut model = [BTreeSet::new(), BTreeSet::new()];
            for (i, (bucket, pick, add)) in ops.into_iter().enumerate() {
                let set = &mut model[bucket as usize];
                if add {
                    let used = 4 - table.free_spares();
                    let fits = set.len() % 7 != 0 || set.is_empty() || used < 4;
                    let stored = insert(&mut table, bucket, 8 * (i as u64 + 1));
                    prop_assert_eq!(stored, fits);
                    if stored {
                        set.insert(8 * (i as u64 + 1));
                    }
                } else if !set.is_empty() {
                    let offset = *pick.get(&set.iter().collect::<Vec<_>>());
                    let offset = *offset;
                    set.remove(&offset);
                    remove(&mut table, bucket, offset);
                }
                for b in 0..2 {
                    let buckets = chain(&table, b);
                    let (last, full) = buckets.split_last().expect("one at least");
                    prop_assert!(full.iter().all(|b| b.len() == 7) && (full.is_empty() || !last.is_empty()));
                    let all: BTreeSet<u64> = buckets.into_iter().flatten().collect();
                    prop_assert_eq!(&all, &model[b as usize]);
                }
            }
        }
    }
}
