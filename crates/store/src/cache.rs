//! [`Cache`]: cache mode, an index that forgets over a log that overwrites.
//!
//! ```text
//! get:  for each slot with our tag:   dead? empty it.   other hash or key? go on.   expired? empty it, miss.
//!       hit -> the item (moved to the head of the log if it is old and the mode wants it)
//! put:  look at the whole bucket.  own item with room -> overwrite it;
//!       else append and take: own slot, ghost, empty, dead, oldest
//! ```

use crate::item::{self, ItemRef, Key, Match, Meta};
use crate::log::Log;
use crate::partition::{Condition, Limits, PutOutcome};
use crate::sharing::Sharing;
use crate::stats::PartitionStats;
use crate::{Mode, PartitionOptions};
use drover_base::{Cpu, KeyHash};
use drover_index::{CACHE_SLOTS, CacheTable, Reason, Slot, SlotMask, Sweep};
use drover_mem::AllocError;

/// Lossy index, circular log, one owner.
#[derive(Debug)]
pub(crate) struct Cache<S, const BITS: u32> {
    table: CacheTable<BITS>,
    log: Log,
    sweep: Sweep,
    /// Items further behind the head than this move when read.
    renew_distance: u64,
    /// How far into a candidate a prefetch reaches for its second line.
    reach: u64,
    limits: Limits,
    version: u32,
    sharing: S,
    stats: PartitionStats,
}

/// What the scan of a bucket for a PUT found.
struct Found {
    /// The key's slot and its item, or that of another key with the same hash.
    own: Option<(usize, u64, Match)>,
    /// Slots with our tag whose items are gone.
    ghosts: SlotMask,
}

impl<S: Sharing, const BITS: u32> Cache<S, BITS> {
    pub(crate) fn new(options: &PartitionOptions, sharing: S) -> Result<Self, AllocError> {
        let table = CacheTable::new(options.bucket_count, options.pages)?;
        let log = Log::new(options.log_bytes, options.pages)?;
        let Mode::Cache { move_to_head } = options.mode else {
            unreachable!("the partition chose cache mode");
        };
        Ok(Cache {
            sweep: Sweep::new(BITS, table.bucket_count(), log.size()),
            renew_distance: (move_to_head.clamp(0.0, 1.0) * log.size() as f64) as u64,
            reach: 0,
            limits: Limits::new(options),
            version: 0,
            sharing,
            stats: PartitionStats::default(),
            table,
            log,
        })
    }

