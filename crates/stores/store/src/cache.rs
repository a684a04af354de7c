//! [`Cache`]: cache mode, a lossy index over circular logs.
//!
//! ```text
//! get:  for each slot with our tag:   other key? next slot.   expired? remove it, miss.   hit -> count the use
//! put:  own item at least as long -> overwrite it, and mark the rest as skipped
//!       else make space at the head of a log, append, and take a slot: the key's own, its ghost's, an empty one,
//!       another ghost's, one of the neighbouring bucket, or that of another item, which is evicted
//! ```
//! Both begin with straight-line code for the most frequent case, in which the first candidate is ours; all other cases
//! go to the `_slow` half, which starts again.
//!
//! Every item in a log has exactly one slot, and every slot of an item refers to one: an item is removed from its slot
//! before its bytes are reused, and becomes a skip marker if it is removed before the tail reaches it. So the counters
//! are exact. `evict.rs` decides which items leave.

use crate::frozen::{Extent, State};
use crate::item::{self, Body, Fields, Head, ItemRef, Key, Value};
use crate::partition::{self, Hint, Limits, PutOutcome, next_version};
use crate::queue::Queue;
use crate::reader::View;
use crate::sharing::Sharing;
use crate::stats::{Counters, PartitionStats};
use crate::watch::Watch;
use crate::{Mode, PartitionOptions};
use drover_base::{Condition, Cpu, KeyHash, KeyHasher};
use drover_index::{BUCKET_BYTES, BucketLines, CACHE_SLOTS, CacheTable, Slot, SlotRef};
use drover_mem::{BoundedRegion, LINE_BYTES, MaskedRef, Region, Spread};

mod evict;
mod expire;
mod extras;
mod planted;
mod resize;
mod sizes;

use evict::Log;

pub use planted::{Mistake, Mistaken, Victims};

/// Lossy index, circular logs, one owner.
#[derive(Debug)]
pub(crate) struct Cache<S> {
    table: CacheTable,
    memory: BoundedRegion,
    /// The log of new items; empty, of no size, in a FIFO cache.
    small: Queue,
    /// The log of the items that were used again; of all items in a FIFO cache.
    main: Queue,
    /// Computes the hashes of keys again at eviction, because items do not store them; `None` if the partition does not
    /// know the seed.
    hasher: Option<Box<KeyHasher>>,
    /// Clock of the ghosts: the number of ghosts made so far.
    ghosts: u32,
    /// What is small and what is large here, and how much may be copied.
    sizes: sizes::Sizes,
    /// Whether the main log has always had space since it was created or cleared.
    is_filling: bool,
    /// Bucket and slot index of the item that the current PUT replaces; `None` once that has left.
    replaced: Option<(u64, usize)>,
    /// Offset in a candidate of the second line that a prefetch requests.
    reach: u64,
    limits: Limits,
    pub(crate) version: u64,
    sharing: S,
    counters: Counters,
    expiry: expire::Expiry,
    /// Present if the index may change its size.
    resize: Option<resize::Resize>,
    watch: Watch,
    /// Buffer for a value that is copied from one item to another.
    scratch: Vec<u8>,
}

/// Bytes mapped for the logs and for the index of a cache: the most that each may grow to.
pub(crate) fn memory_of(options: &PartitionOptions) -> [usize; 2] {
    let index_bytes = options.bucket_count * BUCKET_BYTES;
    if !options.elastic {
        return [options.log_bytes, index_bytes.max(MaskedRef::REACH)];
    }
    let total = options.log_bytes + index_bytes;
    let index_max = (total / resize::INDEX_SHARE_MAX).next_multiple_of(BUCKET_BYTES);
    [total, index_max.max(index_bytes).max(MaskedRef::REACH)]
}

/// The entry of a key's item, and where it is: in the key's own bucket, or spilled into the neighbour.
#[derive(Clone, Copy, Debug)]
struct Entry {
    bucket_index: u64,
    slot_index: usize,
    slot: Slot,
}

type Found = Option<Entry>;

/// What one candidate says.
enum Look<'a> {
    /// It is the key's item: its slot, entry and head.
    Own(SlotRef<'a>, Slot, Head),
    /// There is none, and the key has no item.
    Nothing,
    /// It is no item, another key's, or an expired one; or there is none, but items of the bucket are in its neighbour.
    Unclear,
}

