//! [`Reader`]: another thread's read access to a partition that its owner continues to write.
//!
//! ```text
//! look     how hashes are spread, whether all items are due to be removed          one line, seldom written
//! find     the lock of the key's pair of buckets, the bucket, the item's key       as the owner does
//! copy     the whole item to memory of the reader
//! check    neither has the lock moved, nor have buckets been moved: then the copy is an item, and the key's
//! ```
//! All data that a reader sees may be half-changed, including an item's lengths, so nothing is believed before the check
//! ([`Seqlock`](drover_index::Seqlock)). An item's bytes are reused, or their pages returned to the system, only after its
//! entry was removed under its lock; a bucket is reused only after its entries were moved under the lock of all.
//!
//! A reader changes nothing but the count of uses in an item's entry, by which the owner decides what to evict: it replaces
//! the entry that it has read, if that is still there. The owner, which does not expect that, may overwrite the count; then
//! one use is lost.

use crate::item::{self, Head, ItemRef, Key};
use crate::sharing::{Shared, Sight};
use drover_base::Cpu;
use drover_index::{CacheTable, Slot, StoreTable};
use drover_mem::{AllocError, BoundedRegion, LINE_BYTES, MaskedRef, PageWish, Spread};
use std::sync::Arc;

/// Tries of a read. A second change of the same buckets within a microsecond says that the owner is busy with them.
const TRIES: usize = 2;

/// Most spare buckets of a chain that are followed: a half-changed link could form a cycle.
const CHAIN_MAX: usize = 16;

/// Copies of items shorter than this are made word by word.
const BULK_BYTES: usize = 512;

/// Read access to a [`Partition`](crate::Partition) from another thread, in the same memory; made by
/// [`Partition::reader`](crate::Partition::reader).
#[derive(Clone, Debug)]
pub struct Reader {
    view: View,
    memory: BoundedRegion,
    shared: Arc<Shared>,
}

/// Read access to the owner's index.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Cache(CacheTable),
    Store(StoreTable),
}

/// Memory for the copy of an item: private to the thread that reads.
#[derive(Debug)]
pub struct ItemCopy {
    memory: BoundedRegion,
}

impl ItemCopy {
    /// Bytes of the longest item that is read in place, with its key and fields. A longer one takes as long to copy as to
    /// ask the owner for, and in that time the owner may change it.
    pub const BYTES_MAX: usize = 16 << 10;

    /// Allocates the memory.
    ///
    /// # Errors
    /// [`AllocError`] if the system does not provide it.
    pub fn new() -> Result<ItemCopy, AllocError> {
        Ok(ItemCopy {
            memory: BoundedRegion::private(ItemCopy::BYTES_MAX, PageWish::Small)?,
        })
    }
}

/// Result of a GET by a [`Reader`].
#[derive(Clone, Copy, Debug)]
pub enum ReadOutcome<'c> {
    /// The key exists.
    Hit(ReadItem<'c>),
    /// The key does not exist.
    Miss,
    /// Only the owner can answer: it changed the key's bucket, or one that shares its lock, during both tries, or is moving
    /// buckets; the item has expired or is due to be removed with all others, which the owner does; or it is longer than
    /// [`ItemCopy::BYTES_MAX`].
    Unknown,
}

/// An item that a [`Reader`] has copied.
#[derive(Clone, Copy, Debug)]
pub struct ReadItem<'c> {
    /// The copy.
    pub item: ItemRef<'c>,
    /// The entry's number, and the entry.
    entry: (u64, Slot),
}

/// What one try found.
enum Found {
    /// An item of so many bytes, copied, and its entry.
    Copied(u64, Slot),
    Nothing,
    /// An item that is too long to be copied.
    TooLong,
    /// Nothing that a key's item could be.
    Nonsense,
}

impl Reader {
    pub(crate) fn new(view: View, memory: BoundedRegion, shared: Arc<Shared>) -> Reader {
        Reader { view, memory, shared }
    }

