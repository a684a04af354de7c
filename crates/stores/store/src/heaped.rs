//! [`Heaped`]: items in a heap, under an index of chained buckets (store mode) or of buckets in the order of use (LRU mode).
//! Every item has terms, so a change of its expiry needs no space.
//!
//! ```text
//! put:  own item whose chunk is the size needed -> overwrite it
//!       else allocate, write, update the slot, and only then free the old chunk
//!       no chunk or no space in the index -> Full, and the old value is kept; in LRU mode others are evicted
//! ```
//! If there is no spare bucket, an elastic store takes memory for some from the heap, and keeps it until it is cleared.

use crate::PartitionOptions;
use crate::frozen::State;
use crate::heap::Heap;
use crate::item::{self, Body, Fields, Head, ItemRef, Key, Kind, Terms, Value};
use crate::partition::{self, Hint, Limits, PutOutcome, next_version};
use crate::reader::View;
use crate::sharing::Sharing;
use crate::stats::{Counters, PartitionStats};
use crate::watch::Watch;
use drover_base::{Condition, Cpu, KeyHash, KeyHasher};
use drover_index::{BucketLines, CACHE_SLOTS, Slot, SlotPosition};
use drover_mem::{BoundedRegion, LINE_BYTES, Region, Spread, round_up};

mod either;
mod evict;
mod extras;
mod index;

pub(crate) use either::EitherHeaped;
pub(crate) use index::HeapIndex;

/// Unused bytes of an item's chunk above which the item moves to a chunk of its size.
const WASTE_BYTES_MAX: usize = 24;
/// Spare buckets for which the index takes memory at once.
const SPARES_TAKEN: usize = 16;

/// Index, heap, one owner.
#[derive(Debug)]
pub(crate) struct Heaped<S, T> {
    table: T,
    heap: Heap,
    /// Whether the index may take memory from the heap.
    elastic: bool,
    /// Bytes that it has taken.
    taken_bytes: u64,
    limits: Limits,
    pub(crate) version: u64,
    sharing: S,
    counters: Counters,
    /// Buffer for a value that is copied from one item to another.
    scratch: Vec<u8>,
    hasher: Option<Box<KeyHasher>>,
    watch: Watch,
    /// Time of the current PUT, or of the current change of an item.
    now_s: u32,
    /// Bucket whose oldest item is evicted next, if another's memory is needed.
    hand: u64,
}

/// The key's slot and its item's offset.
type Found = Option<(SlotPosition, u64)>;

impl<S: Sharing, T: HeapIndex> Heaped<S, T> {
    /// A store in zeroed memory of [`Partition::memory_bytes`](crate::Partition::memory_bytes).
    pub(crate) fn in_region(options: &PartitionOptions, sharing: S, region: Region) -> Self {
        let table = T::in_region(region.clone(), options.log_bytes, options.bucket_count, None);
        let heap = Heap::new(BoundedRegion::new(region, options.log_bytes));
        Heaped::of(options, sharing, table, heap)
    }

    /// Continues with the state of an earlier partition in this memory, whose items are at the offsets `used`, sorted.
    /// `None` if the memory does not match; then it is unchanged.
    pub(crate) fn resume(
        options: &PartitionOptions,
        sharing: S,
        region: Region,
        state: &State,
        used: &[u64],
    ) -> Option<Self> {
        if used.len() as u64 != state.items {
            return None;
        }
        let heap = Heap::resume(BoundedRegion::new(region.clone(), options.log_bytes), used)?;
        let table = T::in_region(region, options.log_bytes, options.bucket_count, Some(state.free));
        let mut store = Heaped::of(options, sharing, table, heap);
        store.version = state.version;
        store.counters.items = state.items;
        Some(store)
    }

