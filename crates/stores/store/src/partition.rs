//! [`Partition`]: the operations, whatever the mode.

use crate::cache::{Cache, Evicted};
use crate::extras::{ExtraOutcome, ExtraPut, Mark};
use crate::frozen::{Doubt, Frozen, Survey};
use crate::item::{self, ItemRef, KEY_BYTES_MAX, Key, VALUE_BYTES_MAX};
use crate::lossless::Lossless;
use crate::reader::Reader;
use crate::sharing::{Exclusive, SharedReads, Sharing};
use crate::stats::PartitionStats;
use crate::{Mode, PartitionOptions};
use drover_base::{Cpu, KeyHash};
use drover_index::{BUCKET_BYTES, BucketLines, SlotMask, StoreTable};
use drover_mem::{AllocError, MaskedRef, MaskedRegion, Region};

/// The items of one share of the keys. `S` says whether other threads may read along ([`Exclusive`]: no);
/// `BITS` is the width of log offsets, less than 48 only in tests.
#[derive(Debug)]
pub struct Partition<S: Sharing = Exclusive, const BITS: u32 = 48> {
    inner: Inner<S, BITS>,
    clear_at_s: Option<u32>,
}

#[derive(Debug)]
enum Inner<S: Sharing, const BITS: u32> {
    Cache(Cache<S, BITS>),
    Store(Lossless<S, BITS>),
}

/// The same call on whichever mode it is.
macro_rules! dispatch {
    ($inner:expr, $mode:ident => $call:expr) => {
        match $inner {
            Inner::Cache($mode) => $call,
            Inner::Store($mode) => $call,
        }
    };
}

/// Where [`Partition::prefetch_item`] saw slots that may be the key's. It saves the operation that follows the
/// search for them; nothing else is believed of it. A hint that is stale, another key's or made up is as good as none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint(u8);

impl Hint {
    /// No idea.
    pub const NONE: Hint = Hint(0);

    #[inline(always)]
    pub(crate) fn new(candidates: SlotMask) -> Hint {
        Hint(candidates.bits() as u8)
    }

    #[inline(always)]
    pub(crate) fn slot_index(self) -> Option<usize> {
        self.is_candidate().then(|| self.0.trailing_zeros() as usize)
    }

    /// Whether there was such a slot.
    #[inline(always)]
    pub fn is_candidate(self) -> bool {
        self.0 != 0
    }
}

/// What became of a PUT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutOutcome {
    /// It is stored.
    Stored {
        /// Its version from now on.
        version: u32,
    },
    /// No space (store mode only). An older value of the key, if any, is untouched.
    Full,
    /// The key is longer than [`KEY_BYTES_MAX`], the value longer than the partition's maximum, or both
    /// together larger than the log.
    TooLarge,
    /// The condition wanted the key absent or at another version.
    Present {
        /// The version that is there.
        version: u32,
    },
    /// The condition wanted the key present.
    Absent,
}

/// What must be true for a PUT to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Nothing.
    Always,
    /// The key is not there (memcached's `add`).
    IfAbsent,
    /// The key is there (`replace`).
    IfPresent,
    /// The key is there at this version (`cas`).
    IfVersion(u32),
}

impl Condition {
    /// The refusal of a PUT to a key that is `present` at a version, or not.
    pub(crate) fn refuse(self, present: Option<u32>) -> Option<PutOutcome> {
        match (self, present) {
            (Condition::IfPresent | Condition::IfVersion(_), None) => Some(PutOutcome::Absent),
            (Condition::IfAbsent, Some(version)) => Some(PutOutcome::Present { version }),
            (Condition::IfVersion(want), Some(version)) if want != version => {
                Some(PutOutcome::Present { version })
            }
            _ => None,
        }
    }
}

/// The version after `version`. Items keep the lower half, which is never 0; CAS numbers are all of it and do not
/// come again.
#[inline(always)]
pub(crate) fn next_version(version: u64) -> u64 {
    let next = version + 1;
    next + u64::from(next as u32 == 0)
}

/// The largest items accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    value_bytes_max: usize,
    item_bytes_max: usize,
}

impl Limits {
    /// `item_bytes_max`: the longest item there can be space for.
    pub(crate) fn new(options: &PartitionOptions, item_bytes_max: usize) -> Limits {
        Limits {
            value_bytes_max: options.value_bytes_max.min(VALUE_BYTES_MAX),
            item_bytes_max,
        }
    }

    #[inline(always)]
    pub(crate) fn allow(&self, key: Key<'_>, value_len: usize, extras_bytes: usize) -> bool {
        key.bytes.len() <= KEY_BYTES_MAX
            && value_len <= self.value_bytes_max
            && item::item_bytes(key.bytes.len(), value_len) + extras_bytes <= self.item_bytes_max
    }
}

impl Partition {
    /// An empty partition that only its owner sees. Errors: [`AllocError`].
    ///
    /// # Panics
    /// If a size is not a power of two or the log is longer than 2^46 bytes.
    pub fn new(options: &PartitionOptions) -> Result<Partition, AllocError> {
        Partition::create(options)
    }
}

