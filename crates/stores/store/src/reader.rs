//! [`Reader`]: another thread's read access to a partition that its owner continues to write.
//!
//! All data that a reader sees may be half-changed, including an item's lengths. So it copies first and validates
//! afterwards: the bucket's [`Seqlock`](drover_index::Seqlock) must not have moved. An item's bytes are reused only after
//! its entry was removed under that lock.

use crate::item::{self, Head, ItemRef, Key};
use crate::sharing::SharedReads;
use drover_base::{Cpu, KeyHash};
use drover_index::{CacheTable, Slot, StoreTable};
use drover_mem::{BoundedRegion, MaskedRef};

/// Most tries of a reader before it gives up because the owner writes too fast.
const TRIES: usize = 1000;

/// Most spare buckets of a chain that are followed: a half-changed link could form a cycle.
const CHAIN_MAX: usize = 1 << 16;

/// Read access to a [`Partition`](crate::Partition)`<SharedReads>` from another thread, in the same memory; made by
/// [`Partition::reader`](crate::Partition::reader).
#[derive(Clone, Debug)]
pub struct Reader {
    view: View,
    memory: BoundedRegion,
    crew: SharedReads,
}

/// Read access to the owner's index.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Cache(CacheTable),
    Store(StoreTable),
}

/// Result of a GET by a [`Reader`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The key exists; its value is in the buffer that was passed.
    Hit {
        /// Version of the item.
        version: u32,
        /// Time at which the item expires, in seconds since server start; 0 = never.
        expire_s: u32,
    },
    /// The key does not exist or is expired.
    Miss,
    /// The owner changed the bucket, or one that shares its lock, or overwrote the item, during each of 1000 tries. The
    /// buffer holds no value.
    Busy,
}

/// A copy of an item, made by [`Reader::scan`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedItem {
    /// The hash, if the hash is the key; `None` if the item has a key.
    pub hash_key: Option<KeyHash>,
    /// The item's key; empty if the hash is the key.
    pub key: Vec<u8>,
    /// The item's value.
    pub value: Vec<u8>,
    /// Time at which the item expires, in seconds since server start; 0 = never.
    pub expire_s: u32,
    /// Version of the item.
    pub version: u32,
}

impl Reader {
    pub(crate) fn new(view: View, memory: BoundedRegion, crew: SharedReads) -> Reader {
        Reader { view, memory, crew }
    }

    /// Copies the value of `key` to `out`, whose previous contents are lost; after [`ReadOutcome::Busy`] they are
    /// meaningless. Counts nothing and moves no item. Cost: a retry for every concurrent write of the owner to the same
    /// bucket (or one that shares its lock).
    pub fn get<C: Cpu>(&self, cpu: &C, key: Key<'_>, now_s: u32, out: &mut Vec<u8>) -> ReadOutcome {
        for _ in 0..TRIES {
            if let Some(outcome) = self.try_get(cpu, key, now_s, out, || ()) {
                return outcome;
            }
            drover_mem::pause();
        }
        ReadOutcome::Busy
    }

    /// Appends copies of the live items of the bucket at `cursor`, as of one moment, to `out`, and returns the cursor
    /// of the next bucket, `None` after the last. Start with 0. A bucket that the owner writes during each of 1000
    /// tries is skipped.
    pub fn scan(&self, cursor: u64, now_s: u32, out: &mut Vec<OwnedItem>) -> Option<u64> {
        let before = out.len();
        for _ in 0..TRIES {
            if self.try_scan(cursor, now_s, out) {
                break;
            }
            out.truncate(before);
            drover_mem::pause();
        }
        (cursor + 1 < self.bucket_count()).then_some(cursor + 1)
    }

    fn bucket_count(&self) -> u64 {
        match &self.view {
            View::Cache(table) => table.bucket_count(),
            View::Store(table) => table.bucket_count(),
        }
    }