    fn of(options: &PartitionOptions, sharing: S, table: T, heap: Heap) -> Self {
        sharing.begin_move();
        sharing.end_move(Spread::even(table.bucket_count()));
        Heaped {
            table,
            heap,
            elastic: options.elastic && !T::EVICTS,
            taken_bytes: 0,
            limits: Limits::new(options, Heap::space_max(options.log_bytes)),
            version: 0,
            sharing,
            counters: Counters::default(),
            scratch: Vec::new(),
            hasher: options.hash_seed.map(|seed| Box::new(seed.hasher())),
            watch: Watch::default(),
            now_s: 0,
            hand: 0,
        }
    }

    pub(crate) fn state(&self) -> State {
        State {
            version: self.version,
            free: self.table.free(),
            items: self.counters.items,
            ..State::default()
        }
    }

    pub(crate) fn memory(&self) -> &BoundedRegion {
        self.heap.memory()
    }

    pub(crate) fn watch(&mut self) -> &mut Watch {
        &mut self.watch
    }

    pub(crate) fn sharing(&self) -> &S {
        &self.sharing
    }

    /// The index, for a reader.
    pub(crate) fn view(&self) -> Option<View> {
        self.table.view()
    }

    #[inline(always)]
    pub(crate) fn bucket_lines(&self) -> BucketLines {
        self.table.bucket_lines()
    }

