//! [`HeapIndex`]: what an index of items in a heap must offer, and the two that there are.

use crate::reader::View;
use drover_base::{Cpu, KeyHash, Line};
use drover_index::{
    BUCKET_BYTES, BucketLines, CACHE_SLOTS, LruTable, STORE_SLOTS, Slot, SlotMask, SlotPosition, StoreTable,
};
use drover_mem::Region;
use std::fmt::Debug;

/// An index whose items are in a heap. The *first* bucket of a key is the one that its hash names; chains go on from there.
pub(crate) trait HeapIndex: Debug {
    /// Whether items are evicted where a PUT finds no space.
    const EVICTS: bool;
    /// Slots of a bucket.
    const SLOTS: usize;

    /// Bytes of an index of `bucket_count` buckets.
    fn bytes(bucket_count: usize) -> usize;
    /// An empty index in zeroed memory; or, with the [`free`](HeapIndex::free) of an earlier one, that one again.
    fn in_region(region: Region, start: usize, bucket_count: usize, free: Option<u64>) -> Self;
    /// The state of the index that is not in its memory.
    fn free(&self) -> u64;
    /// The index for readers on other threads, if they can follow its changes.
    fn view(&self) -> Option<View>;

    fn bucket_count(&self) -> u64;
    fn bucket_index(&self, hash: KeyHash) -> u64;
    fn bucket_lines(&self) -> BucketLines;
    /// Address of the bucket behind the first one numbered `index`.
    fn next_line(&self, index: u64) -> Option<Line>;
    /// Address of the first bucket of `hash`, and the slots with its tag.
    fn candidates(&self, hash: KeyHash) -> (Line, SlotMask);
    /// Slot `i` of the first bucket of `hash`.
    fn slot(&self, hash: KeyHash, i: usize) -> Slot;

    /// Position and offset of the item of `hash` for which `is_own` returns true.
    fn find<C: Cpu>(
        &self,
        cpu: &C,
        hash: KeyHash,
        is_own: impl FnMut(u64) -> bool,
    ) -> Option<(SlotPosition, u64)>;
    /// Replaces an entry.
    fn set(&self, hash: KeyHash, place: SlotPosition, slot: Slot);
    /// Adds an entry; `false` if there is no space.
    fn insert(&mut self, hash: KeyHash, slot: Slot) -> bool;
    fn remove(&mut self, hash: KeyHash, place: SlotPosition);
    /// Adds lines of the heap as buckets, as [`StoreTable::add_spares`] does.
    fn add_spares(&mut self, start: usize, count: usize);
    fn clear(&mut self);
    /// Calls `visit` with the items' entries of the first bucket numbered `index` and its chain.
    fn each(&self, index: u64, visit: impl FnMut(Slot));

    /// Notes a use of the entry in slot `i` of the first bucket of `hash`, which is `slot` from then on.
    fn used(&self, hash: KeyHash, i: usize, slot: Slot);
    /// The entry of the bucket numbered `index` that was used longest ago.
    fn oldest(&self, index: u64) -> Option<Slot>;
    /// Removes the entry of the item at `offset` from the bucket numbered `index`; `false` if it is not there.
    fn evict(&self, index: u64, offset: u64) -> bool;
}

impl HeapIndex for StoreTable {
    const EVICTS: bool = false;
    const SLOTS: usize = STORE_SLOTS;

    fn bytes(bucket_count: usize) -> usize {
        StoreTable::bytes(bucket_count)
    }

    fn in_region(region: Region, start: usize, bucket_count: usize, free: Option<u64>) -> StoreTable {
        match free {
            None => StoreTable::new(region, start, bucket_count),
            Some(free) => StoreTable::resume(region, start, bucket_count, free),
        }
    }

    fn free(&self) -> u64 {
        StoreTable::free(self)
    }

    fn view(&self) -> Option<View> {
        Some(View::Store(self.clone()))
    }

    fn bucket_count(&self) -> u64 {
        StoreTable::bucket_count(self)
    }

    #[inline(always)]
    fn bucket_index(&self, hash: KeyHash) -> u64 {
        StoreTable::bucket_index(self, hash)
    }

    #[inline(always)]
    fn bucket_lines(&self) -> BucketLines {
        StoreTable::bucket_lines(self)
    }

    #[inline(always)]
    fn next_line(&self, index: u64) -> Option<Line> {
        self.next(self.bucket_at(index)).map(|next| next.line())
    }

    #[inline(always)]
    fn candidates(&self, hash: KeyHash) -> (Line, SlotMask) {
        let bucket = self.bucket(hash);
        (bucket.line(), bucket.matches(hash.tag()))
    }

    #[inline(always)]
    fn slot(&self, hash: KeyHash, i: usize) -> Slot {
        self.bucket(hash).slot(i)
    }

    fn find<C: Cpu>(
        &self,
        cpu: &C,
        hash: KeyHash,
        mut is_own: impl FnMut(u64) -> bool,
    ) -> Option<(SlotPosition, u64)> {
        let mut at = Some(self.bucket(hash));
        while let Some(bucket) = at {
            cpu.touch(bucket.line());
            for i in bucket.matches(hash.tag()) {
                let offset = bucket.slot(i).offset();
                if is_own(offset) {
                    return Some((bucket.place(i), offset));
                }
            }
            at = self.next(bucket);
        }
        None
    }