    /// Copies the item of `key` to `copy`. `now_s` is in seconds since server start. Counts no use: that is for
    /// [`count_use`](Reader::count_use), and [`count`](Reader::count) for the partition's statistics. Cost: three lines that
    /// the owner may have written, and those of a GET of the owner.
    pub fn get<'c, C: Cpu>(&self, cpu: &C, key: Key<'_>, now_s: u32, copy: &'c ItemCopy) -> ReadOutcome<'c> {
        for _ in 0..TRIES {
            if let Some(outcome) = self.try_get(cpu, key, now_s, copy, || ()) {
                return outcome;
            }
            drover_mem::pause();
        }
        ReadOutcome::Unknown
    }

    /// Counts a GET of an item in its entry, as [`Partition::get`](crate::Partition::get) does; nothing if the entry has
    /// changed since.
    #[inline]
    pub fn count_use(&self, read: &ReadItem<'_>) {
        let (number, slot) = read.entry;
        if let View::Cache(table) = &self.view
            && !slot.is_saturated()
        {
            table.slot_ref(number).try_update(slot, slot.read());
        }
    }

    /// Adds GETs to the partition's [statistics](crate::Partition::stats). Cost: a line that is shared with all other
    /// readers, so it should be done for many at once.
    pub fn count(&self, hits: u64, misses: u64) {
        self.shared.count(hits, misses);
    }

    /// Prefetches the bucket of `hash`; as [`Partition::prefetch_bucket`](crate::Partition::prefetch_bucket).
    #[inline]
    pub fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: drover_base::KeyHash) {
        if let Some(sight) = self.shared.look() {
            let index = sight.spread.index_of(hash.bucket_bits());
            cpu.prefetch(match &self.view {
                View::Cache(table) => table.bucket_at(index).line(),
                View::Store(table) => table.bucket_at(index).line(),
            });
        }
    }

    /// Prefetches the item of `hash`, after its bucket.
    #[inline]
    pub fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: drover_base::KeyHash) {
        let Some(sight) = self.shared.look() else {
            return;
        };
        let index = sight.spread.index_of(hash.bucket_bits());
        let (candidates, bucket) = match &self.view {
            View::Cache(table) => {
                let bucket = table.bucket_at(index);
                (bucket.matches(hash.tag()), bucket.slots())
            }
            View::Store(_) => return,
        };
        for i in candidates {
            let offset = bucket[i].offset();
            cpu.prefetch(self.memory.line(offset));
            cpu.prefetch(self.memory.line(offset + LINE_BYTES as u64));
        }
    }

    /// One try of [`get`](Reader::get); `None` if the data read may be torn. `between` runs after the item is copied
    /// and before it is validated.
    fn try_get<'c, C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        copy: &'c ItemCopy,
        between: impl FnOnce(),
    ) -> Option<ReadOutcome<'c>> {
        let sight = self.shared.look()?;
        if item::is_past(sight.clear_at_s, now_s) {
            return Some(ReadOutcome::Unknown);
        }
        let index = sight.spread.index_of(key.hash.bucket_bits());
        let lock = self.shared.lock(index);
        let ticket = lock.begin_read()?;
        let found = self.find(cpu, key, index, &sight, copy);
        between();
        if !lock.is_current(ticket) || !self.shared.is_current(&sight) {
            return None;
        }
        Some(match found {
            Found::Copied(number, slot) => {
                let item = ItemRef::new(copy.memory.place(0));
                match item.is_expired(now_s) {
                    true => ReadOutcome::Unknown,
                    false => ReadOutcome::Hit(ReadItem {
                        item,
                        entry: (number, slot),
                    }),
                }
            }
            Found::Nothing => ReadOutcome::Miss,
            Found::TooLong | Found::Nonsense => ReadOutcome::Unknown,
        })
    }

    /// Looks for the key's item in the bucket `index`, and copies it.
    #[inline]
    fn find<C: Cpu>(&self, cpu: &C, key: Key<'_>, index: u64, sight: &Sight, copy: &ItemCopy) -> Found {
        match &self.view {
            View::Cache(table) => {
                let found = self.find_in(cpu, key, table, index, copy);
                match (found, table.bucket_at(index).has_spilled()) {
                    (Found::Nothing, true) => self.find_in(cpu, key, table, index ^ 1, copy),
                    (found, _) => found,
                }
            }
            View::Store(table) => {
                debug_assert_eq!(sight.spread, Spread::even(table.bucket_count()));
                self.find_in_chain(cpu, key, table, index, copy)
            }
        }
    }

    #[inline]
    fn find_in<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        table: &CacheTable,
        index: u64,
        copy: &ItemCopy,
    ) -> Found {
        let bucket = table.bucket_at(index);
        cpu.touch(bucket.line());
        for i in bucket.matches(key.hash.tag()) {
            let slot = bucket.slot(i);
            if let Some(found) = self.copy_own(cpu, key, 8 * index + i as u64, slot, copy) {
                return found;
            }
        }
        Found::Nothing
    }

    fn find_in_chain<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        table: &StoreTable,
        index: u64,
        copy: &ItemCopy,
    ) -> Found {
        let mut at = Some(table.bucket_at(index));
        for _ in 0..CHAIN_MAX {
            let Some(bucket) = at else {
                return Found::Nothing;
            };
            cpu.touch(bucket.line());
            for i in bucket.matches(key.hash.tag()) {
                if let Some(found) = self.copy_own(cpu, key, 0, bucket.slot(i), copy) {
                    return found;
                }
            }
            at = table.next(bucket);
        }
        Found::Nonsense
    }

    /// Copies the item of `slot` if it has the key; `None` if it has another.
    #[inline]
    fn copy_own<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        number: u64,
        slot: Slot,
        copy: &ItemCopy,
    ) -> Option<Found> {
        let place = self.memory.place(slot.offset());
        cpu.touch(place.line(0));
        let head = Head::load(place);
        if head.is_skip() || !item::is_own(place, head, key) {
            return None;
        }
        let bytes = head.bytes();
        if bytes > ItemCopy::BYTES_MAX || !place.maps(0, bytes) {
            return Some(Found::TooLong);
        }
        item::touch_rest(cpu, place, head);
        copy_item(place, bytes, &copy.memory);
        Some(Found::Copied(number, slot))
    }
}