    /// One try of [`get`](Reader::get); `None` if the data read may be torn. `between` runs after the value is copied
    /// and before it is validated.
    fn try_get<C: Cpu>(
        &self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        out: &mut Vec<u8>,
        between: impl FnOnce(),
    ) -> Option<ReadOutcome> {
        out.clear();
        let index = match &self.view {
            View::Cache(table) => table.bucket_index(key.hash),
            View::Store(table) => table.bucket_index(key.hash),
        };
        let lock = self.crew.lock(index);
        let ticket = lock.begin_read()?;
        let mut own = None;
        self.each_slot(index, |slot| {
            if own.is_none() && slot.tag() == key.hash.tag() {
                let place = self.memory.place(slot.offset());
                cpu.touch(place.line(0));
                if item::is_own(place, Head::load(place), key) {
                    own = Some(slot);
                }
            }
        });
        let Some(slot) = own else {
            return lock.is_current(ticket).then_some(ReadOutcome::Miss);
        };
        let item = self.plausible(slot)?;
        item.copy_value(out);
        between();
        if !lock.is_current(ticket) {
            return None;
        }
        if item.is_expired(now_s) {
            out.clear();
            return Some(ReadOutcome::Miss);
        }
        Some(ReadOutcome::Hit {
            version: item.head.version(),
            expire_s: item.expire_s,
        })
    }

    /// One try of [`scan`](Reader::scan).
    fn try_scan(&self, index: u64, now_s: u32, out: &mut Vec<OwnedItem>) -> bool {
        let lock = self.crew.lock(index);
        let Some(ticket) = lock.begin_read() else {
            return false;
        };
        let mut copies = Vec::new();
        let mut torn = false;
        self.each_slot(index, |slot| {
            if slot.is_item() {
                match self.plausible(slot) {
                    Some(item) => copies.push((item.to_owned(), item.is_expired(now_s))),
                    None => torn = true,
                }
            }
        });
        if torn || !lock.is_current(ticket) {
            return false;
        }
        let unexpired = copies.into_iter().filter(|(_, expired)| !expired);
        out.extend(unexpired.map(|(item, _)| item));
        true
    }

    /// Calls `visit` with all slots of a bucket and its chain.
    fn each_slot(&self, index: u64, mut visit: impl FnMut(Slot)) {
        match &self.view {
            View::Cache(table) => table.bucket_at(index).slots().into_iter().for_each(visit),
            View::Store(table) => {
                let mut at = Some(table.bucket_at(index));
                for _ in 0..CHAIN_MAX {
                    let Some(bucket) = at else { return };
                    bucket.slots().into_iter().for_each(&mut visit);
                    at = table.next(bucket);
                }
            }
        }
    }

    /// The item of `slot` if its lengths are plausible: then copying it stays inside the memory.
    fn plausible(&self, slot: Slot) -> Option<Sighting<'_>> {
        let place = self.memory.place(slot.offset());
        let head = Head::load(place);
        let plausible = !head.is_skip() && place.maps(0, head.bytes());
        plausible.then(|| Sighting {
            place,
            head,
            expire_s: head.expire_s(place),
        })
    }
}

/// An item with the head and expiry read from it; the owner may be overwriting it.
struct Sighting<'p> {
    place: MaskedRef<'p>,
    head: Head,
    expire_s: u32,
}

