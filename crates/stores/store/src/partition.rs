//! [`Partition`]: the operations, in every mode.

use crate::cache::{self, Cache, Mistake, Mistaken};
use crate::extras::{ExtraOutcome, ExtraPut, Mark};
use crate::frozen::{Doubt, Frozen, Layout, Survey};
use crate::heaped::{EitherHeaped, HeapIndex, Heaped};
use crate::item::{self, EXTRAS_BYTES, ItemRef, Key, Kind, TERMS_BYTES, VALUE_BYTES_MAX};
use crate::reader::Reader;
use crate::sharing::{Exclusive, Shared, Sharing};
use crate::stats::PartitionStats;
use crate::watch::Evicted;
use crate::{Mode, PartitionOptions};
use drover_base::{Condition, Cpu, KEY_BYTES_MAX, KeyHash};
use drover_index::{BucketLines, LruTable, StoreTable};
use drover_mem::{AllocError, BoundedRegion, MaskedRef, Region};
use std::ops::Range;

/// Stores the items of one share of the keys: owns the memory of items and index, and executes the operations of one
/// thread. `S` decides whether other threads may read ([`Exclusive`]: no).
#[derive(Debug)]
pub struct Partition<S: Sharing = Exclusive> {
    inner: Inner<S>,
    clear_at_s: Option<u32>,
}

#[derive(Debug)]
enum Inner<S: Sharing> {
    Cache(Cache<S>),
    Heaped(EitherHeaped<S>),
}

/// Calls the same function in any mode.
macro_rules! dispatch {
    ($inner:expr, $mode:ident => $call:expr) => {
        match $inner {
            Inner::Cache($mode) => $call,
            Inner::Heaped(EitherHeaped::Store($mode)) => $call,
            Inner::Heaped(EitherHeaped::Lru($mode)) => $call,
        }
    };
}

/// The first slot with the key's tag that [`Partition::prefetch_item`] found. It saves the next operation on the key the
/// search. That operation validates it: a hint that is stale, of another key or invented only loses its benefit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint(u64);

impl Hint {
    /// No hint.
    pub const NONE: Hint = Hint(u64::MAX);

    /// The slot with index `slot_index` of the bucket numbered `bucket_index`.
    #[inline(always)]
    pub(crate) fn new(bucket_index: u64, slot_index: usize) -> Hint {
        Hint(8 * bucket_index + slot_index as u64)
    }

    /// The number of the slot, 8 times that of its bucket and its index there.
    #[inline(always)]
    pub(crate) fn slot_number(self) -> Option<u64> {
        self.is_candidate().then_some(self.0)
    }

    /// Whether the bucket (in store mode the main one, not its chain) had a slot with the key's tag.
    #[inline(always)]
    pub fn is_candidate(self) -> bool {
        self != Hint::NONE
    }
}

/// Result of a PUT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutOutcome {
    /// The value is stored.
    Stored {
        /// New version of the item.
        version: u32,
    },
    /// There is no space (store mode only). An older value of the key is unchanged.
    Full,
    /// The key is longer than [`KEY_BYTES_MAX`], the value longer than the partition's maximum, or the whole item, with
    /// an expiry, longer than the partition's memory for items. An older value of the key is unchanged.
    TooLarge,
    /// The key exists, and the condition required it to be absent ([`Condition::IfAbsent`]) or to have a version that
    /// it does not have ([`Condition::IfVersion`]).
    Present {
        /// Current version of the item.
        version: u32,
    },
    /// The key does not exist, and the condition required it to.
    Absent,
}

/// Result of a DELETE with a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteOutcome {
    /// The key existed and was not expired; it is removed.
    Deleted,
    /// The key exists, and the condition required it to be absent or to have a version that it does not have.
    Present {
        /// Current CAS number.
        cas: u64,
    },
    /// The key does not exist.
    Absent,
}

/// The refusal of a PUT whose `condition` does not hold for the key's item; `None` if it does.
pub(crate) fn refuse(condition: Condition, item: Option<ItemRef<'_>>) -> Option<PutOutcome> {
    if condition.holds(item.map(|item| item.cas())) {
        return None;
    }
    Some(match item {
        Some(item) => PutOutcome::Present {
            version: item.version(),
        },
        None => PutOutcome::Absent,
    })
}

