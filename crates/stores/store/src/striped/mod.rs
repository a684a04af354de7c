//! [`StripedStore`]: the items of all keys, for several threads, behind locks: one index, one heap, and, if it evicts, a list
//! of items in the order of their use for each size class, as in memcached.
//!
//! ```text
//! stripe (of the key's bucket)   bucket and its chain, what the item says, pins, counters
//!   +- space                     the heap, and the spare buckets of the index
//!   +- list (of the size class)  links of the items of a class
//! ```
//! An operation takes the stripe of its key, and under it the others, one at a time. Nobody waits for a second stripe: who
//! needs memory lets go of the first, evicts, and begins again.
//!
//! Memory of an item in the heap, little-endian, written under the lock named:
//!
//! | offset | size | field | meaning | lock |
//! |---|---|---|---|---|
//! | 0 | 8 | newer | offset of the next item of the class that was used later, or [`NONE`] | list |
//! | 8 | 8 | older | of the one used earlier, or [`NONE`] | list |
//! | 16 | 4 | bucket | number of the key's bucket | stripe |
//! | 20 | 4 | pins | peers that READ the item now; bit 31: it is in the index no more, and is freed with the last pin | stripe |
//! | 24 | | item | as in store mode: see [`item`](crate::item) | stripe |
//!
//! *(Shared index and heap, striped item locks, a list per size class under a lock: stated in `[RFP]` of RDMA-Memcached,
//! and as in memcached's sources; the rest: our choice.)*

mod classes;
mod evict;
mod lists;
mod pins;

pub use pins::Pin;

use crate::heap::Heap;
use crate::heaped::HeapIndex;
use crate::item::{self, Body, Fields, Head, ItemRef, Key, Kind, Terms};
use crate::partition::{self, DeleteOutcome, Limits, PutOutcome, next_version};
use crate::stats::{Counters, PartitionStats};
use crate::{Mode, PartitionOptions};
use classes::{class_bytes, class_for, class_of};
use drover_base::sync::{AtomicU32, Ordering};
use drover_base::{Condition, Contended, Cpu, Held, KeyHash, KeyHasher, LockCounts, Work};
use drover_index::{Slot, SlotPosition, StoreTable};
use drover_mem::{BoundedRegion, LINE_BYTES, MaskedRef, Region, round_up};
use lists::List;
use std::marker::PhantomData;

/// Bytes before an item.
const HEADER_BYTES: usize = 24;
/// Offset before an item of its bucket and pins.
const BUCKET_AND_PINS: u64 = 8;
/// No item.
const NONE: u64 = u64::MAX;
/// Most stripes: few enough to stay cached, enough that threads seldom meet.
const STRIPES_MAX: usize = 1024;
/// Spare buckets for which the index takes memory from the heap at once.
const SPARES_TAKEN: usize = 16;
/// Bytes of that memory. Buckets begin at a line, wherever the chunk begins.
const SPARES_BYTES: usize = (SPARES_TAKEN + 1) * LINE_BYTES - 8;
/// Attempts of a PUT to find the memory that it made.
const ATTEMPTS: usize = 1000;

/// What a simulated core does while it has a stripe, apart from memory accesses: finds the item and copies it.
pub const STRIPE: Work = Work::new("store.stripe", 260.0, "operation under the lock of its stripe");
/// The same of the list of a size class.
pub const LIST: Work = Work::new("store.list", 60.0, "change of a list under its lock");

/// What keeps several threads from harming each other. Tests take one away at a time, to show that something breaks.
pub trait StripedGuards: Send + Sync + 'static {
    /// A GET holds the stripe of its key until it has read the item.
    const LOCKS: bool = true;
    /// An item that a peer READs keeps its memory.
    const PINS: bool = true;

    /// Called in the middle of a PUT of `key`, whose stripe is held and whose item is half changed: for tests, which panic
    /// here.
    #[inline(always)]
    fn in_put(key: Key<'_>) {
        let _ = key;
    }
}

/// All of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FullyGuarded;

impl StripedGuards for FullyGuarded {}

/// Stores items for several threads. All methods take `&self`.
#[derive(Debug)]
pub struct StripedStore<G = FullyGuarded> {
    /// The index. Its list of free buckets is that of [`Space`]; this handle is for what a stripe protects.
    table: StoreTable,
    memory: BoundedRegion,
    stripes: Box<[Contended<Stripe>]>,
    space: Contended<Space>,
    lists: Box<[Contended<List>]>,
    evicts: bool,
    limits: Limits,
    hasher: KeyHasher,
    latest_s: AtomicU32,
    guards: PhantomData<fn() -> G>,
}