    #[inline]
    fn set(&self, hash: KeyHash, place: SlotPosition, slot: Slot) {
        self.bucket_of(hash, place).set(place.slot_index, slot);
    }

    #[inline]
    fn insert(&mut self, hash: KeyHash, slot: Slot) -> bool {
        let Some(place) = self.space(hash) else {
            return false;
        };
        self.set(hash, place, slot);
        true
    }

    fn remove(&mut self, hash: KeyHash, place: SlotPosition) {
        StoreTable::remove(self, hash, place);
    }

    fn add_spares(&mut self, start: usize, count: usize) {
        StoreTable::add_spares(self, start, count);
    }

    fn clear(&mut self) {
        StoreTable::clear(self);
    }

    fn each(&self, index: u64, mut visit: impl FnMut(Slot)) {
        let mut at = Some(self.bucket_at(index));
        while let Some(bucket) = at {
            bucket
                .slots()
                .into_iter()
                .filter(|slot| !slot.is_empty())
                .for_each(&mut visit);
            at = self.next(bucket);
        }
    }

    #[inline(always)]
    fn used(&self, _: KeyHash, _: usize, _: Slot) {}

    fn oldest(&self, _: u64) -> Option<Slot> {
        None
    }

    fn evict(&self, _: u64, _: u64) -> bool {
        false
    }
}

impl HeapIndex for LruTable {
    const EVICTS: bool = true;
    const SLOTS: usize = CACHE_SLOTS;

    fn bytes(bucket_count: usize) -> usize {
        bucket_count * BUCKET_BYTES
    }

    fn in_region(region: Region, start: usize, bucket_count: usize, _: Option<u64>) -> LruTable {
        LruTable::new(region, start, bucket_count)
    }

    fn free(&self) -> u64 {
        0
    }

    /// Readers would have to begin anew after every GET of the owner.
    fn view(&self) -> Option<View> {
        None
    }

    fn bucket_count(&self) -> u64 {
        LruTable::bucket_count(self)
    }

    #[inline(always)]
    fn bucket_index(&self, hash: KeyHash) -> u64 {
        LruTable::bucket_index(self, hash)
    }

    #[inline(always)]
    fn bucket_lines(&self) -> BucketLines {
        LruTable::bucket_lines(self)
    }

    #[inline(always)]
    fn next_line(&self, _: u64) -> Option<Line> {
        None
    }

    #[inline(always)]
    fn candidates(&self, hash: KeyHash) -> (Line, SlotMask) {
        let bucket = self.bucket(hash);
        (bucket.line(), bucket.matches(hash.tag()))
    }

    #[inline(always)]
    fn slot(&self, hash: KeyHash, i: usize) -> Slot {
        self.bucket(hash).slot(i)
    }

    fn find<C: Cpu>(
        &self,
        cpu: &C,
        hash: KeyHash,
        mut is_own: impl FnMut(u64) -> bool,
    ) -> Option<(SlotPosition, u64)> {
        let bucket = self.bucket(hash);
        cpu.touch(bucket.line());
        let own = bucket
            .matches(hash.tag())
            .find(|&i| is_own(bucket.slot(i).offset()))?;
        let place = SlotPosition {
            spare_number: 0,
            slot_index: own,
        };
        Some((place, bucket.slot(own).offset()))
    }

    #[inline]
    fn set(&self, hash: KeyHash, place: SlotPosition, slot: Slot) {
        self.bucket(hash).set(place.slot_index, slot);
    }

    #[inline]
    fn insert(&mut self, hash: KeyHash, slot: Slot) -> bool {
        self.bucket(hash).insert(slot)
    }

    fn remove(&mut self, hash: KeyHash, place: SlotPosition) {
        self.bucket(hash).remove(place.slot_index);
    }

    fn add_spares(&mut self, _: usize, _: usize) {}

    fn clear(&mut self) {
        LruTable::clear(self);
    }

    fn each(&self, index: u64, visit: impl FnMut(Slot)) {
        let slots = self.bucket_at(index).slots();
        slots.into_iter().filter(|slot| !slot.is_empty()).for_each(visit);
    }

    #[inline]
    fn used(&self, hash: KeyHash, i: usize, slot: Slot) {
        let bucket = self.bucket(hash);
        if i > 0 || bucket.slot(0) != slot {
            bucket.used(i, slot);
        }
    }

    fn oldest(&self, index: u64) -> Option<Slot> {
        let bucket = self.bucket_at(index);
        bucket.oldest().map(|i| bucket.slot(i))
    }

    fn evict(&self, index: u64, offset: u64) -> bool {
        let bucket = self.bucket_at(index);
        let at = bucket
            .slots()
            .iter()
            .position(|slot| !slot.is_empty() && slot.offset() == offset);
        if let Some(i) = at {
            bucket.remove(i);
        }
        at.is_some()
    }
}