impl<S: Sharing> Cache<S> {
    /// A cache in memory of [`Partition::memory_bytes`](crate::Partition::memory_bytes), with the index that is there.
    pub(crate) fn in_region(options: &PartitionOptions, sharing: S, region: Region) -> Self {
        let Mode::Cache { eviction } = options.mode else {
            unreachable!("the partition chose cache mode");
        };
        let log_bytes = options.log_bytes as u64;
        let small_bytes = evict::small_bytes(eviction, log_bytes);
        let [log_space, index_space] = memory_of(options);
        // One mapping for both: bytes read beyond the end of the logs are the start of the index.
        let mut table = CacheTable::new(region.clone(), log_space, index_space / BUCKET_BYTES);
        let count = options.bucket_count as u64;
        table.resume(Spread::even(count), count);
        let may_resize = options.elastic && options.hash_seed.is_some();
        let resize =
            may_resize.then(|| resize::Resize::new(log_bytes + (options.bucket_count * BUCKET_BYTES) as u64));
        // As long as the main log will be if the index grows as far as it may.
        let growth = match options.elastic {
            true => index_space - options.bucket_count * BUCKET_BYTES,
            false => 0,
        };
        let item_bytes_max = (log_bytes - small_bytes) as usize - growth;
        let cache = Cache {
            table,
            memory: BoundedRegion::new(region, log_space),
            small: Queue::new(0, small_bytes),
            main: Queue::new(small_bytes, log_bytes),
            resize,
            hasher: options.hash_seed.map(|seed| Box::new(seed.hasher())),
            ghosts: 0,
            sizes: sizes::Sizes::default(),
            is_filling: true,
            replaced: None,
            reach: 0,
            limits: Limits::new(options, item_bytes_max),
            version: 0,
            sharing,
            counters: Counters::default(),
            expiry: expire::Expiry::default(),
            watch: Watch::default(),
            scratch: Vec::new(),
        };
        if cache.resize.is_some() {
            cache.end_huge_pages(count);
        }
        cache.announce_spread();
        cache
    }

    /// Tells readers how hashes are spread over the buckets.
    fn announce_spread(&self) {
        self.sharing.begin_move();
        self.sharing.end_move(self.table.spread());
    }

    /// Continues with the state of an earlier partition in this memory; `None` if it is impossible.
    pub(crate) fn resume(mut self, state: &State) -> Option<Self> {
        let small_bytes = self.small.size();
        let spread = Spread {
            low: state.index[0],
            high: state.index[1],
            boundary: state.index[2],
        };
        let end = state.main_end;
        if end <= small_bytes || end > self.memory.len() as u64 || !end.is_multiple_of(8) {
            return None;
        }
        if !self.table.resume(spread, state.index[3]) {
            return None;
        }
        self.announce_spread();
        let resume = |start, end, log: &Extent| Queue::resume(start, end, log.tail, log.used, log.live);
        self.main = resume(small_bytes, end, &state.main)?;
        self.small = resume(0, small_bytes, &state.small)?;
        self.version = state.version;
        self.reach = state.reach.min(64);
        self.ghosts = state.ghosts as u32;
        self.expiry = expire::Expiry::unknown();
        self.counters.items = state.items;
        Some(self)
    }

    pub(crate) fn state(&self) -> State {
        State {
            main: self.main.into(),
            main_end: self.main.end(),
            small: self.small.into(),
            index: {
                let spread = self.table.spread();
                [spread.low, spread.high, spread.boundary, self.table.wanted()]
            },
            version: self.version,
            reach: self.reach,
            free: 0,
            items: self.counters.items,
            ghosts: u64::from(self.ghosts),
        }
    }

    /// Bytes of the memory for the index, in use or not.
    pub(crate) fn index_space(&self) -> usize {
        self.table.capacity() as usize * BUCKET_BYTES
    }

    /// Both logs.
    pub(crate) fn logs(&self) -> [Queue; 2] {
        [self.main, self.small]
    }

    pub(crate) fn memory(&self) -> &BoundedRegion {
        &self.memory
    }

    pub(crate) fn sharing(&self) -> &S {
        &self.sharing
    }

    /// The index, for a reader.
    pub(crate) fn view(&self) -> Option<View> {
        Some(View::Cache(self.table.clone()))
    }

    pub(crate) fn watch(&mut self) -> &mut Watch {
        &mut self.watch
    }

    /// Records the item of `slot`, which is about to be evicted.
    #[inline]
    fn note_evicted(&mut self, slot: Slot) {
        self.watch
            .note(ItemRef::new(self.memory.place(slot.offset())), slot);
    }