/// What one lock of many protects besides the buckets and items that belong to it.
#[derive(Debug, Default)]
struct Stripe {
    counters: Counters,
    version: u64,
}

/// Where new items and new buckets come from.
#[derive(Debug)]
struct Space {
    heap: Heap,
    table: StoreTable,
    /// Bytes that the index has taken from the heap.
    taken_bytes: u64,
}

/// How often the locks were used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StripedLocks {
    /// All stripes together.
    pub stripes: LockCounts,
    /// The lock of heap and spare buckets.
    pub space: LockCounts,
    /// The lists of all classes together.
    pub lists: LockCounts,
}

/// There is no space for so many bytes.
struct NoSpace(usize);

impl<G: StripedGuards> StripedStore<G> {
    /// Bytes of memory, items and index, that a store with these options needs.
    pub fn memory_bytes(options: &PartitionOptions) -> usize {
        options.log_bytes + StoreTable::bytes(options.bucket_count).max(MaskedRef::REACH)
    }

    /// An empty store in zeroed memory of [`memory_bytes`](StripedStore::memory_bytes). [`Mode::Lru`] evicts, with
    /// [`Mode::Store`] a PUT without space is refused. `hasher` is that of the keys.
    ///
    /// # Panics
    /// If the mode is another one, `log_bytes` is not a positive multiple of 64, `bucket_count` is not 1 to 2^31, or the
    /// region is too short.
    pub fn in_region(options: &PartitionOptions, hasher: KeyHasher, region: Region) -> StripedStore<G> {
        let evicts = match options.mode {
            Mode::Lru => true,
            Mode::Store => false,
            mode => panic!("no store of several threads is in mode {mode:?}"),
        };
        let table = StoreTable::new(region.clone(), options.log_bytes, options.bucket_count);
        let memory = BoundedRegion::new(region, options.log_bytes);
        let stripe_count = options.bucket_count.next_power_of_two().min(STRIPES_MAX);
        let longest = Heap::space_max(options.log_bytes);
        StripedStore {
            stripes: (0..stripe_count).map(|_| Contended::default()).collect(),
            lists: (0..=class_of(longest)).map(|_| Contended::default()).collect(),
            space: Contended::new(Space {
                heap: Heap::new(memory.clone()),
                table: table.clone(),
                taken_bytes: 0,
            }),
            table,
            memory,
            evicts,
            limits: Limits::new(options, longest.saturating_sub(HEADER_BYTES)),
            hasher,
            latest_s: AtomicU32::new(0),
            guards: PhantomData,
        }
    }

    /// The time for an operation of a thread whose clock says `now_s`: that, or a later one that another thread has been
    /// given. With times from here, no thread finds an item that another has found expired.
    #[inline]
    pub fn latest_s(&self, now_s: u32) -> u32 {
        // Relaxed: all that follows from a time is under a lock.
        let latest = self.latest_s.load(Ordering::Relaxed);
        match now_s > latest {
            true => self.latest_s.fetch_max(now_s, Ordering::Relaxed).max(now_s),
            false => latest,
        }
    }

    /// The memory of items, at the start of the region, for registration.
    pub fn region(&self) -> &Region {
        self.memory.region()
    }