/// The version after `version`. Items store the lower 31 bits, which are never 0; CAS numbers in extras use all bits and
/// are never reused.
#[inline(always)]
pub(crate) fn next_version(version: u64) -> u64 {
    let next = version + 1;
    next + u64::from(item::version_of(next) == 0)
}

/// Largest items accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    value_bytes_max: usize,
    item_bytes_max: usize,
}

impl Limits {
    /// `item_bytes_max`: the longest item that could fit.
    pub(crate) fn new(options: &PartitionOptions, item_bytes_max: usize) -> Limits {
        Limits {
            value_bytes_max: options.value_bytes_max.min(VALUE_BYTES_MAX),
            item_bytes_max,
        }
    }

    /// Bytes of the longest item accepted.
    pub(crate) fn item_bytes_max(&self) -> u64 {
        let longest = item::item_bytes(KEY_BYTES_MAX, self.value_bytes_max) + TERMS_BYTES + EXTRAS_BYTES;
        self.item_bytes_max.min(longest) as u64
    }

    /// Space for terms is always required, so that an item that was stored can be given an expiry.
    #[inline(always)]
    pub(crate) fn allow(&self, key: Key<'_>, value_len: usize, kind: Kind) -> bool {
        let fields_bytes = match kind {
            Kind::Plain | Kind::Terms => TERMS_BYTES,
            Kind::Extras => TERMS_BYTES + EXTRAS_BYTES,
        };
        key.bytes.len() <= KEY_BYTES_MAX
            && value_len <= self.value_bytes_max
            && item::item_bytes(key.bytes.len(), value_len) + fields_bytes <= self.item_bytes_max
    }
}

impl Partition {
    /// Creates an empty partition that only its owner can access.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `log_bytes` is not a positive multiple of 64, or `bucket_count` is not 1 to 2^31.
    pub fn new(options: &PartitionOptions) -> Result<Partition, AllocError> {
        Partition::create(options)
    }
}

impl Partition<Mistaken> {
    /// Lets the cache make `mistake` from now on, or none; a partition in store mode makes none. For tests.
    pub fn plant(&mut self, mistake: Option<Mistake>) {
        if let Inner::Cache(cache) = &mut self.inner {
            cache.plant(mistake);
        }
    }
}

impl<S: Sharing> Partition<S> {
    /// Creates an empty partition: with [`SharedReads`](crate::SharedReads) as `S`, other threads may read it through
    /// [`reader`](Partition::reader)s.
    ///
    /// # Errors
    /// As [`Partition::new`].
    ///
    /// # Panics
    /// If `log_bytes` is not a positive multiple of 64, or `bucket_count` is not 1 to 2^31.
    pub fn create(options: &PartitionOptions) -> Result<Self, AllocError> {
        let region = Region::private(Self::memory_bytes(options), options.pages)?;
        Ok(Self::in_region(options, region))
    }

    /// Bytes of memory, items and index, that a partition with these options needs.
    pub fn memory_bytes(options: &PartitionOptions) -> usize {
        Self::spaces(options).iter().sum()
    }

    /// Bytes of memory for items and for the index.
    fn spaces(options: &PartitionOptions) -> [usize; 2] {
        match options.mode {
            Mode::Cache { .. } => cache::memory_of(options),
            Mode::Lru => [
                options.log_bytes,
                LruTable::bytes(options.bucket_count).max(MaskedRef::REACH),
            ],
            Mode::Store => [
                options.log_bytes,
                StoreTable::bytes(options.bucket_count).max(MaskedRef::REACH),
            ],
        }
    }

    /// Creates an empty partition in `region`, whose previous contents are lost.
    ///
    /// # Panics
    /// As [`Partition::new`], and if the region is shorter than [`memory_bytes`](Partition::memory_bytes).
    pub fn create_in(options: &PartitionOptions, region: Region) -> Self {
        let [items, index] = Self::spaces(options);
        region.discard(items, index);
        Self::in_region(options, region)
    }

    fn in_region(options: &PartitionOptions, region: Region) -> Self {
        let sharing = S::for_buckets(options.bucket_count_max());
        let inner = match options.mode {
            Mode::Cache { .. } => Inner::Cache(Cache::in_region(options, sharing, region)),
            Mode::Lru => Inner::Heaped(EitherHeaped::Lru(Heaped::in_region(options, sharing, region))),
            Mode::Store => Inner::Heaped(EitherHeaped::Store(Heaped::in_region(options, sharing, region))),
        };
        Partition {
            inner,
            clear_at_s: None,
        }
    }