    #[inline(always)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        let index = self.table.bucket_index(hash);
        let (line, candidates) = self.table.candidates(hash);
        cpu.touch(line);
        for i in candidates {
            let place = self.heap.place(self.table.slot(hash, i).offset());
            cpu.prefetch(place.line(0));
            cpu.prefetch(place.line(drover_mem::LINE_BYTES));
        }
        if let Some(next) = self.table.next_line(index) {
            cpu.prefetch(next);
        }
        candidates.first().map_or(Hint::NONE, |i| Hint::new(index, i))
    }

    /// Offset of the key's item.
    pub(crate) fn get_offset<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        now_s: u32,
        hint: Hint,
    ) -> Option<u64> {
        let key = Key { hash, bytes };
        let (line, candidates) = self.table.candidates(hash);
        cpu.touch(line);
        let hinted = hint.slot_number().map(|number| number as usize % CACHE_SLOTS);
        let at = hinted.filter(|&i| i < T::SLOTS).or_else(|| candidates.first());
        if let Some(i) = at
            && let slot = self.table.slot(hash, i)
            && !slot.is_empty()
        {
            let place = self.heap.place(slot.offset());
            cpu.touch(place.line(0));
            let head = Head::load(place);
            if item::is_own(place, head, key) && !head.is_expired(place, now_s) {
                self.counters.hits += 1;
                item::touch_rest(cpu, place, head);
                self.table.used(hash, i, slot.with_read(true));
                return Some(slot.offset());
            }
        }
        self.get_slow(cpu, key, now_s)
    }

    #[inline(never)]
    fn get_slow<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        let Some((slot_place, offset)) = self.find_live(cpu, key, now_s) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        self.note_use(key.hash, slot_place, |slot| slot.with_read(true));
        let place = self.heap.place(offset);
        item::touch_rest(cpu, place, Head::load(place));
        Some(offset)
    }

    /// The key's slot and live item; an expired item is removed.
    fn find_live<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<(SlotPosition, u64)> {
        let (slot_place, offset) = self.find(cpu, key)?;
        if ItemRef::new(self.heap.place(offset)).is_expired(now_s) {
            self.remove(key.hash, slot_place, offset);
            self.counters.expired += 1;
            return None;
        }
        Some((slot_place, offset))
    }

    /// The key's slot and item, expired or not.
    fn find<C: Cpu>(&self, cpu: &C, key: Key<'_>) -> Found {
        self.table.find(cpu, key.hash, |offset| {
            let place = self.heap.place(offset);
            cpu.touch(place.line(0));
            item::is_own_there(place, key)
        })
    }

    /// Notes a use of the entry at `slot_place` in LRU mode.
    #[inline(always)]
    fn note_use(&self, hash: KeyHash, slot_place: SlotPosition, after: impl Fn(Slot) -> Slot) {
        if T::EVICTS {
            let i = slot_place.slot_index;
            self.table.used(hash, i, after(self.table.slot(hash, i)));
        }
    }

    fn remove(&mut self, hash: KeyHash, slot_place: SlotPosition, offset: u64) {
        self.sharing.begin_write(self.table.bucket_index(hash));
        self.table.remove(hash, slot_place);
        self.sharing.end_write(self.table.bucket_index(hash));
        self.heap.free(offset);
        self.counters.items -= 1;
    }

    pub(crate) fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        if !self.limits.allow(key, value.len(), Kind::Terms) {
            self.counters.too_large += 1;
            return PutOutcome::TooLarge;
        }
        self.now_s = now_s;
        let found = self.find(cpu, key);
        if condition != Condition::Always
            && let Some(refusal) = self.refuse(found, now_s, condition)
        {
            return refusal;
        }
        let next = next_version(self.version);
        let version = item::version_of(next);
        let fields = Fields::Terms(Terms { expire_s, flags: 0 });
        let body = Body {
            version,
            fields,
            value,
        };
        if self.place_item(cpu, key, &body, found).is_none() {
            self.counters.full += 1;
            return PutOutcome::Full;
        }
        self.version = next;
        PutOutcome::Stored { version }
    }

    /// Writes the item; returns its offset, `None` if there is no space.
    #[inline(always)]
    fn place_item<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        found: Found,
    ) -> Option<u64> {
        match found {
            Some((slot_place, offset)) => self.replace(cpu, key, body, slot_place, offset),
            None => self.insert(cpu, key, body),
        }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one call, all of it the PUT")]
    fn replace<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        slot_place: SlotPosition,
        old: u64,
    ) -> Option<u64> {
        let need = item::bytes_of(key, body);
        let space = self.heap.space(old);
        if space >= need && space - need <= WASTE_BYTES_MAX {
            return Some(self.overwrite(cpu, key, body, slot_place, old));
        }
        let Some(new) = self.heap.allocate(need) else {
            if space >= need {
                return Some(self.overwrite(cpu, key, body, slot_place, old));
            }
            return match T::EVICTS {
                true => self.replace_by_eviction(cpu, key, body, old),
                false => None,
            };
        };
        self.write(cpu, new, key, body);
        self.point_to(key.hash, slot_place, new);
        self.heap.free(old);
        Some(new)
    }

    /// Makes the entry at `slot_place` that of the item at `new`, which a PUT has written.
    #[inline(always)]
    fn point_to(&mut self, hash: KeyHash, slot_place: SlotPosition, new: u64) {
        self.sharing.begin_write(self.table.bucket_index(hash));
        self.table.set(hash, slot_place, Slot::new(hash.tag(), new));
        self.sharing.end_write(self.table.bucket_index(hash));
        self.note_use(hash, slot_place, |slot| slot);
        self.counters.updates_moved += 1;
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one call, all of it the PUT")]
    fn overwrite<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        slot_place: SlotPosition,
        offset: u64,
    ) -> u64 {
        let place = self.heap.place(offset);
        self.sharing.begin_write(self.table.bucket_index(key.hash));
        item::write_body(place, key.bytes.len(), body);
        self.sharing.end_write(self.table.bucket_index(key.hash));
        item::touch(cpu, place, item::bytes_of(key, body));
        self.note_use(key.hash, slot_place, |slot| slot.with_read(false));
        self.counters.updates_in_place += 1;
        offset
    }

    #[inline(always)]
    fn insert<C: Cpu, V: Value>(&mut self, cpu: &C, key: Key<'_>, body: &Body<V>) -> Option<u64> {
        let need = item::bytes_of(key, body);
        let offset = match self.heap.allocate(need) {
            Some(offset) => offset,
            None if T::EVICTS => self.allocate_by_eviction(cpu, key.hash, need, None)?,
            None => return None,
        };
        self.write(cpu, offset, key, body);
        let slot = Slot::new(key.hash.tag(), offset);
        self.sharing.begin_write(self.table.bucket_index(key.hash));
        let stored = self.table.insert(key.hash, slot) || self.insert_in_full(cpu, key.hash, slot);
        self.sharing.end_write(self.table.bucket_index(key.hash));
        if !stored {
            self.heap.free(offset);
            return None;
        }
        self.counters.items += 1;
        self.counters.inserts += 1;
        Some(offset)
    }

    /// Writes an item that is not in the index yet.
    #[inline(always)]
    fn write<C: Cpu, V: Value>(&self, cpu: &C, offset: u64, key: Key<'_>, body: &Body<V>) {
        let place = self.heap.place(offset);
        item::write(place, key, body);
        item::touch(cpu, place, item::bytes_of(key, body));
    }

    /// The refusal of a PUT by `condition`, if any.
    fn refuse(&self, found: Found, now_s: u32, condition: Condition) -> Option<PutOutcome> {
        partition::refuse(condition, self.live_item(found, now_s))
    }

    pub(crate) fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        let Some((slot_place, offset)) = self.find_live(cpu, key, now_s) else {
            return false;
        };
        self.now_s = now_s;
        self.note_use(key.hash, slot_place, |slot| slot);
        let item = ItemRef::new(self.heap.place(offset));
        let (fields, version) = (item.fields().with_expiry(expire_s), item.version());
        self.change_fields(cpu, key, offset, fields, version);
        true
    }

    pub(crate) fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        let Some((slot_place, offset)) = self.find_live(cpu, key, now_s) else {
            return false;
        };
        self.remove(key.hash, slot_place, offset);
        self.counters.deletes += 1;
        true
    }

    /// Adds an entry to a bucket that has no space: in LRU mode its oldest item is evicted; else the chain gets spare buckets
    /// in memory of the heap. `false` if there is no such memory.
    #[cold]
    fn insert_in_full<C: Cpu>(&mut self, cpu: &C, hash: KeyHash, slot: Slot) -> bool {
        if T::EVICTS {
            self.evict_oldest(cpu, self.table.bucket_index(hash));
            return self.table.insert(hash, slot);
        }
        if !self.elastic {
            return false;
        }
        // Buckets begin at a line, wherever the chunk begins.
        let Some(chunk) = self.heap.allocate((SPARES_TAKEN + 1) * LINE_BYTES - 8) else {
            return false;
        };
        self.taken_bytes += self.heap.space(chunk) as u64 + Heap::TAGS_BYTES;
        self.table
            .add_spares(round_up(chunk as usize, LINE_BYTES), SPARES_TAKEN);
        self.table.insert(hash, slot)
    }

    pub(crate) fn clear(&mut self) {
        self.sharing.begin_clear();
        self.table.clear();
        self.heap.clear();
        self.taken_bytes = 0;
        self.sharing.end_clear();
        self.counters.cleared += self.counters.items;
        self.counters.items = 0;
    }

    /// The unexpired items of the bucket numbered `index` and its chain.
    pub(crate) fn scan_bucket(&self, index: u64, now_s: u32, visit: &mut dyn FnMut(ItemRef<'_>)) {
        self.table.each(index, |slot| {
            let item = ItemRef::new(self.heap.place(slot.offset()));
            if !item.is_expired(now_s) {
                visit(item);
            }
        });
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread::even(self.table.bucket_count())
    }

    /// [Bucket bits](KeyHash::bucket_bits) of an item's key, if they can be known.
    pub(crate) fn hash_of(&self, item: ItemRef<'_>) -> Option<u64> {
        Some(item.hash_key()?.bucket_bits())
    }

    pub(crate) fn index_bytes(&self) -> usize {
        T::bytes(self.table.bucket_count() as usize)
    }

    /// Items removed because an operation found them expired.
    #[inline(always)]
    pub(crate) fn expired(&self) -> u64 {
        self.counters.expired
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let slots = self.table.bucket_count() * T::SLOTS as u64;
        let items = self.heap.used_bytes() - self.taken_bytes;
        self.counters
            .stats(items, self.heap.size() - self.taken_bytes, slots)
    }
}