impl Sighting<'_> {
    fn is_expired(&self, now_s: u32) -> bool {
        item::is_past(self.expire_s, now_s)
    }

    fn copy_value(&self, out: &mut Vec<u8>) {
        out.resize(self.head.value_len(), 0);
        self.place.copy_out(self.head.value_start(), out);
    }

    fn to_owned(&self) -> OwnedItem {
        let mut key = vec![0; self.head.key_len()];
        self.place.copy_out(item::HEAD_BYTES, &mut key);
        let mut value = Vec::new();
        self.copy_value(&mut value);
        OwnedItem {
            hash_key: ItemRef::new(self.place).hash_key(),
            key,
            value,
            expire_s: self.expire_s,
            version: self.head.version(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Partition, PartitionOptions};
    use drover_base::HashSeed;
    use drover_mem::{NativeCpu, PageWish};

    const FIFO: Mode = Mode::FIFO;

    fn partition(mode: Mode) -> Partition<SharedReads> {
        let options = PartitionOptions {
            mode,
            log_bytes: 1 << 12,
            bucket_count: 4,
            pages: PageWish::Small,
            ..Default::default()
        };
        Partition::create(&options).expect("memory")
    }

    fn key(bytes: &[u8]) -> Key<'_> {
        Key {
            hash: HashSeed::new(1, 2).hash(bytes),
            bytes,
        }
    }

    fn put(p: &mut Partition<SharedReads>, bytes: &[u8], value: &[u8]) {
        let outcome = p.put(&NativeCpu::new(1), key(bytes), value, 0, 1);
        assert!(matches!(outcome, crate::PutOutcome::Stored { .. }));
    }

    /// Reads `b"key"` (stored as 40 times 7) once; `meddle` writes after the value is copied and before it is
    /// validated.
    fn read_beside(mode: Mode, meddle: impl FnOnce(&mut Partition<SharedReads>)) -> Option<ReadOutcome> {
        let mut p = partition(mode);
        put(&mut p, b"key", &[7; 40]);
        let reader = p.reader();
        let mut out = Vec::new();
        let outcome = reader.try_get(&NativeCpu::new(2), key(b"key"), 1, &mut out, || meddle(&mut p));
        assert_eq!(out, [7; 40], "the copy itself was made before");
        outcome
    }

    #[test]
    fn an_undisturbed_value_is_believed() {
        for mode in [FIFO, Mode::Store] {
            let outcome = read_beside(mode, |_| ());
            assert_eq!(
                outcome,
                Some(ReadOutcome::Hit {
                    version: 1,
                    expire_s: 0
                })
            );
        }
    }

    #[test]
    fn a_value_changed_meanwhile_is_not_believed() {
        for mode in [FIFO, Mode::Store] {
            assert_eq!(read_beside(mode, |p| put(p, b"key", &[8; 40])), None, "in place");
            assert_eq!(read_beside(mode, |p| put(p, b"key", &[8; 99])), None, "moved");
            assert_eq!(read_beside(mode, Partition::clear), None);
            let delete =
                |p: &mut Partition<SharedReads>| assert!(p.delete(&NativeCpu::new(1), key(b"key"), 1));
            assert_eq!(read_beside(mode, delete), None);
        }
    }

    #[test]
    fn an_item_the_log_overwrote_meanwhile_is_not_believed() {
        // A key of another bucket under another lock, whose item needs the space.
        let bucket = |key: Key<'_>| key.hash.bucket_bits() >> 62;
        let stranger = (0u8..).find(|&b| bucket(key(&[b])) != bucket(key(b"key")));
        let stranger = [stranger.expect("one of many")];
        let overwrite = |p: &mut Partition<SharedReads>| put(p, &stranger, &[9; 4030]);
        assert_eq!(read_beside(FIFO, overwrite), None);
        let spare = |p: &mut Partition<SharedReads>| put(p, &stranger, &[9; 3000]);
        assert_eq!(
            read_beside(FIFO, spare),
            Some(ReadOutcome::Hit {
                version: 1,
                expire_s: 0
            })
        );
    }

    #[test]
    fn a_reader_sees_what_the_owner_does() {
        for mode in [FIFO, Mode::Store] {
            let mut p = partition(mode);
            let reader = p.reader();
            let cpu = NativeCpu::new(2);
            let mut out = Vec::new();
            assert_eq!(reader.get(&cpu, key(b"a"), 1, &mut out), ReadOutcome::Miss);
            (b'a'..=b'm').for_each(|k| put(&mut p, &[k], &[k; 30]));
            for k in b'a'..=b'm' {
                assert!(matches!(
                    reader.get(&cpu, key(&[k]), 1, &mut out),
                    ReadOutcome::Hit { .. }
                ));
                assert_eq!(out, [k; 30]);
            }
            let mut items = Vec::new();
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                cursor = reader.scan(at, 1, &mut items);
            }
            let mut names: Vec<u8> = items.iter().map(|item| item.key[0]).collect();
            names.sort_unstable();
            assert_eq!(names, (b'a'..=b'm').collect::<Vec<_>>());
            assert!(
                items
                    .iter()
                    .all(|i| i.value == [i.key[0]; 30] && i.hash_key.is_none())
            );
        }
    }

    #[test]
    fn an_expired_item_is_a_miss_and_a_write_underway_makes_busy() {
        let mut p = partition(FIFO);
        let reader = p.reader();
        let cpu = NativeCpu::new(2);
        let mut out = Vec::new();
        p.put(&cpu, key(b"key"), b"v", 5, 1);
        assert_eq!(reader.get(&cpu, key(b"key"), 5, &mut out), ReadOutcome::Miss);
        assert!(matches!(
            reader.get(&cpu, key(b"key"), 4, &mut out),
            ReadOutcome::Hit { expire_s: 5, .. }
        ));
        let bucket = key(b"key").hash.bucket_bits() >> 62;
        reader.crew.lock(bucket).begin_write();
        assert_eq!(reader.get(&cpu, key(b"key"), 4, &mut out), ReadOutcome::Busy);
    }
}