impl<const BITS: u32> Partition<SharedReads, BITS> {
    /// Eyes for another thread; any number of them.
    pub fn reader(&self) -> Reader<BITS> {
        dispatch!(&self.inner, mode => mode.reader())
    }
}

impl<S: Sharing, const BITS: u32> Partition<S, BITS> {
    /// An empty partition with any sharing. Errors and panics as [`Partition::new`].
    pub fn create(options: &PartitionOptions) -> Result<Self, AllocError> {
        let region = Region::private(Self::memory_bytes(options), options.pages)?;
        Ok(Self::in_region(options, region))
    }

    /// Memory that such a partition needs, bytes.
    pub fn memory_bytes(options: &PartitionOptions) -> usize {
        options.log_bytes + Self::table_bytes(options).max(MaskedRef::REACH)
    }

    fn table_bytes(options: &PartitionOptions) -> usize {
        match options.mode {
            Mode::Cache { .. } => options.bucket_count * BUCKET_BYTES,
            Mode::Store => StoreTable::<BITS>::bytes(options.bucket_count),
        }
    }

    /// An empty partition in `region`, whatever was there.
    ///
    /// # Panics
    /// As [`Partition::new`], and if the region has less than [`memory_bytes`](Partition::memory_bytes).
    pub fn create_in(options: &PartitionOptions, region: Region) -> Self {
        region.zero(options.log_bytes, Self::table_bytes(options));
        Self::in_region(options, region)
    }

    fn in_region(options: &PartitionOptions, region: Region) -> Self {
        let sharing = S::for_buckets(options.bucket_count);
        let inner = match options.mode {
            Mode::Cache { .. } => Inner::Cache(Cache::in_region(options, sharing, region)),
            Mode::Store => Inner::Store(Lossless::in_region(options, sharing, region)),
        };
        Partition {
            inner,
            clear_at_s: None,
        }
    }

    /// What must be known beside the memory to go on in another process, and what the memory then must be. Nothing may be
    /// written afterwards. Cost: reads the index and all items, some gigabytes a second.
    pub fn freeze(&self) -> Frozen {
        let state = dispatch!(&self.inner, mode => mode.state());
        let memory = dispatch!(&self.inner, mode => mode.memory());
        let is_store = matches!(self.inner, Inner::Store(_));
        let table_bytes = match &self.inner {
            Inner::Cache(cache) => cache.bucket_count() as usize * BUCKET_BYTES,
            Inner::Store(store) => StoreTable::<BITS>::bytes(store.bucket_count() as usize),
        };
        let survey = Survey::new::<BITS>(memory, table_bytes, is_store, &state, None);
        let digests = survey.expect("a partition's own items are sound").digests;
        Frozen {
            state,
            clear_at_s: self.clear_at_s,
            digests,
        }
    }

    /// The partition that was frozen, in its memory. Errors: [`Doubt`]; then the region is as it was.
    ///
    /// # Panics
    /// As [`create_in`](Partition::create_in).
    pub fn thaw(options: &PartitionOptions, region: Region, frozen: &Frozen) -> Result<Self, Doubt> {
        let (state, is_store) = (&frozen.state, options.mode == Mode::Store);
        let memory = MaskedRegion::new(region.clone(), 0, options.log_bytes);
        let index = Some(frozen.digests.index);
        let survey = Survey::new::<BITS>(&memory, Self::table_bytes(options), is_store, state, index)?;
        if survey.digests != frozen.digests {
            return Err(Doubt::Contents { what: "an item" });
        }
        let sharing = S::for_buckets(options.bucket_count);
        let inner = if is_store {
            let store = Lossless::resume(options, sharing, region, state, &survey.offsets);
            Inner::Store(store.ok_or(Doubt::Contents { what: "the heap" })?)
        } else {
            let mut cache = Cache::in_region(options, sharing, region);
            cache.resume(state);
            Inner::Cache(cache)
        };
        Ok(Partition {
            inner,
            clear_at_s: frozen.clear_at_s,
        })
    }