    /// Creates a reader for another thread, of which there may be any number; `None` if the partition is not shared, or in LRU
    /// mode.
    pub fn reader(&self) -> Option<Reader> {
        dispatch!(&self.inner, mode => {
            let shared = mode.sharing().shared()?.clone();
            Some(Reader::new(mode.view()?, mode.memory().clone(), shared))
        })
    }

    /// Ends all [readers](Partition::reader): what they read from now on is unknown to them. For an owner that hands the
    /// memory on; one that drops the partition need not call it.
    pub fn end_reads(&self) {
        if let Some(shared) = self.shared() {
            shared.end();
        }
    }

    fn shared(&self) -> Option<&Shared> {
        dispatch!(&self.inner, mode => mode.sharing().shared().map(|shared| &**shared))
    }

    /// Returns the state that another process needs, besides the memory, to continue, and digests of the memory. The
    /// partition must not be written afterwards, so its [readers](Partition::reader) are ended. Cost: reads the index and all
    /// items, at some gigabytes per second.
    pub fn freeze(&self) -> Frozen {
        self.end_reads();
        let state = dispatch!(&self.inner, mode => mode.state());
        let memory = dispatch!(&self.inner, mode => mode.memory());
        let (index_bytes, layout) = match &self.inner {
            Inner::Cache(cache) => (cache.index_space(), Layout::Logs(cache.logs())),
            Inner::Heaped(EitherHeaped::Lru(lru)) => (lru.index_bytes(), Layout::Heap),
            Inner::Heaped(EitherHeaped::Store(store)) => (store.index_bytes(), Layout::HeapAndChains),
        };
        let survey = Survey::new(memory, index_bytes, layout, None);
        let digests = survey.expect("a partition's own items are sound").digests;
        Frozen {
            state,
            clear_at_s: self.clear_at_s,
            digests,
        }
    }

    /// Continues a frozen partition in its memory, `region`; its counters start from 0, except the number of items.
    /// `options` must be those that it was created with.
    ///
    /// # Errors
    /// [`Doubt`] if the memory does not match; then it is unchanged.
    ///
    /// # Panics
    /// As [`create_in`](Partition::create_in).
    pub fn thaw(options: &PartitionOptions, region: Region, frozen: &Frozen) -> Result<Self, Doubt> {
        let state = &frozen.state;
        let [items, index_bytes] = Self::spaces(options);
        let memory = BoundedRegion::new(region.clone(), items);
        let sharing = S::for_buckets(options.bucket_count_max());
        let doubt = |what| Doubt::Contents { what };
        let survey = |layout| {
            let index = Some(frozen.digests.index);
            let survey = Survey::new(&memory, index_bytes, layout, index)?;
            match survey.digests == frozen.digests {
                true => Ok(survey.offsets),
                false => Err(doubt("an item")),
            }
        };
        let heap = || doubt("the heap");
        let inner = match options.mode {
            Mode::Lru => {
                let used = survey(Layout::Heap)?;
                let lru = Heaped::resume(options, sharing, region, state, &used);
                Inner::Heaped(EitherHeaped::Lru(lru.ok_or_else(heap)?))
            }
            Mode::Store => {
                let used = survey(Layout::HeapAndChains)?;
                let store = Heaped::resume(options, sharing, region, state, &used);
                Inner::Heaped(EitherHeaped::Store(store.ok_or_else(heap)?))
            }
            Mode::Cache { .. } => {
                let cache = Cache::in_region(options, sharing, region).resume(state);
                let cache = cache.ok_or(doubt("the log"))?;
                if survey(Layout::Logs(cache.logs()))?.len() as u64 != state.items {
                    return Err(doubt("the number of items"));
                }
                Inner::Cache(cache)
            }
        };
        let mut partition = Partition {
            inner,
            clear_at_s: None,
        };
        partition.set_clear_at_s(frozen.clear_at_s);
        Ok(partition)
    }