/// Copies an item of `bytes` bytes.
#[inline]
fn copy_item(from: MaskedRef<'_>, bytes: usize, to: &BoundedRegion) {
    match bytes < BULK_BYTES {
        true => from.move_words(to.place(0), bytes),
        false => from.copy_to(0, to.region(), 0, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mark, Mode, Partition, PartitionOptions, SharedReads};
    use drover_base::HashSeed;
    use drover_mem::NativeCpu;

    const FIFO: Mode = Mode::FIFO;
    const SEED: HashSeed = HashSeed::new(1, 2);

    fn partition(mode: Mode) -> Partition<SharedReads> {
        let options = PartitionOptions {
            mode,
            log_bytes: 1 << 12,
            bucket_count: 4,
            pages: PageWish::Small,
            hash_seed: Some(SEED),
            ..Default::default()
        };
        Partition::create(&options).expect("memory")
    }

    fn key(bytes: &[u8]) -> Key<'_> {
        Key {
            hash: SEED.hash(bytes),
            bytes,
        }
    }

    fn put(p: &mut Partition<SharedReads>, bytes: &[u8], value: &[u8]) {
        let outcome = p.put(&NativeCpu::new(1), key(bytes), value, 0, 1);
        assert!(matches!(outcome, crate::PutOutcome::Stored { .. }));
    }

    fn reader(p: &Partition<SharedReads>) -> Reader {
        p.reader().expect("it is shared")
    }

    /// The value of `name`; `None` for a miss.
    ///
    /// # Panics
    /// If only the owner can answer.
    fn value(reader: &Reader, name: &[u8], now_s: u32) -> Option<Vec<u8>> {
        let copy = ItemCopy::new().expect("memory");
        match reader.get(&NativeCpu::new(2), key(name), now_s, &copy) {
            ReadOutcome::Hit(read) => Some(read.item.to_value()),
            ReadOutcome::Miss => None,
            ReadOutcome::Unknown => panic!("unknown"),
        }
    }

    fn is_unknown(reader: &Reader, name: &[u8], now_s: u32) -> bool {
        let copy = ItemCopy::new().expect("memory");
        let outcome = reader.get(&NativeCpu::new(2), key(name), now_s, &copy);
        matches!(outcome, ReadOutcome::Unknown)
    }

    /// Reads `b"key"` (stored as 40 times 7) once; `meddle` writes after the value is copied and before it is
    /// validated. Returns whether the copy was believed.
    fn is_believed(mode: Mode, meddle: impl FnOnce(&mut Partition<SharedReads>)) -> bool {
        let mut p = partition(mode);
        put(&mut p, b"key", &[7; 40]);
        let (reader, copy) = (reader(&p), ItemCopy::new().expect("memory"));
        let outcome = reader.try_get(&NativeCpu::new(2), key(b"key"), 1, &copy, || meddle(&mut p));
        match outcome {
            None => false,
            Some(ReadOutcome::Hit(read)) => {
                assert_eq!((read.item.to_value(), read.item.version()), (vec![7; 40], 1));
                true
            }
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_undisturbed_value_is_believed() {
        for mode in [FIFO, Mode::Store] {
            assert!(is_believed(mode, |_| ()));
        }
    }

    #[test]
    fn a_value_changed_meanwhile_is_not_believed() {
        for mode in [FIFO, Mode::Store] {
            assert!(!is_believed(mode, |p| put(p, b"key", &[8; 40])), "in place");
            assert!(!is_believed(mode, |p| put(p, b"key", &[8; 99])), "moved");
            assert!(!is_believed(mode, Partition::clear));
            assert!(!is_believed(mode, |p| p.end_reads()));
            let delete =
                |p: &mut Partition<SharedReads>| assert!(p.delete(&NativeCpu::new(1), key(b"key"), 1));
            assert!(!is_believed(mode, delete));
        }
    }

    #[test]
    fn an_item_the_log_overwrote_meanwhile_is_not_believed() {
        // A key of another pair of buckets under another lock, whose item needs the space.
        let pair = |key: Key<'_>| key.hash.bucket_bits() >> 63;
        let stranger = (0u8..).find(|&b| pair(key(&[b])) != pair(key(b"key")));
        let stranger = [stranger.expect("one of many")];
        assert!(!is_believed(FIFO, |p| put(p, &stranger, &[9; 4030])));
        assert!(is_believed(FIFO, |p| put(p, &stranger, &[9; 3000])));
    }

    #[test]
    fn a_reader_sees_what_the_owner_does() {
        for mode in [FIFO, Mode::S3_FIFO, Mode::Store] {
            let mut p = partition(mode);
            let reader = reader(&p);
            assert_eq!(value(&reader, b"a", 1), None);
            (b'a'..=b'm').for_each(|k| put(&mut p, &[k], &[k; 30]));
            for k in b'a'..=b'm' {
                assert_eq!(value(&reader, &[k], 1), Some(vec![k; 30]));
            }
        }
    }

    #[test]
    fn what_only_the_owner_may_answer_is_unknown() {
        let mut p = partition(FIFO);
        let (reader, cpu) = (reader(&p), NativeCpu::new(2));
        p.put(&cpu, key(b"key"), b"v", 5, 1);
        assert!(is_unknown(&reader, b"key", 5), "it has expired");
        assert_eq!(value(&reader, b"key", 4), Some(b"v".to_vec()));
        p.set_clear_at_s(Some(4));
        assert!(is_unknown(&reader, b"key", 4), "all items are due");
        assert!(value(&reader, b"key", 3).is_some());
        p.set_clear_at_s(None);
        assert!(value(&reader, b"key", 4).is_some());
        let index = key(b"key").hash.bucket_bits() >> 62;
        reader.shared.lock(index).begin_write();
        assert!(is_unknown(&reader, b"key", 4), "a write is under way");
        reader.shared.lock(index).end_write();
        drop(p);
        assert!(is_unknown(&reader, b"key", 4), "the owner has gone");
    }

    #[test]
    fn a_long_item_is_left_to_the_owner() {
        let options = PartitionOptions {
            mode: FIFO,
            log_bytes: 1 << 16,
            bucket_count: 4,
            pages: PageWish::Small,
            hash_seed: Some(SEED),
            ..Default::default()
        };
        let mut p = Partition::<SharedReads>::create(&options).expect("memory");
        // 8 bytes of head and 8 of key.
        let longest = ItemCopy::BYTES_MAX - 16;
        put(&mut p, b"key", &vec![1; longest]);
        assert_eq!(value(&reader(&p), b"key", 1), Some(vec![1; longest]));
        put(&mut p, b"key", &vec![1; longest + 1]);
        assert!(is_unknown(&reader(&p), b"key", 1));
    }

    #[test]
    fn a_use_is_counted_in_the_entry_unless_that_has_changed() {
        let mut p = partition(Mode::S3_FIFO);
        put(&mut p, b"key", b"v");
        let (reader, copy) = (reader(&p), ItemCopy::new().expect("memory"));
        let slot = |reader: &Reader| {
            let View::Cache(table) = &reader.view else {
                panic!("a cache")
            };
            let bucket = table.bucket_at(key(b"key").hash.bucket_bits() >> 62);
            bucket.slot(bucket.matches(key(b"key").hash.tag()).first().expect("stored"))
        };
        let read = |reader: &Reader| match reader.get(&NativeCpu::new(2), key(b"key"), 1, &copy) {
            ReadOutcome::Hit(read) => reader.count_use(&read),
            other => panic!("{other:?}"),
        };
        assert!(!slot(&reader).is_read());
        for uses in [1, 2, 3, 3] {
            read(&reader);
            assert_eq!((slot(&reader).uses(), slot(&reader).is_read()), (uses, true));
        }
        let ReadOutcome::Hit(old) = reader.get(&NativeCpu::new(2), key(b"key"), 1, &copy) else {
            panic!("a hit")
        };
        put(&mut p, b"key", b"w");
        let after = slot(&reader);
        reader.count_use(&old);
        assert_eq!(slot(&reader), after);
        reader.count(7, 5);
        assert_eq!((p.stats().hits, p.stats().misses), (7, 5));
    }

    #[test]
    fn a_mark_that_says_nothing_new_changes_nothing() {
        let mut p = partition(FIFO);
        let cpu = NativeCpu::new(1);
        let access = Mark {
            access: true,
            ..Mark::default()
        };
        put(&mut p, b"key", b"v");
        let would = |p: &mut Partition<SharedReads>, mark: Mark, now_s| {
            let item = p.get(&cpu, key(b"key"), now_s).expect("stored");
            item.would_change(&mark, now_s)
        };
        assert!(!would(&mut p, access, 1), "a plain item records no access");
        let tracked = crate::ExtraPut {
            track_access: true,
            ..crate::ExtraPut::default()
        };
        p.put_extra(&cpu, key(b"key"), &tracked, 1);
        assert!(would(&mut p, access, 1), "fetched for the first time");
        p.mark(&cpu, key(b"key"), 1, |_| access);
        assert!(!would(&mut p, access, 1), "again in the same second");
        assert!(would(&mut p, access, 2), "a second later");
        let won = Mark {
            won: Some(true),
            ..Mark::default()
        };
        assert!(would(&mut p, won, 1));
    }
}