    #[inline(always)]
    pub(crate) fn bucket_lines(&self) -> BucketLines {
        self.table.bucket_lines()
    }

    #[inline(always)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        let (index, bucket) = self.table.numbered_bucket(hash);
        cpu.touch(bucket.line());
        let mut candidates = bucket.matches(hash.tag());
        let prefetch = |i| {
            let offset = bucket.slot(i).offset();
            cpu.prefetch(self.memory.line(offset));
            cpu.prefetch(self.memory.line(offset + self.reach));
        };
        // There is seldom more than one: a loop over all would cost more.
        let Some(first) = candidates.next() else {
            return Hint::NONE;
        };
        prefetch(first);
        candidates.for_each(prefetch);
        Hint::new(index, first)
    }

    /// Prefetches the first `bytes` bytes of the item in the slot with this number, but for the two lines that
    /// [`prefetch_item`](Cache::prefetch_item) requests.
    pub(crate) fn prefetch_long<C: Cpu>(&self, cpu: &C, slot_number: u64, bytes: u64) {
        let slot = self.table.slot_ref(slot_number).get();
        if slot.is_item() {
            let lines = (2 * LINE_BYTES as u64..bytes).step_by(LINE_BYTES);
            lines.for_each(|at| cpu.prefetch(self.memory.line(slot.offset() + at)));
        }
    }

    #[inline(always)]
    pub(crate) fn get<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        self.get_as::<C, false>(cpu, key, now_s, hint)
    }

    /// As [`get`](Cache::get), for a key that is only a hash.
    #[inline(always)]
    pub(crate) fn get_hash<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        self.get_as::<C, true>(cpu, Key { hash, bytes: &[] }, now_s, hint)
    }

    #[inline(always)]
    fn get_as<C: Cpu, const HASHED: bool>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        match look::<C, HASHED>(&self.table, &self.memory, cpu, key, hint, Some(now_s)) {
            Look::Own(slot_ref, slot, head) => {
                let place = self.memory.place(slot.offset());
                count_read(slot_ref, slot);
                self.counters.hits += 1;
                item::touch_rest(cpu, place, head);
                Some(ItemRef::with_head(place, head))
            }
            Look::Nothing => {
                self.counters.misses += 1;
                None
            }
            Look::Unclear => {
                let at = self.get_slow(cpu, key.hash, key.bytes, now_s)?;
                Some(ItemRef::new(self.memory.place(at)))
            }
        }
    }

    /// As [`get`](Cache::get), but returns the item's offset.
    pub(crate) fn get_offset<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        now_s: u32,
        hint: Hint,
    ) -> Option<u64> {
        let key = Key { hash, bytes };
        match look::<C, false>(&self.table, &self.memory, cpu, key, hint, Some(now_s)) {
            Look::Own(slot_ref, slot, _) => {
                count_read(slot_ref, slot);
                self.counters.hits += 1;
                Some(slot.offset())
            }
            Look::Nothing | Look::Unclear => self.get_slow(cpu, hash, bytes, now_s),
        }
    }

    /// Offset of the key's item. The key is passed in two arguments, so that the fast path does not have to spill it to
    /// memory for a call that it does not make.
    #[cold]
    #[inline(never)]
    fn get_slow<C: Cpu>(&mut self, cpu: &C, hash: KeyHash, bytes: &[u8], now_s: u32) -> Option<u64> {
        let Some(Entry {
            bucket_index,
            slot_index,
            slot,
        }) = self.find(cpu, Key { hash, bytes }, now_s)
        else {
            self.counters.misses += 1;
            return None;
        };
        self.table
            .bucket_at(bucket_index)
            .slot_ref(slot_index)
            .update(slot.read());
        self.counters.hits += 1;
        let place = self.memory.place(slot.offset());
        item::touch_rest(cpu, place, Head::load(place));
        Some(slot.offset())
    }

    /// The key's entry, even if its item has expired: for PUTs.
    #[inline]
    fn find_any<C: Cpu>(&self, cpu: &C, key: Key<'_>) -> Found {
        let index = self.table.bucket_index(key.hash);
        let found = self.find_in(cpu, key, index);
        if found.is_some() || !self.table.bucket_at(index).has_spilled() {
            return found;
        }
        self.find_spilled(cpu, key)
    }

    #[cold]
    fn find_spilled<C: Cpu>(&self, cpu: &C, key: Key<'_>) -> Found {
        let index = self.table.neighbour_of(key.hash.bucket_bits())?;
        cpu.touch(self.table.bucket_at(index).line());
        self.find_in(cpu, key, index)
    }

    /// The key's entry in the bucket `bucket_index`.
    #[inline]
    fn find_in<C: Cpu>(&self, cpu: &C, key: Key<'_>, bucket_index: u64) -> Found {
        let bucket = self.table.bucket_at(bucket_index);
        for slot_index in bucket.matches(key.hash.tag()) {
            let slot = bucket.slot(slot_index);
            let place = self.memory.place(slot.offset());
            cpu.touch(place.line(0));
            if item::is_own_there(place, key) {
                return Some(Entry {
                    bucket_index,
                    slot_index,
                    slot,
                });
            }
        }
        None
    }

    /// The key's entry; `None`, and the item is removed, if it has expired.
    fn find<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Found {
        let found = self.find_any(cpu, key)?;
        let place = self.memory.place(found.slot.offset());
        if Head::load(place).is_expired(place, now_s) {
            self.counters.expired += 1;
            self.counters.expired_unread += u64::from(!found.slot.is_read());
            self.remove(found.bucket_index, found.slot_index);
            return None;
        }
        Some(found)
    }

    /// Removes the item of a slot, which becomes empty; its bytes become a skip marker.
    fn remove(&mut self, bucket_index: u64, slot_index: usize) {
        let at = self.table.bucket_at(bucket_index).slot(slot_index).offset();
        self.vacate(bucket_index, slot_index, Slot::EMPTY);
        self.discard(at);
    }

    /// Replaces the entry of an item by `after`, which has no item.
    fn vacate(&mut self, bucket_index: u64, slot_index: usize, after: Slot) {
        self.sharing.begin_write(bucket_index);
        self.table.remove(bucket_index, slot_index, after);
        self.sharing.end_write(bucket_index);
        self.counters.items -= 1;
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one call, all of it the PUT")]
    pub(crate) fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
        hint: Hint,
    ) -> PutOutcome {
        if condition == Condition::Always
            && expire_s == 0
            && let Look::Own(slot_ref, slot, head) =
                look::<C, false>(&self.table, &self.memory, cpu, key, hint, None)
            && head.same_plain(key.bytes.len(), value.len())
        {
            let place = self.memory.place(slot.offset());
            let index = self.table.bucket_index(key.hash);
            self.version = next_version(self.version);
            let version = item::version_of(self.version);
            self.sharing.begin_write(index);
            item::rewrite_value(place, head, value, version);
            slot_ref.update(slot.used().with_read(false));
            self.sharing.end_write(index);
            item::touch(cpu, place, item::item_bytes(head.key_len(), value.len()));
            self.counters.updates_in_place += 1;
            return PutOutcome::Stored { version };
        }
        self.put_slow(cpu, key.hash, key.bytes, value, expire_s, now_s, condition)
    }

    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "as for get_slow")]
    fn put_slow<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        let key = self.verified(Key { hash, bytes });
        let fields = Fields::native(expire_s);
        if !self.limits.allow(key, value.len(), fields.kind()) {
            self.counters.too_large += 1;
            return PutOutcome::TooLarge;
        }
        let found = self.find_any(cpu, key);
        if let Some(refusal) = self.refuse(found, now_s, condition) {
            return refusal;
        }
        self.version = next_version(self.version);
        let version = item::version_of(self.version);
        let body = Body {
            version,
            fields,
            value,
        };
        self.place_item(cpu, key, &body, found, now_s);
        PutOutcome::Stored { version }
    }

    /// The key with its hash computed again. When the item leaves, its slot is looked for under that hash; if a caller's
    /// wrong hash were used to store the item, the slot would not be found.
    #[inline]
    fn verified<'k>(&self, key: Key<'k>) -> Key<'k> {
        match &self.hasher {
            Some(hasher) if !key.bytes.is_empty() => Key {
                hash: hasher.hash(key.bytes),
                ..key
            },
            _ => key,
        }
    }

    /// Writes the item in place of the key's own if it is not longer, else at the head of a log; returns its offset.
    #[inline(always)]
    fn place_item<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        found: Found,
        now_s: u32,
    ) -> u64 {
        let need = item::bytes_of(key, body);
        if let Some(Entry {
            bucket_index: index,
            slot_index,
            slot,
        }) = found
        {
            let place = self.memory.place(slot.offset());
            let old = Head::load(place).bytes();
            if old >= need {
                self.sharing.begin_write(index);
                item::write_body(place, key.bytes.len(), body);
                if old > need {
                    item::write_skip(self.memory.place(slot.offset() + need as u64), old - need);
                }
                let expire_s = body.fields.terms().expire_s;
                self.expiry.note(expire_s);
                let slot = slot.used().with_read(false).with_expires(expire_s > 0);
                self.table.bucket_at(index).slot_ref(slot_index).update(slot);
                self.sharing.end_write(index);
                item::touch(cpu, place, need);
                if old > need {
                    self.forget(slot.offset(), (old - need) as u64);
                }
                self.counters.updates_in_place += 1;
                return slot.offset();
            }
        }
        self.append(cpu, key, body, found, now_s)
    }

    /// Appends the item to a log, where space is made if necessary, and stores its offset in a slot; returns it.
    #[inline]
    fn append<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        found: Found,
        now_s: u32,
    ) -> u64 {
        let need = item::bytes_of(key, body) as u64;
        if found.is_none()
            && self
                .resize
                .is_some_and(|resize| self.counters.items >= resize.due_at)
        {
            self.adapt(cpu, need, now_s);
        }
        match found {
            None => self.sizes.insert(need, self.counters.items, self.bytes()),
            Some(_) => self.sizes.earn(need),
        }
        if found.is_none() && !self.is_filling && self.expiry.is_due(now_s) {
            self.remove_expired(cpu, now_s);
        }
        let expire_s = body.fields.terms().expire_s;
        self.expiry.note(expire_s);
        let admitted = self.admit(key.hash, need, found);
        let (log, ghost) = (admitted.log, admitted.ghost);
        let mut own = found.map(|entry| (entry.bucket_index, entry.slot_index));
        if !self.queue(log).has_space(need) {
            self.replaced = own;
            self.make_space(cpu, log, need, now_s);
            own = self.replaced.take();
        }
        if log == Log::Small && !self.is_filling {
            self.make_reserve(cpu, now_s);
        }
        let (index, slot_index) = match own {
            Some(place) => place,
            None => self.take_slot(cpu, key.hash, ghost),
        };
        self.sharing.begin_write(index);
        // The item may have been moved since it was found.
        let old = own.map(|_| self.table.bucket_at(index).slot(slot_index).offset());
        let at = match log {
            Log::Main => self.main.append(&self.memory, need),
            Log::Small => self.small.append(&self.memory, need),
        };
        item::write(self.memory.place(at), key, body);
        let uses = found.map_or(admitted.uses, |entry| entry.slot.used().uses());
        let slot = Slot::new(key.hash.tag(), at)
            .with_uses(uses)
            .with_expires(expire_s > 0);
        self.table
            .store(key.hash.bucket_bits(), (index, slot_index), slot);
        self.sharing.end_write(index);
        match old {
            Some(old) => self.discard_replaced(old),
            None => self.counters.items += 1,
        }
        match found {
            Some(_) => self.counters.updates_moved += 1,
            None => self.counters.inserts += 1,
        }
        self.revives_evicted(key, found, ghost, at);
        item::touch(cpu, self.memory.place(at), need as usize);
        self.reach = (need - 1).min(64);
        at
    }

    /// Turns the bytes of an item that has no slot any more into a skip marker.
    fn discard(&mut self, at: u64) {
        let place = self.memory.place(at);
        let size = Head::load(place).bytes();
        item::write_skip(place, size);
        self.forget(at, size as u64);
    }

    /// Notes that `bytes` of the item at `at`, all or some, have become a skip marker.
    fn forget(&mut self, at: u64, bytes: u64) {
        match self.main.contains(at) {
            true => self.main.forget(bytes),
            false => self.small.forget(bytes),
        }
    }

    /// The refusal of a PUT by `condition`, if any.
    #[inline]
    fn refuse(&self, found: Found, now_s: u32, condition: Condition) -> Option<PutOutcome> {
        if condition == Condition::Always {
            return None;
        }
        partition::refuse(condition, self.live_item(found, now_s))
    }

    pub(crate) fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        cpu.touch(self.table.bucket(key.hash).line());
        let Some(Entry { slot, .. }) = self.find(cpu, key, now_s) else {
            return false;
        };
        let item = ItemRef::new(self.memory.place(slot.offset()));
        let (fields, version) = (item.fields().with_expiry(expire_s), item.version());
        self.change_fields(cpu, key, slot.offset(), fields, version, now_s);
        true
    }

    pub(crate) fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        cpu.touch(self.table.bucket(key.hash).line());
        let Some(entry) = self.find(cpu, key, now_s) else {
            return false;
        };
        self.remove(entry.bucket_index, entry.slot_index);
        self.counters.deletes += 1;
        true
    }

    pub(crate) fn clear(&mut self) {
        self.sharing.begin_clear();
        self.table.clear();
        self.sharing.end_clear();
        for queue in [&mut self.small, &mut self.main] {
            queue.clear();
        }
        self.counters.cleared += self.counters.items;
        self.counters.items = 0;
        self.is_filling = true;
    }

    /// The unexpired items of the bucket numbered `index`, those included that have spilled into its neighbour.
    pub(crate) fn scan_bucket(&self, index: u64, now_s: u32, visit: &mut dyn FnMut(ItemRef<'_>)) {
        let bucket = self.table.bucket_at(index);
        let own = bucket.slots().into_iter().filter(|slot| !slot.is_spilled());
        let neighbour = bucket.has_spilled().then(|| self.table.bucket_at(index ^ 1));
        let spilled = neighbour.into_iter().flat_map(|neighbour| neighbour.slots());
        let slots = own.chain(spilled.filter(|slot| slot.is_spilled()));
        for slot in slots.filter(|slot| slot.is_item()) {
            let item = ItemRef::new(self.memory.place(slot.offset()));
            if !item.is_expired(now_s) {
                visit(item);
            }
        }
    }

    pub(crate) fn spread(&self) -> Spread {
        self.table.spread()
    }

    /// [Bucket bits](KeyHash::bucket_bits) of an item's key, if they can be known.
    pub(crate) fn hash_of(&self, item: ItemRef<'_>) -> Option<u64> {
        let hash = item.hash(self.hasher.as_deref())?;
        Some(hash.bucket_bits())
    }

    /// Items removed because an operation found them expired.
    #[inline(always)]
    pub(crate) fn expired(&self) -> u64 {
        self.counters.expired
    }

    /// Bytes of all items.
    fn bytes(&self) -> u64 {
        self.main.live() + self.small.live()
    }

    /// Bytes of memory for items; of an elastic cache with the index.
    fn bytes_max(&self) -> u64 {
        match self.resize {
            Some(resize) => resize.limit,
            None => self.main.size() + self.small.size(),
        }
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let slots = self.table.bucket_count() * CACHE_SLOTS as u64;
        self.counters.stats(self.bytes(), self.bytes_max(), slots)
    }
}

