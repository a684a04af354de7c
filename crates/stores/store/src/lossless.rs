//! [`Lossless`]: store mode, chained buckets over a heap. Nothing is evicted; a PUT may find no space. Every item has
//! terms, so a change of its expiry needs no space.
//!
//! ```text
//! put:  own item whose chunk is the size needed -> overwrite it
//!       else allocate, write, update the slot, and only then free the old chunk
//!       no chunk or no spare bucket -> Full, and the old value is kept
//! ```
//! If there is no spare bucket, an elastic store takes memory for some from the heap, and keeps it until it is cleared.

use crate::frozen::State;
use crate::heap::Heap;
use crate::item::{self, Body, Fields, Head, ItemRef, Key, Kind, Terms, Value};
use crate::partition::{Condition, Hint, Limits, PutOutcome, next_version};
use crate::reader::{Reader, View};
use crate::sharing::{SharedReads, Sharing};
use crate::stats::{Counters, PartitionStats};
use crate::{Mode, PartitionOptions};
use drover_base::{Cpu, KeyHash};
use drover_index::{BucketLines, CACHE_SLOTS, STORE_SLOTS, Slot, SlotPosition, StoreTable};
use drover_mem::{BoundedRegion, LINE_BYTES, Region, Spread, round_up};

mod extras;

/// Unused bytes of an item's chunk above which the item moves to a chunk of its size.
const WASTE_BYTES_MAX: usize = 24;
/// Spare buckets for which the index takes memory at once.
const SPARES_TAKEN: usize = 16;

/// Lossless index, heap, one owner.
#[derive(Debug)]
pub(crate) struct Lossless<S> {
    table: StoreTable,
    heap: Heap,
    /// Whether the index may take memory from the heap.
    elastic: bool,
    /// Bytes that it has taken.
    taken_bytes: u64,
    limits: Limits,
    version: u64,
    sharing: S,
    counters: Counters,
    /// Buffer for a value that is copied from one item to another.
    scratch: Vec<u8>,
}

/// The key's slot and its item's offset.
type Found = Option<(SlotPosition, u64)>;

impl<S: Sharing> Lossless<S> {
    /// A store in zeroed memory of [`Partition::memory_bytes`](crate::Partition::memory_bytes).
    pub(crate) fn in_region(options: &PartitionOptions, sharing: S, region: Region) -> Self {
        let table = StoreTable::new(region.clone(), options.log_bytes, options.bucket_count);
        let heap = Heap::new(BoundedRegion::new(region, options.log_bytes));
        Lossless::of(options, sharing, table, heap)
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
        let table = StoreTable::resume(region, options.log_bytes, options.bucket_count, state.free);
        let mut store = Lossless::of(options, sharing, table, heap);
        store.version = state.version;
        store.counters.items = state.items;
        Some(store)
    }

    fn of(options: &PartitionOptions, sharing: S, table: StoreTable, heap: Heap) -> Self {
        debug_assert_eq!(options.mode, Mode::Store);
        Lossless {
            table,
            heap,
            elastic: options.elastic,
            taken_bytes: 0,
            limits: Limits::new(options, Heap::space_max(options.log_bytes)),
            version: 0,
            sharing,
            counters: Counters::default(),
            scratch: Vec::new(),
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

    #[inline(always)]
    pub(crate) fn bucket_lines(&self) -> BucketLines {
        self.table.bucket_lines()
    }

    #[inline(always)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        let index = self.table.bucket_index(hash);
        let bucket = self.table.bucket_at(index);
        cpu.touch(bucket.line());
        let candidates = bucket.matches(hash.tag());
        for i in candidates {
            let place = self.heap.place(bucket.slot(i).offset());
            cpu.prefetch(place.line(0));
            cpu.prefetch(place.line(drover_mem::LINE_BYTES));
        }
        if let Some(next) = self.table.next(bucket) {
            cpu.prefetch(next.line());
        }
        candidates.first().map_or(Hint::NONE, |i| Hint::new(index, i))
    }

    /// The key's item.
    #[inline(always)]
    pub(crate) fn get<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        let offset = self.get_offset(cpu, key.hash, key.bytes, now_s, hint)?;
        Some(ItemRef::new(self.heap.place(offset)))
    }