    /// Asks for the bucket of `hash`, to be called a batch ahead. `for_write` says that a PUT or DELETE
    /// will come.
    #[inline(always)]
    pub fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash, for_write: bool) {
        let _ = for_write; // The owner's lines are exclusive in its cache anyway.
        cpu.prefetch(self.bucket_lines().of(hash));
    }

    /// Where the buckets are, for whoever prefetches many in a loop.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        dispatch!(&self.inner, mode => mode.bucket_lines())
    }

    /// Looks through the bucket's tags and asks for the items that may be meant, the lines of their first 64 bytes
    /// each. The hint makes the operation that follows cheaper; that one checks everything again.
    #[inline(always)]
    pub fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        dispatch!(&self.inner, mode => mode.prefetch_item(cpu, hash))
    }

    /// The key's item, unless there is none or its time is over. `now_s` counts seconds since server start.
    /// Cost: two lines, bucket and item, plus what the item is longer.
    #[inline(always)]
    pub fn get<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<ItemRef<'_>> {
        self.get_hinted(cpu, key, now_s, Hint::NONE)
    }

    /// As [`get`](Partition::get), with what [`prefetch_item`](Partition::prefetch_item) said about the key's hash.
    #[inline(always)]
    pub fn get_hinted<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        hint: Hint,
    ) -> Option<ItemRef<'_>> {
        dispatch!(&mut self.inner, mode => mode.get(cpu, key, now_s, hint))
    }

    /// Stores `value` under `key` until `expire_s` (0 = for ever).
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

    /// As [`put`](Partition::put), with what [`prefetch_item`](Partition::prefetch_item) said about the key's hash.
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
            Inner::Store(store) => store.put(cpu, key.hash, key.bytes, value, expire_s, now_s, always),
        }
    }

    /// As [`put`](Partition::put), if `condition` holds.
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
            Inner::Store(store) => store.put(cpu, key.hash, key.bytes, value, expire_s, now_s, condition),
        }
    }

    /// Removes `key`; says whether it was there.
    #[inline(always)]
    pub fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        dispatch!(&mut self.inner, mode => mode.delete(cpu, key, now_s))
    }

    /// Gives `key` another expiry time and keeps its version; says whether it was there.
    pub fn set_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        dispatch!(&mut self.inner, mode => mode.set_expiry(cpu, key, expire_s, now_s))
    }

    /// As [`get_hinted`](Partition::get_hinted), and changes about the item what `decide`, who sees it as it was, says.
    /// A change that needs [extras](ExtraPut) gives them to an item that has none: a copy of its value; in store mode
    /// it does not happen if there is no space. Cost: that of a GET, and a write to the item if something changes.
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

    /// As [`get_and_mark`](Partition::get_and_mark), for commands that are no GET: hits and misses are not counted.
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

    /// Stores a value with extras, in place if there is space; see [`ExtraPut`]. Cost: that of a PUT; a value that is
    /// joined to another is copied twice.
    pub fn put_extra<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        now_s: u32,
    ) -> ExtraOutcome {
        dispatch!(&mut self.inner, mode => mode.put_extra(cpu, key, put, now_s))
    }

    /// Forgets everything. Cost: writes the whole index.
    pub fn clear(&mut self) {
        dispatch!(&mut self.inner, mode => mode.clear())
    }

    /// When everything stored before is to be forgotten, in seconds since the server's start: a note for the owner, who
    /// [clears](Partition::clear) then. It outlives a [warm restart](crate::WarmFile) as items do.
    #[inline(always)]
    pub fn clear_at_s(&self) -> Option<u32> {
        self.clear_at_s
    }

    /// Notes when everything is to be forgotten.
    pub fn set_clear_at_s(&mut self, at_s: Option<u32>) {
        self.clear_at_s = at_s;
    }

    /// Shows the live items of one bucket to `visit` and returns the cursor of the next bucket, `None` after
    /// the last. Start with 0. An item stored or moved during a scan is seen once, twice or not at all, but
    /// items that stay put are seen once.
    pub fn scan(&self, cursor: u64, now_s: u32, mut visit: impl FnMut(ItemRef<'_>)) -> Option<u64> {
        dispatch!(&self.inner, mode => mode.scan_bucket(cursor, now_s, &mut visit));
        let bucket_count = dispatch!(&self.inner, mode => mode.bucket_count());
        (cursor + 1 < bucket_count).then_some(cursor + 1)
    }

    /// From now on notes who goes to make space; in store mode nobody does. Cost: a look at the whole index;
    /// while it is on, an allocation for each item that goes and one or two for each that the log writes over.
    /// `hash_of` is asked for the hashes of their keys, which are not kept: of an item that was stored under another
    /// hash than that of its key nothing is noted. While somebody watches already, nothing changes.
    pub fn watch_evictions(&mut self, hash_of: impl Fn(&[u8]) -> KeyHash + Send + Sync + 'static) {
        if let Inner::Cache(cache) = &mut self.inner
            && !cache.is_watched()
        {
            cache.watch_evictions(Box::new(hash_of));
        }
    }

    /// No longer notes who goes.
    pub fn unwatch_evictions(&mut self) {
        if let Inner::Cache(cache) = &mut self.inner {
            cache.unwatch_evictions();
        }
    }

    /// Takes what was noted since the last call, oldest first; of more than 256 items only the first are.
    pub fn take_evicted(&mut self) -> Vec<Evicted> {
        match &mut self.inner {
            Inner::Cache(cache) => cache.take_evicted(),
            Inner::Store(_) => Vec::new(),
        }
    }

    /// [`PartitionStats::expired`] alone, for whoever asks around each operation.
    #[inline(always)]
    pub fn expired(&self) -> u64 {
        dispatch!(&self.inner, mode => mode.expired())
    }

    /// Counters and sizes.
    pub fn stats(&self) -> PartitionStats {
        dispatch!(&self.inner, mode => mode.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_and_readers_can_move_to_their_threads() {
        fn moves<T: Send>() {}
        moves::<Partition>();
        moves::<Partition<SharedReads>>();
        moves::<Reader>();
    }

    #[test]
    fn versions_skip_zero() {
        let lap = 1u64 << 32;
        assert_eq!(
            (next_version(0), next_version(7), next_version(lap - 1)),
            (1, 8, lap + 1)
        );
    }
}
