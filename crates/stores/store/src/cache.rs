//! [`Cache`]: cache mode, a lossy index over a circular log.
//!
//! ```text
//! get:  for each slot with our tag:   dead? empty it.   other key? next slot.   expired? empty it, miss.
//!       hit -> the item (moved to the head of the log if it is old and the mode requires it)
//! put:  plain, and own item is plain and of the same lengths -> overwrite its value
//!       else scan the whole bucket.  own item not shorter -> overwrite it, and mark the rest as skipped
//!       else append and take: own slot, ghost, empty, dead, oldest
//! ```
//! Both begin with straight-line code for the most frequent case, in which the first candidate is ours; all other cases
//! go to the `_slow` half, which starts again. A key never has two slots: a slot is taken only after a scan of the
//! whole bucket.

use crate::frozen::State;
use crate::item::{self, Body, Fields, Head, ItemRef, Key, Kind, Value};
use crate::log::Log;
use crate::partition::{Condition, Hint, Limits, PutOutcome, next_version};
use crate::reader::{Reader, View};
use crate::sharing::{SharedReads, Sharing};
use crate::stats::{Counters, PartitionStats};
use crate::{Mode, PartitionOptions};
use drover_base::{Cpu, KeyHash};
use drover_index::{BucketLines, CACHE_SLOTS, CacheTable, Reason, Slot, SlotMask, Span, Sweep};
use drover_mem::{MaskedRegion, Region};

mod extras;
mod watch;

pub use watch::Evicted;

/// Lossy index, circular log, one owner.
#[derive(Debug)]
pub(crate) struct Cache<S, const BITS: u32> {
    table: CacheTable<BITS>,
    log: Log,
    /// Distance behind the head within which items are live.
    live: Span<BITS>,
    /// Distance behind the head beyond which an item moves when read.
    fresh: Span<BITS>,
    /// Offset in a candidate of the second line that a prefetch requests.
    reach: usize,
    limits: Limits,
    version: u64,
    sweep: Sweep,
    sharing: S,
    counters: Counters,
    /// Present while evictions are watched.
    watch: Option<Box<watch::Watch>>,
    /// Buffer for a value that is copied from one item to another.
    scratch: Vec<u8>,
}

/// Result of the scan of a bucket for a PUT.
struct Found {
    /// The key's slot and its item's offset.
    own: Option<(usize, u64)>,
    /// Slots with our tag whose items are dead.
    ghosts: SlotMask,
}

impl<S: Sharing, const BITS: u32> Cache<S, BITS> {
    /// A cache in memory of [`Partition::memory_bytes`](crate::Partition::memory_bytes), with the index that is there.
    pub(crate) fn in_region(options: &PartitionOptions, sharing: S, region: Region) -> Self {
        let Mode::Cache { move_to_head } = options.mode else {
            unreachable!("the partition chose cache mode");
        };
        // One mapping for both: huge pages are not rounded up twice, and bytes read beyond the end of the log are the
        // start of the index.
        let log_bytes = options.log_bytes;
        let table = CacheTable::new(region.clone(), log_bytes, options.bucket_count);
        Cache {
            sweep: Sweep::new(BITS, table.bucket_count(), log_bytes as u64),
            log: Log::new(MaskedRegion::new(region, 0, log_bytes)),
            table,
            live: Slot::span(log_bytes as u64),
            fresh: Slot::span((move_to_head.clamp(0.0, 1.0) * log_bytes as f64) as u64),
            reach: 0,
            limits: Limits::new(options, log_bytes),
            version: 0,
            sharing,
            counters: Counters::default(),
            watch: None,
            scratch: Vec::new(),
        }
    }

    /// Continues with the state of an earlier partition in this memory.
    pub(crate) fn resume(&mut self, state: &State) {
        self.log.resume(state.head);
        self.sharing.publish_head(state.head);
        self.version = state.version;
        self.reach = (state.reach as usize).min(64);
        self.counters.items = state.items;
    }

    pub(crate) fn state(&self) -> State {
        State {
            head: self.log.head(),
            version: self.version,
            reach: self.reach as u64,
            free: 0,
            items: self.counters.items,
        }
    }

    pub(crate) fn memory(&self) -> &MaskedRegion {
        self.log.memory()
    }