    /// As [`get`](Lossless::get), for a key that is only a hash.
    #[inline(always)]
    pub(crate) fn get_hash<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        self.get(cpu, Key { hash, bytes: &[] }, now_s, hint)
    }

    /// Offset of the key's item. Out of line, and the key in two arguments, so that this mode costs the other one only
    /// a branch.
    #[inline(never)]
    pub(crate) fn get_offset<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        now_s: u32,
        hint: Hint,
    ) -> Option<u64> {
        let key = Key { hash, bytes };
        let bucket = self.table.bucket(hash);
        cpu.touch(bucket.line());
        let hinted = hint.slot_number().map(|number| number as usize % CACHE_SLOTS);
        let hinted = hinted.filter(|&i| i < STORE_SLOTS);
        let slot = hinted
            .or_else(|| bucket.matches(hash.tag()).first())
            .map(|i| bucket.slot(i));
        if let Some(slot) = slot
            && !slot.is_empty()
        {
            let place = self.heap.place(slot.offset());
            cpu.touch(place.line(0));
            let head = Head::load(place);
            if item::is_own(place, head, key) && !head.is_expired(place, now_s) {
                self.counters.hits += 1;
                item::touch_rest(cpu, place, head);
                return Some(slot.offset());
            }
        }
        self.get_slow(cpu, key, now_s)
    }

    #[inline(never)]
    fn get_slow<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        let Some((_, offset)) = self.find_live(cpu, key, now_s) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
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

    /// Searches the chain of the key's bucket.
    fn find<C: Cpu>(&self, cpu: &C, key: Key<'_>) -> Found {
        let mut at = Some(self.table.bucket(key.hash));
        while let Some(bucket) = at {
            cpu.touch(bucket.line());
            for i in bucket.matches(key.hash.tag()) {
                let offset = bucket.slot(i).offset();
                let place = self.heap.place(offset);
                cpu.touch(place.line(0));
                if item::is_own_there(place, key) {
                    return Some((bucket.place(i), offset));
                }
            }
            at = self.table.next(bucket);
        }
        None
    }

    fn remove(&mut self, hash: KeyHash, slot_place: SlotPosition, offset: u64) {
        self.sharing.begin_write(self.table.bucket_index(hash));
        self.table.remove(hash, slot_place);
        self.sharing.end_write(self.table.bucket_index(hash));
        self.heap.free(offset);
        self.counters.items -= 1;
    }

    /// Out of line as [`get_offset`](Lossless::get_offset).
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "one call, all of it the PUT")]
    pub(crate) fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        let key = Key { hash, bytes };
        if !self.limits.allow(key, value.len(), Kind::Terms) {
            self.counters.too_large += 1;
            return PutOutcome::TooLarge;
        }
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
            return Some(self.overwrite(cpu, key, body, old));
        }
        let Some(new) = self.heap.allocate(need) else {
            return (space >= need).then(|| self.overwrite(cpu, key, body, old));
        };
        self.write(cpu, new, key, body);
        self.sharing.begin_write(self.table.bucket_index(key.hash));
        self.table
            .bucket_of(key.hash, slot_place)
            .set(slot_place.slot_index, Slot::new(key.hash.tag(), new));
        self.sharing.end_write(self.table.bucket_index(key.hash));
        self.heap.free(old);
        self.counters.updates_moved += 1;
        Some(new)
    }

    #[inline(always)]
    fn overwrite<C: Cpu, V: Value>(&mut self, cpu: &C, key: Key<'_>, body: &Body<V>, offset: u64) -> u64 {
        let place = self.heap.place(offset);
        self.sharing.begin_write(self.table.bucket_index(key.hash));
        item::write_body(place, key.bytes.len(), body);
        self.sharing.end_write(self.table.bucket_index(key.hash));
        item::touch(cpu, place, item::bytes_of(key, body));
        self.counters.updates_in_place += 1;
        offset
    }

    #[inline(always)]
    fn insert<C: Cpu, V: Value>(&mut self, cpu: &C, key: Key<'_>, body: &Body<V>) -> Option<u64> {
        let offset = self.heap.allocate(item::bytes_of(key, body))?;
        self.write(cpu, offset, key, body);
        self.sharing.begin_write(self.table.bucket_index(key.hash));
        let space = self.table.space(key.hash).or_else(|| self.more_space(key.hash));
        if let Some(p) = space {
            self.table
                .bucket_of(key.hash, p)
                .set(p.slot_index, Slot::new(key.hash.tag(), offset));
        }
        self.sharing.end_write(self.table.bucket_index(key.hash));
        if space.is_none() {
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
        condition.refuse(self.live_item(found, now_s).map(|item| item.version()))
    }

    pub(crate) fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        let Some((_, offset)) = self.find_live(cpu, key, now_s) else {
            return false;
        };
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

    /// As [`StoreTable::space`], with spare buckets in memory of the heap; `None` if there is no such memory either.
    #[cold]
    fn more_space(&mut self, hash: KeyHash) -> Option<SlotPosition> {
        if !self.elastic {
            return None;
        }
        // Buckets begin at a line, wherever the chunk begins.
        let chunk = self.heap.allocate((SPARES_TAKEN + 1) * LINE_BYTES - 8)?;
        self.taken_bytes += self.heap.space(chunk) as u64 + Heap::TAGS_BYTES;
        self.table
            .add_spares(round_up(chunk as usize, LINE_BYTES), SPARES_TAKEN);
        self.table.space(hash)
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
        let mut at = Some(self.table.bucket_at(index));
        while let Some(bucket) = at {
            for slot in bucket.slots().into_iter().filter(|slot| !slot.is_empty()) {
                let item = ItemRef::new(self.heap.place(slot.offset()));
                if !item.is_expired(now_s) {
                    visit(item);
                }
            }
            at = self.table.next(bucket);
        }
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread::even(self.table.bucket_count())
    }

    /// [Bucket bits](KeyHash::bucket_bits) of an item's key, if they can be known.
    pub(crate) fn hash_of(&self, item: ItemRef<'_>) -> Option<u64> {
        Some(item.hash_key()?.bucket_bits())
    }

    pub(crate) fn bucket_count(&self) -> u64 {
        self.table.bucket_count()
    }

    /// Items removed because an operation found them expired.
    #[inline(always)]
    pub(crate) fn expired(&self) -> u64 {
        self.counters.expired
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let slots = self.table.bucket_count() * STORE_SLOTS as u64;
        let items = self.heap.used_bytes() - self.taken_bytes;
        self.counters
            .stats(items, self.heap.size() - self.taken_bytes, slots)
    }
}

impl Lossless<SharedReads> {
    pub(crate) fn reader(&self) -> Reader {
        let view = View::Store(self.table.clone());
        Reader::new(view, self.heap.memory().clone(), self.sharing.clone())
    }
}