    /// Prefetches the bucket of `hash`.
    #[inline]
    pub fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        cpu.prefetch(self.table.bucket(hash).line());
    }

    /// Prefetches the first lines of each item in the bucket of `hash` that may be the key's. Takes no lock: what it finds
    /// may change at any time.
    #[inline]
    pub fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        let (line, candidates) = self.table.candidates(hash);
        cpu.touch(line);
        for i in candidates {
            let place = self.memory.place(self.table.bucket(hash).slot(i).offset());
            cpu.prefetch(place.line(0));
            cpu.prefetch(place.line(LINE_BYTES));
        }
    }

    /// Calls `read` with the key's item, under a lock; `None` if it does not exist or is expired (then it is removed).
    #[inline]
    pub fn get<C: Cpu, R>(
        &self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        read: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        let (mut stripe, found) = self.lock_live(cpu, key, now_s);
        let Some((slot_place, offset)) = found else {
            stripe.counters.misses += 1;
            return None;
        };
        stripe.counters.hits += 1;
        let place = self.memory.place(offset);
        item::touch_rest(cpu, place, Head::load(place));
        let item = ItemRef::new(place);
        self.used(cpu, key.hash, slot_place, offset, true);
        // The flaw: others may write the item while it is read.
        let stripe = G::LOCKS.then_some(stripe);
        let answer = read(item);
        drop(stripe);
        Some(answer)
    }

    /// Stores an item; the rest as [`Partition::put`](crate::Partition::put).
    #[inline]
    pub fn put<C: Cpu>(&self, cpu: &C, key: Key<'_>, value: &[u8], expire_s: u32, now_s: u32) -> PutOutcome {
        self.put_if(cpu, key, value, (expire_s, 0, false), now_s, Condition::Always)
    }

    /// As [`put`](StripedStore::put), with the client's flags beside the expiry, if `condition` holds; otherwise nothing
    /// changes. If `keep`, a key that exists keeps expiry and flags. A version is that of the item.
    #[inline]
    pub fn put_if<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        (expire_s, flags, keep): (u32, u32, bool),
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        let terms = (Terms { expire_s, flags }, keep);
        if !self.limits.allow(key, value.len(), Kind::Terms) {
            self.lock_for(cpu, key).counters.too_large += 1;
            return PutOutcome::TooLarge;
        }
        for _ in 0..ATTEMPTS {
            match self.try_put(cpu, key, value, terms, now_s, condition) {
                Ok(outcome) => return outcome,
                Err(NoSpace(bytes)) if self.evicts && self.make_space(cpu, bytes, now_s) => {}
                Err(NoSpace(_)) => break,
            }
        }
        self.lock_for(cpu, key).counters.full += 1;
        PutOutcome::Full
    }

    #[inline]
    fn try_put<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        (mut terms, keep): (Terms, bool),
        now_s: u32,
        condition: Condition,
    ) -> Result<PutOutcome, NoSpace> {
        let mut stripe = self.lock_for(cpu, key);
        let found = self.find(cpu, key);
        if keep || condition != Condition::Always {
            let item = found.map(|(_, offset)| ItemRef::new(self.memory.place(offset)));
            let live = item.filter(|item| !item.is_expired(now_s));
            if let Some(refusal) = partition::refuse(condition, live) {
                return Ok(refusal);
            }
            if let Some(item) = live.filter(|_| keep) {
                terms = item.fields().terms();
            }
        }
        let next = next_version(stripe.version);
        let version = item::version_of(next);
        let body = Body {
            version,
            fields: Fields::Terms(terms),
            value,
        };
        self.place_item(cpu, &mut stripe, key, &body, found)?;
        stripe.version = next;
        Ok(PutOutcome::Stored { version })
    }

    fn place_item<C: Cpu>(
        &self,
        cpu: &C,
        stripe: &mut Stripe,
        key: Key<'_>,
        body: &Body<&[u8]>,
        found: Option<(SlotPosition, u64)>,
    ) -> Result<(), NoSpace> {
        let need = HEADER_BYTES + item::bytes_of(key, body);
        let class = class_for(need);
        // What a peer READs is not overwritten.
        let own = found.filter(|&(_, offset)| !self.is_pinned(offset));
        let fits_well = |&(_, offset): &(_, u64)| class_of(self.space_of(offset)) == class;
        if let Some((slot_place, offset)) = own.filter(fits_well) {
            self.overwrite(cpu, stripe, key, body, (slot_place, offset));
            return Ok(());
        }
        let longest = Heap::space_max(self.memory.len());
        let (chunk, slot_place) = {
            let mut space = self.space.lock(cpu);
            match space.heap.allocate(class_bytes(class).min(longest)) {
                None => {
                    drop(space);
                    let (slot_place, offset) = own
                        .filter(|&(_, offset)| self.space_of(offset) >= need)
                        .ok_or(NoSpace(need))?;
                    self.overwrite(cpu, stripe, key, body, (slot_place, offset));
                    return Ok(());
                }
                Some(chunk) => match found
                    .map(|(slot_place, _)| slot_place)
                    .or_else(|| space.slot(key.hash))
                {
                    Some(slot_place) => (chunk, slot_place),
                    None => {
                        space.heap.free(chunk);
                        return Err(NoSpace(SPARES_BYTES));
                    }
                },
            }
        };
        let offset = chunk + HEADER_BYTES as u64;
        self.memory
            .store(offset - BUCKET_AND_PINS, self.table.bucket_index(key.hash));
        let place = self.memory.place(offset);
        item::write(place, key, body);
        item::touch(cpu, place, item::bytes_of(key, body));
        G::in_put(key);
        self.table
            .set(key.hash, slot_place, Slot::new(key.hash.tag(), offset));
        if self.evicts {
            self.list_of(cpu, offset).push(&self.memory, offset);
        }
        match found {
            Some((_, old)) => {
                self.forget_use(cpu, old);
                if !self.keep_if_pinned(old) {
                    self.space.lock(cpu).free(old);
                }
                stripe.counters.updates_moved += 1;
            }
            None => {
                stripe.counters.items += 1;
                stripe.counters.inserts += 1;
            }
        }
        Ok(())
    }

    #[inline]
    fn overwrite<C: Cpu>(
        &self,
        cpu: &C,
        stripe: &mut Stripe,
        key: Key<'_>,
        body: &Body<&[u8]>,
        (slot_place, offset): (SlotPosition, u64),
    ) {
        let place = self.memory.place(offset);
        item::write_body(place, key.bytes.len(), body);
        item::touch(cpu, place, item::bytes_of(key, body));
        G::in_put(key);
        self.used(cpu, key.hash, slot_place, offset, false);
        stripe.counters.updates_in_place += 1;
    }

    /// Removes the key's item; whether there was one that had not expired.
    pub fn delete<C: Cpu>(&self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        let (mut stripe, found) = self.lock_live(cpu, key, now_s);
        let Some((slot_place, offset)) = found else {
            return false;
        };
        self.remove(cpu, &mut stripe, key.hash, slot_place, offset);
        stripe.counters.deletes += 1;
        true
    }

    /// As [`delete`](StripedStore::delete), if `condition` holds; otherwise nothing changes.
    pub fn delete_if<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        condition: Condition,
    ) -> DeleteOutcome {
        let (mut stripe, found) = self.lock_live(cpu, key, now_s);
        let Some((slot_place, offset)) = found else {
            return DeleteOutcome::Absent;
        };
        let cas = ItemRef::new(self.memory.place(offset)).cas();
        if !condition.holds(Some(cas)) {
            return DeleteOutcome::Present { cas };
        }
        self.remove(cpu, &mut stripe, key.hash, slot_place, offset);
        stripe.counters.deletes += 1;
        DeleteOutcome::Deleted
    }

    /// Sets the expiry of the key's item and keeps its version; whether there was one that had not expired.
    pub fn set_expiry<C: Cpu>(&self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        let (_stripe, found) = self.lock_live(cpu, key, now_s);
        let Some((slot_place, offset)) = found else {
            return false;
        };
        let place = self.memory.place(offset);
        // Before the value, which peers may READ. Every item here has terms, so the fields keep their length.
        let fields = ItemRef::new(place).fields().with_expiry(expire_s);
        fields.store(place, Head::load(place).body_start());
        self.used(cpu, key.hash, slot_place, offset, false);
        true
    }

    /// Counters of all threads, and current sizes. Takes every lock in turn, so the sums are of no single moment.
    pub fn stats(&self) -> PartitionStats {
        let mut sum = Counters::default();
        for stripe in &self.stripes {
            sum.add(&stripe.inspect().counters);
        }
        let space = self.space.inspect();
        let (used, size) = (space.heap.used_bytes(), space.heap.size());
        let slots = self.table.bucket_count() * <StoreTable as HeapIndex>::SLOTS as u64;
        sum.stats(used - space.taken_bytes, size - space.taken_bytes, slots)
    }

    /// How often the locks were used.
    pub fn locks(&self) -> StripedLocks {
        let mut locks = StripedLocks {
            space: self.space.counts(),
            ..StripedLocks::default()
        };
        self.stripes
            .iter()
            .for_each(|stripe| locks.stripes.add(stripe.counts()));
        self.lists.iter().for_each(|list| locks.lists.add(list.counts()));
        locks
    }

    /// The stripe of the bucket numbered `bucket`.
    #[inline]
    fn lock<'a, C: Cpu>(&'a self, cpu: &'a C, bucket: u64) -> Held<'a, Stripe, C> {
        let stripe = self.stripe(bucket).lock(cpu);
        cpu.charge(STRIPE.cost, 1);
        stripe
    }

    /// The stripe of the key's bucket.
    #[inline]
    fn lock_for<'a, C: Cpu>(&'a self, cpu: &'a C, key: Key<'_>) -> Held<'a, Stripe, C> {
        self.lock(cpu, self.table.bucket_index(key.hash))
    }

    /// The stripe of the key's bucket, and the key's slot and item, unless it has expired; then it is removed.
    #[inline]
    fn lock_live<'a, C: Cpu>(
        &'a self,
        cpu: &'a C,
        key: Key<'_>,
        now_s: u32,
    ) -> (Held<'a, Stripe, C>, Option<(SlotPosition, u64)>) {
        let mut stripe = self.lock_for(cpu, key);
        let mut found = self.find(cpu, key);
        if let Some((slot_place, offset)) = found
            && ItemRef::new(self.memory.place(offset)).is_expired(now_s)
        {
            self.remove(cpu, &mut stripe, key.hash, slot_place, offset);
            stripe.counters.expired += 1;
            found = None;
        }
        (stripe, found)
    }

    #[inline]
    fn stripe(&self, bucket: u64) -> &Contended<Stripe> {
        &self.stripes[bucket as usize & (self.stripes.len() - 1)]
    }

    /// The list that the item at `offset` belongs to.
    #[inline]
    fn list_of<'a, C: Cpu>(&'a self, cpu: &'a C, offset: u64) -> Held<'a, List, C> {
        let list = self.lists[class_of(self.space_of(offset))].lock(cpu);
        cpu.charge(LIST.cost, 1);
        list
    }

    /// Bytes of the chunk of the item at `offset`, of whose chunk nobody changes the length.
    #[inline]
    fn space_of(&self, offset: u64) -> usize {
        Heap::space_in(&self.memory, offset - HEADER_BYTES as u64)
    }

    /// The key's slot and item, expired or not.
    #[inline]
    fn find<C: Cpu>(&self, cpu: &C, key: Key<'_>) -> Option<(SlotPosition, u64)> {
        HeapIndex::find(&self.table, cpu, key.hash, |offset| {
            let place = self.memory.place(offset);
            cpu.touch(place.line(0));
            item::is_own_there(place, key)
        })
    }

    /// Notes a use of the item at `offset`, a GET or a PUT in place.
    #[inline]
    fn used<C: Cpu>(&self, cpu: &C, hash: KeyHash, slot_place: SlotPosition, offset: u64, is_read: bool) {
        let slot = self.table.bucket_of(hash, slot_place).slot(slot_place.slot_index);
        if slot.is_read() != is_read {
            self.table.set(hash, slot_place, slot.with_read(is_read));
        }
        if self.evicts {
            let mut list = self.list_of(cpu, offset);
            list.touch(cpu, &self.memory, offset);
            list.renew(&self.memory, offset);
        }
    }

    /// Takes an item out of its list.
    #[inline]
    fn forget_use<C: Cpu>(&self, cpu: &C, offset: u64) {
        if self.evicts {
            let mut list = self.list_of(cpu, offset);
            list.touch(cpu, &self.memory, offset);
            list.remove(&self.memory, offset);
        }
    }

    fn remove<C: Cpu>(
        &self,
        cpu: &C,
        stripe: &mut Stripe,
        hash: KeyHash,
        slot_place: SlotPosition,
        offset: u64,
    ) {
        self.unlink(cpu, &mut self.space.lock(cpu), stripe, (hash, slot_place), offset);
    }

    /// Takes an item out of index and list, and frees it, unless a peer READs it. Returns where the free chunk begins.
    fn unlink<C: Cpu>(
        &self,
        cpu: &C,
        space: &mut Space,
        stripe: &mut Stripe,
        (hash, slot_place): (KeyHash, SlotPosition),
        offset: u64,
    ) -> Option<u64> {
        self.forget_use(cpu, offset);
        space.table.remove(hash, slot_place);
        stripe.counters.items -= 1;
        (!self.keep_if_pinned(offset)).then(|| space.free(offset))
    }
}

impl Space {
    /// A slot for a new entry in the chain of `hash`; if there is no spare bucket, the heap gives memory for some.
    fn slot(&mut self, hash: KeyHash) -> Option<SlotPosition> {
        if let Some(slot_place) = self.table.space(hash) {
            return Some(slot_place);
        }
        let chunk = self.heap.allocate(SPARES_BYTES)?;
        self.taken_bytes += self.heap.space(chunk) as u64 + Heap::TAGS_BYTES;
        self.table
            .add_spares(round_up(chunk as usize, LINE_BYTES), SPARES_TAKEN);
        self.table.space(hash)
    }

    /// Frees the item at `offset`; returns where the free chunk begins.
    fn free(&mut self, offset: u64) -> u64 {
        self.heap.free(offset - HEADER_BYTES as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