    #[inline(always)]
    pub(crate) fn bucket_lines(&self) -> BucketLines {
        self.table.bucket_lines()
    }

    #[inline(always)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        let bucket = self.table.bucket(hash);
        cpu.touch(bucket.line());
        let candidates = bucket.matches(hash.tag());
        for i in candidates {
            let place = self.log.place(bucket.slot(i).word());
            cpu.prefetch(place.line(0));
            cpu.prefetch(place.line(self.reach));
        }
        Hint::new(candidates)
    }

    #[inline(always)]
    pub(crate) fn get<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        let at = self.get_offset(cpu, key.hash, key.bytes, now_s, hint)?;
        Some(ItemRef::new(self.log.place(at)))
    }

    /// Offset of the key's item; bits above its width may be set.
    #[inline(always)]
    pub(crate) fn get_offset<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        now_s: u32,
        hint: Hint,
    ) -> Option<u64> {
        let key = Key { hash, bytes };
        cpu.touch(self.table.bucket(key.hash).line());
        let slot = self.likely_slot(key.hash, hint);
        if slot.is_empty() && !hint.is_candidate() {
            self.counters.misses += 1;
            return None;
        }
        if !slot.is_empty() && slot.is_within(self.log.head(), self.fresh) {
            let place = self.log.place(slot.word());
            cpu.touch(place.line(0));
            let head = Head::load(place);
            if item::is_own(place, head, key) && !head.is_expired(place, now_s) {
                self.counters.hits += 1;
                item::touch_rest(cpu, place, head);
                return Some(slot.word());
            }
        }
        self.get_slow(cpu, key.hash, key.bytes, now_s)
    }

    /// The most likely slot of the key: the hinted one (which may be empty by now), else the first with its tag, else
    /// an empty one.
    #[inline(always)]
    fn likely_slot(&self, hash: KeyHash, hint: Hint) -> Slot<BITS> {
        let bucket = self.table.bucket(hash);
        match hint.slot_index() {
            Some(i) => bucket.slot(i),
            None => bucket
                .matches(hash.tag())
                .first()
                .map_or(Slot::EMPTY, |i| bucket.slot(i)),
        }
    }

    /// Offset of the key's item. The key is passed in two arguments, so that the fast path does not have to spill it to
    /// memory for a call that it does not make.
    #[cold]
    #[inline(never)]
    fn get_slow<C: Cpu>(&mut self, cpu: &C, hash: KeyHash, bytes: &[u8], now_s: u32) -> Option<u64> {
        let Some(at) = self.find(cpu, Key { hash, bytes }, now_s) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        let place = self.log.place(at);
        item::touch_rest(cpu, place, Head::load(place));
        Some(at)
    }

    /// Offset of the key's live item, after a move if one is due.
    fn find<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        let (i, slot) = self.find_slot(cpu, key, now_s)?;
        if slot.is_within(self.log.head(), self.fresh) {
            return Some(slot.offset());
        }
        Some(self.renew(key.hash, i, slot))
    }

    fn find_slot<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<(usize, Slot<BITS>)> {
        let candidates = self.table.bucket(key.hash).matches(key.hash.tag());
        for i in candidates {
            let slot = self.table.bucket(key.hash).slot(i);
            if !slot.is_within(self.log.head(), self.live) {
                self.drop_slot(key.hash, i);
                self.counters.evicted_log_wrapped += 1;
                continue;
            }
            let place = self.log.place(slot.word());
            cpu.touch(place.line(0));
            if !item::is_own_there(place, key) {
                continue;
            }
            if Head::load(place).is_expired(place, now_s) {
                self.drop_slot(key.hash, i);
                self.counters.expired += 1;
                return None;
            }
            return Some((i, slot));
        }
        None
    }

    fn drop_slot(&mut self, hash: KeyHash, i: usize) {
        self.table.bucket(hash).set(i, Slot::EMPTY);
        self.counters.items -= 1;
    }

    /// Copies the item of `slot` to the head of the log. The copy ascends by words and overwrites the log's oldest
    /// bytes: its target may overlap the part of the source already read, never the part still to be read.
    #[cold]
    fn renew(&mut self, hash: KeyHash, slot_index: usize, slot: Slot<BITS>) -> u64 {
        let before = self.log.head();
        let need = Head::load(self.log.place(slot.word())).bytes();
        if self.watch.is_some() {
            self.note_evictions(need, Some(slot.offset()));
        }
        self.sharing.begin_write(hash);
        let to = self.log.reserve(&self.sharing, need);
        for at in (0..need as u64).step_by(8) {
            let word = self.log.place(slot.offset() + at).load(0);
            self.log.place(to + at).store(0, word);
        }
        self.table.bucket(hash).set(slot_index, Slot::new(slot.tag(), to));
        self.sharing.end_write(hash);
        self.sweep(before);
        self.counters.renewed += 1;
        to
    }

    /// Cleans the buckets that are due after the head has moved from `before` to its current position.
    #[inline(always)]
    fn sweep(&mut self, before: u64) {
        let due = self.sweep.due(before, self.log.head());
        if !due.is_empty() {
            self.clean(due);
        }
    }

    #[cold]
    #[inline(never)]
    fn clean(&mut self, due: std::ops::Range<u64>) {
        for index in due {
            let cleaned = self
                .table
                .bucket_at(index)
                .clean(self.log.head(), self.log.size());
            self.counters.items -= cleaned;
            self.counters.evicted_log_wrapped += cleaned;
            self.counters.sweeps += 1;
        }
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
        cpu.touch(self.table.bucket(key.hash).line());
        let slot = self.likely_slot(key.hash, hint);
        let is_plain = condition == Condition::Always && expire_s == 0;
        if is_plain && !slot.is_empty() && slot.is_within(self.log.head(), self.live) {
            let place = self.log.place(slot.word());
            let head = Head::load(place);
            if item::is_own(place, head, key) && head.same_plain(key.bytes.len(), value.len()) {
                self.version = next_version(self.version);
                let version = item::version_of(self.version);
                self.sharing.begin_write(key.hash);
                item::rewrite_value(place, head, value, version);
                self.sharing.end_write(key.hash);
                item::touch(cpu, place, item::item_bytes(head.key_len(), value.len()));
                self.counters.updates_in_place += 1;
                return PutOutcome::Stored { version };
            }
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
        let key = Key { hash, bytes };
        if !self.limits.allow(key, value.len(), Kind::Plain) {
            self.counters.too_large += 1;
            return PutOutcome::TooLarge;
        }
        let found = self.scan(cpu, key);
        if let Some(refusal) = self.refuse(&found, now_s, condition) {
            return refusal;
        }
        self.version = next_version(self.version);
        let version = item::version_of(self.version);
        let fields = Fields::native(expire_s);
        let body = Body {
            version,
            fields,
            value,
        };
        self.place_item(cpu, key, &body, found);
        PutOutcome::Stored { version }
    }

    /// Writes the item in place of the key's own if it is not longer, else at the head of the log; returns its offset.
    #[inline(always)]
    fn place_item<C: Cpu, V: Value>(&mut self, cpu: &C, key: Key<'_>, body: &Body<V>, found: Found) -> u64 {
        let need = item::bytes_of(key, body);
        if let Some((_, at)) = found.own {
            let place = self.log.place(at);
            let old = Head::load(place).bytes();
            if old >= need {
                self.sharing.begin_write(key.hash);
                item::write_body(place, key.bytes.len(), body);
                if old > need {
                    item::write_skip(self.log.place(at + need as u64), old - need);
                }
                self.sharing.end_write(key.hash);
                item::touch(cpu, place, need);
                self.counters.updates_in_place += 1;
                return at;
            }
        }
        self.append(cpu, key, body, found)
    }

    /// Checks every slot with the key's tag. Empties a second slot of the same key, if there is one.
    #[inline]
    fn scan<C: Cpu>(&mut self, cpu: &C, key: Key<'_>) -> Found {
        let mut found = Found {
            own: None,
            ghosts: SlotMask::default(),
        };
        let candidates = self.table.bucket(key.hash).matches(key.hash.tag());
        for i in candidates {
            let slot = self.table.bucket(key.hash).slot(i);
            if !slot.is_within(self.log.head(), self.live) {
                found.ghosts.insert(i);
                continue;
            }
            let place = self.log.place(slot.word());
            cpu.touch(place.line(0));
            if !item::is_own_there(place, key) {
                continue;
            }
            match found.own {
                Some(_) => self.drop_slot(key.hash, i),
                None => found.own = Some((i, slot.offset())),
            }
        }
        found
    }

    /// Appends the item and stores its offset in a slot; returns its offset.
    #[inline(always)]
    fn append<C: Cpu, V: Value>(&mut self, cpu: &C, key: Key<'_>, body: &Body<V>, found: Found) -> u64 {
        let need = item::bytes_of(key, body);
        if self.watch.is_some() {
            self.note_evictions(need, found.own.map(|(_, at)| at));
        }
        let slot_index = self.take_slot(key.hash, &found);
        let before = self.log.head();
        self.sharing.begin_write(key.hash);
        let at = self.log.reserve(&self.sharing, need);
        item::write(self.log.place(at), key, body);
        self.table
            .bucket(key.hash)
            .set(slot_index, Slot::new(key.hash.tag(), at));
        self.sharing.end_write(key.hash);
        self.sweep(before);
        item::touch(cpu, self.log.place(at), need);
        self.reach = (need - 1).min(64);
        at
    }

    /// Takes a slot for a new item of the key and counts the item that it replaces.
    #[inline]
    fn take_slot(&mut self, hash: KeyHash, found: &Found) -> usize {
        let count = &mut self.counters;
        if let Some((i, _)) = found.own {
            count.updates_moved += 1;
            return i;
        }
        let choice = self
            .table
            .bucket(hash)
            .choose(found.ghosts, self.log.head(), self.log.size());
        match choice.reason {
            Reason::Empty => count.items += 1,
            Reason::Ghost | Reason::Dead => count.evicted_log_wrapped += 1,
            Reason::Oldest => count.evicted_bucket_full += 1,
        }
        count.inserts += 1;
        if self.watch.is_some() && choice.reason == Reason::Oldest {
            self.note_displaced(self.table.bucket(hash).slot(choice.slot_index));
        }
        choice.slot_index
    }

    /// The refusal of a PUT by `condition`, if any.
    #[inline]
    fn refuse(&self, found: &Found, now_s: u32, condition: Condition) -> Option<PutOutcome> {
        if condition == Condition::Always {
            return None;
        }
        condition.refuse(self.live_item(found, now_s).map(|item| item.version()))
    }

    pub(crate) fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        cpu.touch(self.table.bucket(key.hash).line());
        let Some(at) = self.find(cpu, key, now_s) else {
            return false;
        };
        let item = ItemRef::new(self.log.place(at));
        let (fields, version) = (item.fields().with_expiry(expire_s), item.version());
        self.change_fields(cpu, key, at, fields, version);
        true
    }

    pub(crate) fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        cpu.touch(self.table.bucket(key.hash).line());
        let mut deleted = false;
        while let Some((i, _)) = self.find_slot(cpu, key, now_s) {
            self.sharing.begin_write(key.hash);
            self.drop_slot(key.hash, i);
            self.sharing.end_write(key.hash);
            deleted = true;
        }
        self.counters.deletes += u64::from(deleted);
        deleted
    }

    pub(crate) fn clear(&mut self) {
        self.sharing.begin_clear();
        self.table.clear();
        self.sharing.end_clear();
        self.counters.items = 0;
    }

    /// The live, unexpired items of the bucket numbered `index`.
    pub(crate) fn scan_bucket(&self, index: u64, now_s: u32, visit: &mut dyn FnMut(ItemRef<'_>)) {
        for slot in self.table.bucket_at(index).slots() {
            if slot.is_empty() || !slot.is_within(self.log.head(), self.live) {
                continue;
            }
            let item = ItemRef::new(self.log.place(slot.word()));
            if !item.is_expired(now_s) {
                visit(item);
            }
        }
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
        let bytes = self.log.head().min(self.log.size());
        self.counters.stats(
            bytes,
            self.log.size(),
            self.table.bucket_count() * CACHE_SLOTS as u64,
        )
    }
}

impl<const BITS: u32> Cache<SharedReads, BITS> {
    pub(crate) fn reader(&self) -> Reader<BITS> {
        let view = View::Cache(self.table.clone());
        Reader::new(view, self.log.memory().clone(), self.sharing.clone())
    }
}