/// Looks at one candidate: the hinted slot, or else the first one in the bucket with the key's tag. A hint may be
/// wrong, but a slot whose item has the key is the key's only one, wherever it is. An item that has expired at `now_s` is
/// unclear. `HASHED` says that the key is known to be only a hash.
#[inline(always)]
fn look<'a, C: Cpu, const HASHED: bool>(
    table: &'a CacheTable,
    memory: &BoundedRegion,
    cpu: &C,
    key: Key<'_>,
    hint: Hint,
    now_s: Option<u32>,
) -> Look<'a> {
    let slot_ref = match hint.slot_number() {
        Some(number) => table.slot_ref(number),
        None => {
            let bucket = table.bucket(key.hash);
            match bucket.matches(key.hash.tag()).first() {
                Some(i) => bucket.slot_ref(i),
                None => {
                    cpu.touch(bucket.line());
                    return match bucket.has_spilled() {
                        true => Look::Unclear,
                        false => Look::Nothing,
                    };
                }
            }
        }
    };
    cpu.touch(slot_ref.line());
    let slot = slot_ref.get();
    if !slot.is_item() {
        return Look::Unclear;
    }
    let place = memory.place(slot.offset());
    cpu.touch(place.line(0));
    let head = Head::load(place);
    let is_own = match HASHED {
        true => item::is_of_hash(place, head, key.hash),
        false => item::is_own(place, head, key),
    };
    match is_own && now_s.is_none_or(|now_s| !head.is_expired(place, now_s)) {
        true => Look::Own(slot_ref, slot, head),
        false => Look::Unclear,
    }
}

/// Counts a GET of the item of a slot.
#[inline(always)]
fn count_read(slot_ref: SlotRef<'_>, slot: Slot) {
    // Stored only if it changes: the entries of items that are read often do not.
    if !slot.is_saturated() {
        slot_ref.update(slot.read());
    }
}