    /// Prefetches the bucket of `hash`; call it for all requests of a batch before the first
    /// [`prefetch_item`](Partition::prefetch_item). `for_write` says that a PUT or DELETE follows; it has no effect at
    /// present.
    #[inline(always)]
    pub fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash, for_write: bool) {
        let _ = for_write; // The owner's lines are exclusive in its cache anyway.
        match &self.inner {
            Inner::Cache(cache) => cpu.prefetch(cache.bucket_lines().of(hash)),
            Inner::Heaped(mode) => mode.prefetch_bucket(cpu, hash),
        }
    }

    /// Addresses of the buckets (in store mode of the main ones), for callers that prefetch many in a loop.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        match &self.inner {
            Inner::Cache(cache) => cache.bucket_lines(),
            Inner::Heaped(mode) => mode.bucket_lines(),
        }
    }

    /// Searches the tags in the bucket of `hash` and prefetches the first one or two lines of each candidate item. The
    /// hint makes the next operation on a key of this hash cheaper; that operation checks everything again.
    #[inline(always)]
    pub fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        match &self.inner {
            Inner::Cache(cache) => cache.prefetch_item(cpu, hash),
            Inner::Heaped(mode) => mode.prefetch_item(cpu, hash),
        }
    }

    /// Prefetches the first `bytes` bytes of the item that `hint` names, for items that are known to be long: while another
    /// long value is copied, this one is on its way from memory. Does nothing where items are in a heap: in LRU and store mode.
    pub fn prefetch_long<C: Cpu>(&self, cpu: &C, hint: Hint, bytes: usize) {
        if let (Inner::Cache(cache), Some(number)) = (&self.inner, hint.slot_number()) {
            cache.prefetch_long(cpu, number, bytes as u64);
        }
    }

    /// As [`prefetch_item`](Partition::prefetch_item) for each of `keys`, whose hints it sets.
    #[inline(always)]
    pub fn prefetch_items<'r, C: Cpu>(&self, cpu: &C, keys: impl Iterator<Item = (KeyHash, &'r mut Hint)>) {
        match &self.inner {
            Inner::Cache(cache) => keys.for_each(|(hash, hint)| *hint = cache.prefetch_item(cpu, hash)),
            Inner::Heaped(mode) => keys.for_each(|(hash, hint)| *hint = mode.prefetch_item(cpu, hash)),
        }
    }

    /// The key's item; `None` if it does not exist or is expired (then it is removed). `now_s` is in seconds since
    /// server start. Cost: two lines, bucket and item, plus further lines of a longer item or a chain of buckets; in
    /// cache mode the use is counted in the bucket, so that the item is evicted later.
    #[inline(always)]
    pub fn get<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<ItemRef<'_>> {
        self.get_hinted(cpu, key, now_s, Hint::NONE)
    }

    /// As [`get`](Partition::get). `hint` is what [`prefetch_item`](Partition::prefetch_item) returned for the key's
    /// hash.
    #[inline(always)]
    pub fn get_hinted<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        match &mut self.inner {
            Inner::Cache(cache) => cache.get(cpu, key, now_s, hint),
            Inner::Heaped(mode) => {
                let offset = mode.get_offset(cpu, key.hash, key.bytes, now_s, hint)?;
                Some(mode.item(offset))
            }
        }
    }

    /// As [`get_hinted`](Partition::get_hinted), for a key that is only a hash: an empty [`Key`] with it.
    #[inline(always)]
    pub fn get_hash_hinted<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        match &mut self.inner {
            Inner::Cache(cache) => cache.get_hash(cpu, hash, now_s, hint),
            Inner::Heaped(mode) => {
                let offset = mode.get_offset(cpu, hash, &[], now_s, hint)?;
                Some(mode.item(offset))
            }
        }
    }

    /// Stores `value` under `key` until `expire_s`, in seconds since server start (0 = it does not expire). `now_s` is
    /// the current time in the same unit.
    #[inline(always)]
    pub fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
    ) -> PutOutcome {
        self.put_hinted(cpu, key, value, expire_s, now_s, Hint::NONE)
    }

    /// As [`put`](Partition::put). `hint` is what [`prefetch_item`](Partition::prefetch_item) returned for the key's
    /// hash.
    #[inline(always)]
    pub fn put_hinted<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        hint: Hint,
    ) -> PutOutcome {
        let always = Condition::Always;
        match &mut self.inner {
            Inner::Cache(cache) => cache.put(cpu, key, value, expire_s, now_s, always, hint),
            Inner::Heaped(mode) => mode.put(cpu, key.hash, key.bytes, value, expire_s, now_s, always),
        }
    }

    /// As [`put`](Partition::put), if `condition` holds; otherwise nothing changes. Key and value that are too large
    /// are refused before the condition is checked. [`Condition::IfVersion`] compares the [`cas`](ItemRef::cas) number.
    pub fn put_if<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        match &mut self.inner {
            Inner::Cache(cache) => cache.put(cpu, key, value, expire_s, now_s, condition, Hint::NONE),
            Inner::Heaped(mode) => mode.put(cpu, key.hash, key.bytes, value, expire_s, now_s, condition),
        }
    }

    /// Removes the item of `key`; returns whether it existed and was not expired.
    #[inline(always)]
    pub fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        dispatch!(&mut self.inner, mode => mode.delete(cpu, key, now_s))
    }

    /// As [`delete`](Partition::delete), if `condition` holds; otherwise nothing changes. A version is a
    /// [`cas`](ItemRef::cas) number.
    pub fn delete_if<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        condition: Condition,
    ) -> DeleteOutcome {
        let mut present = None;
        self.mark(cpu, key, now_s, |item| {
            present = Some(item.cas());
            Mark::default()
        });
        match present {
            None => DeleteOutcome::Absent,
            Some(cas) if !condition.holds(present) => DeleteOutcome::Present { cas },
            Some(_) => match self.delete(cpu, key, now_s) {
                true => DeleteOutcome::Deleted,
                false => DeleteOutcome::Absent,
            },
        }
    }

    /// Sets the expiry of `key` (in seconds since server start, 0 = it does not expire) and keeps its version; returns
    /// whether the key exists and was not expired. In cache mode the first expiry of an item copies the item to the head
    /// of its log.
    pub fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        dispatch!(&mut self.inner, mode => mode.set_expiry(cpu, key, expire_s, now_s))
    }

    /// As [`get_hinted`](Partition::get_hinted), and applies the change that `decide` returns for the unchanged item. A
    /// change that needs [terms](crate::TERMS_BYTES) or [extras](crate::EXTRAS_BYTES) adds them to an item that has none
    /// by copying its value; the whole change is skipped if there is no space (store mode) or the item would be too long.
    /// Returns the item after the change. Cost: that of a GET, and a write to the item if it changes.
    pub fn get_and_mark<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
        decide: impl FnOnce(ItemRef<'_>) -> Mark,
    ) -> Option<ItemRef<'_>> {
        dispatch!(&mut self.inner, mode => {
            let at = mode.get_offset(cpu, key.hash, key.bytes, now_s, hint)?;
            Some(mode.mark(cpu, key, at, now_s, decide))
        })
    }

    /// As [`get_and_mark`](Partition::get_and_mark), for commands other than GET: hits and misses are not counted.
    pub fn mark<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        decide: impl FnOnce(ItemRef<'_>) -> Mark,
    ) -> Option<ItemRef<'_>> {
        dispatch!(&mut self.inner, mode => {
            let at = mode.find_offset(cpu, key, now_s)?;
            Some(mode.mark(cpu, key, at, now_s, decide))
        })
    }

    /// Stores a value with extras, in the place of the old item if it fits there; see [`ExtraPut`]. Cost: that of a
    /// PUT; a value that is joined to another is copied twice.
    pub fn put_extra<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        now_s: u32,
    ) -> ExtraOutcome {
        dispatch!(&mut self.inner, mode => mode.put_extra(cpu, key, put, now_s))
    }

    /// The number that the last update took: versions and, unless chosen, CAS numbers follow from it.
    pub fn last_version(&self) -> u64 {
        dispatch!(&self.inner, mode => mode.version)
    }

    /// Gives later updates numbers above `version`, so that none equals one that an item copied from elsewhere has, or once had. No
    /// partition lives to take 2^62 numbers: a higher one does not come from one, and counts as that.
    pub fn raise_version(&mut self, version: u64) {
        let version = version.min(1 << 62);
        dispatch!(&mut self.inner, mode => mode.version = mode.version.max(version));
    }

    /// Removes all items. Cost: writes the whole index.
    pub fn clear(&mut self) {
        dispatch!(&mut self.inner, mode => mode.clear())
    }

    /// Time at which to remove all items, in seconds since the server's start; `None` = never. It is only a note for
    /// the owner, who calls [`clear`](Partition::clear) then, and for readers, who leave all keys to the owner from then on.
    /// Like items it survives a [warm restart](crate::WarmFile).
    #[inline(always)]
    pub fn clear_at_s(&self) -> Option<u32> {
        self.clear_at_s
    }

    /// Sets the time that [`clear_at_s`](Partition::clear_at_s) returns. Removes nothing itself.
    pub fn set_clear_at_s(&mut self, at_s: Option<u32>) {
        self.clear_at_s = at_s;
        if let Some(shared) = self.shared() {
            shared.set_clear_at_s(at_s);
        }
    }

    /// Calls `visit` with the items whose keys' hashes have the upper 32 of their
    /// [bucket bits](KeyHash::bucket_bits) in `hashes`, and that
    /// are not expired. A scan in pieces begins each where the last one ended, from 0 to 2^32: then an item stored or
    /// removed meanwhile is seen once or not at all, and every other item once.
    pub fn scan(&self, hashes: Range<u64>, now_s: u32, mut visit: impl FnMut(ItemRef<'_>)) {
        let spread = dispatch!(&self.inner, mode => mode.spread());
        let end = hashes.end.min(1 << 32);
        if hashes.start >= end {
            return;
        }
        let (first, last) = (hashes.start << 32, ((u128::from(end) << 32) - 1) as u64);
        let mut at = first;
        loop {
            let (index, bucket) = spread.line_of(at);
            // Where it is not known to which of two pieces an item of a divided bucket belongs, it is the first.
            let unknown = *bucket.start() >= first;
            let whole = unknown && *bucket.end() <= last;
            dispatch!(&self.inner, mode => mode.scan_bucket(index, now_s, &mut |item| {
                if whole || mode.hash_of(item).map_or(unknown, |hash| (first..=last).contains(&hash)) {
                    visit(item);
                }
            }));
            if *bucket.end() >= last {
                return;
            }
            at = bucket.end() + 1;
        }
    }

    /// Limits items and index together to `bytes`, while the partition is used: from half of what it was created with up to
    /// all of it. Less memory is given back to the system, and more is used, as PUTs of new keys come; the limit in the
    /// [statistics](Partition::stats) is the new one at once. Returns `false`, and changes nothing, if that is out of
    /// bounds, if the largest item accepted might not fit any more, or if the partition is not an
    /// [elastic](PartitionOptions::elastic) cache.
    pub fn limit_memory(&mut self, bytes: u64) -> bool {
        match &mut self.inner {
            Inner::Cache(cache) => cache.limit_memory(bytes),
            Inner::Heaped(_) => false,
        }
    }

    /// Records evicted items from now on; in store mode there are none. Cost: an allocation for each evicted item. If
    /// evictions are already watched, nothing changes.
    pub fn watch_evictions(&mut self) {
        dispatch!(&mut self.inner, mode => mode.watch().begin());
    }

    /// Stops recording evicted items, and drops those not taken.
    pub fn unwatch_evictions(&mut self) {
        dispatch!(&mut self.inner, mode => mode.watch().end());
    }

    /// Takes the evicted items recorded since the last call, first evicted first. At most 256 are kept between calls:
    /// later ones are lost. Empty unless evictions are [watched](Partition::watch_evictions).
    pub fn take_evicted(&mut self) -> Vec<Evicted> {
        dispatch!(&mut self.inner, mode => mode.watch().take())
    }

    /// [`PartitionStats::expired`] alone: cheaper, for callers that read it before and after each operation.
    #[inline(always)]
    pub fn expired(&self) -> u64 {
        dispatch!(&self.inner, mode => mode.expired())
    }

    /// Current counters and sizes.
    pub fn stats(&self) -> PartitionStats {
        let mut stats = dispatch!(&self.inner, mode => mode.stats());
        if let Some(shared) = self.shared() {
            let (hits, misses) = shared.counts();
            (stats.hits, stats.misses) = (stats.hits + hits, stats.misses + misses);
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_and_readers_can_move_to_their_threads() {
        fn moves<T: Send>() {}
        moves::<Partition>();
        moves::<Partition<crate::SharedReads>>();
        moves::<crate::ItemCopy>();
        moves::<Reader>();
    }

    #[test]
    fn versions_skip_zero() {
        let lap = 1u64 << 31;
        assert_eq!(
            (next_version(0), next_version(7), next_version(lap - 1)),
            (1, 8, lap + 1)
        );
    }
}