    #[inline(always)]
    pub(crate) fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        self.table.prefetch(cpu, self.table.bucket(hash));
    }

    #[inline(always)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> bool {
        let bucket = self.table.bucket(hash);
        self.table.touch(cpu, bucket);
        let candidates = self.table.matches(bucket, hash.tag());
        for i in candidates {
            let at = self.table.slot(bucket, i).offset();
            self.log.memory().prefetch(cpu, at);
            self.log.memory().prefetch(cpu, at + self.reach);
        }
        !candidates.is_empty()
    }

    #[inline(always)]
    pub(crate) fn get<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<ItemRef<'_>> {
        self.stats.gets += 1;
        let at = self.find(cpu, key, now_s)?;
        self.stats.hits += 1;
        let item = ItemRef::new(self.log.memory(), at);
        item::touch(
            self.log.memory(),
            cpu,
            at,
            item::item_bytes(item.key_len(), item.value_len()) as u64,
        );
        Some(item)
    }

    /// The place of the key's live item, after a move if one is due.
    #[inline(always)]
    fn find<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        let bucket = self.table.bucket(key.hash);
        let (i, slot) = self.find_slot(cpu, bucket, key, now_s)?;
        if slot.distance(self.log.head()) > self.renew_distance {
            return Some(self.renew(bucket, i, slot.offset()));
        }
        Some(slot.offset())
    }

    #[inline(always)]
    fn find_slot<C: Cpu>(
        &mut self,
        cpu: &C,
        bucket: u64,
        key: Key<'_>,
        now_s: u32,
    ) -> Option<(usize, Slot<BITS>)> {
        self.table.touch(cpu, bucket);
        for i in self.table.matches(bucket, key.hash.tag()) {
            let slot = self.table.slot(bucket, i);
            if !slot.is_live(self.log.head(), self.log.size()) {
                self.drop_slot(bucket, i);
                self.stats.evicted_log_wrapped += 1;
                continue;
            }
            let at = slot.offset();
            cpu.touch(self.log.memory().line(at));
            if item::compare(self.log.memory(), at, key) != Match::Own {
                continue;
            }
            if Meta::load(self.log.memory(), at).is_expired(now_s) {
                self.drop_slot(bucket, i);
                self.stats.expired += 1;
                return None;
            }
            return Some((i, slot));
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn drop_slot(&mut self, bucket: u64, i: usize) {
        self.table.set(bucket, i, Slot::EMPTY);
        self.stats.items -= 1;
    }

    /// Copies the item at `from` to the head of the log. The copy goes forwards by words and its target is
    /// the log's oldest bytes, so it may overlap the end of what it overwrites but never what it has yet to read.
    #[inline(never)]
    fn renew(&mut self, bucket: u64, slot_index: usize, from: u64) -> u64 {
        let memory = self.log.memory().clone();
        let need = item::Lens::load(&memory, from).item_size();
        let tag = self.table.slot(bucket, slot_index).tag();
        let before = self.log.head();
        self.sharing.begin_write(bucket);
        let to = self.log.reserve(&self.sharing, need);
        for at in (0..need).step_by(8) {
            memory.store(to + at, memory.load(from + at));
        }
        self.table.set(bucket, slot_index, Slot::new(tag, to));
        self.sharing.end_write(bucket);
        self.sweep(before);
        self.stats.renewed += 1;
        to
    }

    /// Does the sweeping that falls due as the head has come from `before` to where it is.
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
            let bucket = self.table.bucket_at(index);
            let cleaned = self.table.clean(bucket, self.log.head(), self.log.size());
            self.stats.items -= cleaned;
            self.stats.evicted_log_wrapped += cleaned;
            self.stats.sweeps += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        if !self.limits.allow(key, value) {
            self.stats.too_large += 1;
            return PutOutcome::TooLarge;
        }
        let bucket = self.table.bucket(key.hash);
        let found = self.scan(cpu, bucket, key);
        if condition != Condition::Always
            && let Some(refusal) = self.refuse(&found, now_s, condition)
        {
            return refusal;
        }
        self.version = self.version.wrapping_add(1).max(1);
        self.stats.puts += 1;
        let meta = Meta::new(expire_s, self.version);
        let need = item::item_bytes(key.bytes.len(), value.len()) as u64;
        if let Some((_, at, Match::Own)) = found.own {
            let reserved = item::Lens::load(self.log.memory(), at).item_size();
            if reserved >= need {
                self.sharing.begin_write(bucket);
                item::write_value(self.log.memory(), at, reserved, key.bytes.len(), value, meta);
                self.sharing.end_write(bucket);
                item::touch(self.log.memory(), cpu, at, need);
                self.stats.updates_in_place += 1;
                return PutOutcome::Stored {
                    version: self.version,
                };
            }
        }
        self.store_moved(cpu, bucket, key, value, meta, found);
        PutOutcome::Stored {
            version: self.version,
        }
    }

    /// Looks at every slot with the key's tag. Empties a second slot of the same key, should there be one.
    #[inline(always)]
    fn scan<C: Cpu>(&mut self, cpu: &C, bucket: u64, key: Key<'_>) -> Found {
        self.table.touch(cpu, bucket);
        let mut found = Found {
            own: None,
            ghosts: SlotMask::default(),
        };
        for i in self.table.matches(bucket, key.hash.tag()) {
            let slot = self.table.slot(bucket, i);
            if !slot.is_live(self.log.head(), self.log.size()) {
                found.ghosts.insert(i);
                continue;
            }
            let at = slot.offset();
            cpu.touch(self.log.memory().line(at));
            match item::compare(self.log.memory(), at, key) {
                Match::Other => {}
                _ if found.own.is_some() => self.drop_slot(bucket, i),
                relation => found.own = Some((i, at, relation)),
            }
        }
        found
    }

    /// Appends the item and points a slot at it.
    #[inline(never)]
    fn store_moved<C: Cpu>(
        &mut self,
        cpu: &C,
        bucket: u64,
        key: Key<'_>,
        value: &[u8],
        meta: Meta,
        found: Found,
    ) {
        let slot_index = match found.own {
            Some((i, _, relation)) => {
                match relation {
                    Match::Own => self.stats.updates_moved += 1,
                    _ => self.stats.hash_collision += 1,
                }
                i
            }
            None => self.make_room(bucket, found.ghosts),
        };
        let need = item::item_bytes(key.bytes.len(), value.len()) as u64;
        let before = self.log.head();
        self.sharing.begin_write(bucket);
        let at = self.log.reserve(&self.sharing, need);
        item::write(self.log.memory(), at, need, key, value, meta);
        self.table.set(bucket, slot_index, Slot::new(key.hash.tag(), at));
        self.sharing.end_write(bucket);
        self.sweep(before);
        item::touch(self.log.memory(), cpu, at, need);
        self.reach = (need - 1).min(64);
    }

    #[inline(always)]
    fn make_room(&mut self, bucket: u64, ghosts: SlotMask) -> usize {
        let choice = self
            .table
            .choose(bucket, ghosts, self.log.head(), self.log.size());
        match choice.reason {
            Reason::Empty => self.stats.items += 1,
            Reason::Ghost | Reason::Dead => self.stats.evicted_log_wrapped += 1,
            Reason::Oldest => self.stats.evicted_bucket_full += 1,
        }
        choice.slot_index
    }

    /// Whether `condition` forbids the PUT.
    #[inline(never)]
    fn refuse(&self, found: &Found, now_s: u32, condition: Condition) -> Option<PutOutcome> {
        let present = match found.own {
            Some((_, at, Match::Own)) => Some(Meta::load(self.log.memory(), at)),
            _ => None,
        };
        condition.refuse(present.filter(|meta| !meta.is_expired(now_s)).map(Meta::version))
    }

    pub(crate) fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        let Some(at) = self.find(cpu, key, now_s) else {
            return false;
        };
        let bucket = self.table.bucket(key.hash);
        let version = Meta::load(self.log.memory(), at).version();
        self.sharing.begin_write(bucket);
        Meta::new(expire_s, version).store(self.log.memory(), at);
        self.sharing.end_write(bucket);
        true
    }

    pub(crate) fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        let bucket = self.table.bucket(key.hash);
        let mut deleted = false;
        while let Some((i, _)) = self.find_slot(cpu, bucket, key, now_s) {
            self.sharing.begin_write(bucket);
            self.drop_slot(bucket, i);
            self.sharing.end_write(bucket);
            deleted = true;
        }
        self.stats.deletes += u64::from(deleted);
        deleted
    }

    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.stats.items = 0;
    }

    /// The live, unexpired items of the bucket numbered `index`.
    pub(crate) fn scan_bucket(&self, index: u64, now_s: u32, visit: &mut dyn FnMut(ItemRef<'_>)) {
        let bucket = self.table.bucket_at(index);
        for i in 0..CACHE_SLOTS {
            let slot = self.table.slot(bucket, i);
            if slot.is_empty() || !slot.is_live(self.log.head(), self.log.size()) {
                continue;
            }
            if !Meta::load(self.log.memory(), slot.offset()).is_expired(now_s) {
                visit(ItemRef::new(self.log.memory(), slot.offset()));
            }
        }
    }

    pub(crate) fn bucket_count(&self) -> u64 {
        self.table.bucket_count()
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        PartitionStats {
            bytes: self.log.head().min(self.log.size()),
            bytes_max: self.log.size(),
            slots: self.table.bucket_count() * CACHE_SLOTS as u64,
            ..self.stats
        }
    }
}
