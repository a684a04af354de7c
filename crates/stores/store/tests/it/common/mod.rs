//! Shared code of the scenarios: small partitions, keys with chosen bucket and tag, and a trait that both our partition
//! and deliberately flawed toys implement.
#![allow(dead_code, reason = "every scenario uses a part")]

use drover_base::KeyHash;
use drover_mem::{NativeCpu, PageWish};
use drover_store::{Hint, Key, Mode, Partition, PartitionOptions, PutOutcome};

/// All hashes, for a scan.
pub const ALL: std::ops::Range<u64> = 0..1 << 32;

pub const FIFO: Mode = Mode::FIFO;
pub const S3_FIFO: Mode = Mode::S3_FIFO;

pub fn options(mode: Mode, log_bytes: usize, bucket_count: usize) -> PartitionOptions {
    PartitionOptions {
        mode,
        log_bytes,
        bucket_count,
        pages: PageWish::Small,
        ..Default::default()
    }
}

pub fn partition(mode: Mode, log_bytes: usize, bucket_count: usize) -> Partition {
    Partition::new(&options(mode, log_bytes, bucket_count)).expect("memory")
}

/// A hash of bucket `bucket`, modulo the number of buckets if that is a power of two, with `tag`, different for every
/// `unique`. The upper bits choose the bucket, so they are those of its number in reverse.
pub fn hash_at(bucket: u64, tag: u16, unique: u64) -> KeyHash {
    KeyHash {
        low: u64::from(tag) | u64::from((bucket as u32).reverse_bits()) << 32,
        high: unique,
    }
}

/// A key-value store of one bucket with the two stages of a server.
pub trait Kv {
    fn look_ahead(&mut self, key: u64);
    fn put(&mut self, key: u64, value: &[u8]);
    fn get(&mut self, key: u64) -> Option<Vec<u8>>;
    fn delete(&mut self, key: u64);
}

/// The tag of a [`Kv`] key: keys that are equal modulo 100 have the same tag.
pub fn tag_of(key: u64) -> u16 {
    (key % 100) as u16 + 1
}

/// Our partition, as a [`Kv`].
pub struct Ours {
    pub partition: Partition,
    /// Result of the last prefetch; used for the next operation on any key.
    hint: Hint,
    pub cpu: NativeCpu,
}

impl Ours {
    pub fn new(mode: Mode) -> Ours {
        Ours {
            partition: partition(mode, 4096, 1),
            hint: Hint::NONE,
            cpu: NativeCpu::new(1),
        }
    }
}

impl Kv for Ours {
    fn look_ahead(&mut self, key: u64) {
        let hash = hash_at(0, tag_of(key), key);
        self.partition.prefetch_bucket(&self.cpu, hash, false);
        self.hint = self.partition.prefetch_item(&self.cpu, hash);
    }

    fn put(&mut self, key: u64, value: &[u8]) {
        let bytes = key.to_le_bytes();
        let key = Key {
            hash: hash_at(0, tag_of(key), key),
            bytes: &bytes,
        };
        let outcome = self.partition.put_hinted(&self.cpu, key, value, 0, 0, self.hint);
        assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        let bytes = key.to_le_bytes();
        let key = Key {
            hash: hash_at(0, tag_of(key), key),
            bytes: &bytes,
        };
        self.partition
            .get_hinted(&self.cpu, key, 0, self.hint)
            .map(|item| item.to_value())
    }

    fn delete(&mut self, key: u64) {
        let bytes = key.to_le_bytes();
        let key = Key {
            hash: hash_at(0, tag_of(key), key),
            bytes: &bytes,
        };
        self.partition.delete(&self.cpu, key, 0);
    }
}

/// A flaw of the public code, by the number our specification gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    None,
    /// 1: the newest item of a full bucket is evicted.
    EvictsNewest,
    /// 3: an insert takes the last free slot; a lookup stops at the first slot with the tag.
    LastFreeSlotFirstTag,
    /// 4: a PUT of another length than the stored one is not possible.
    FixedLength,
    /// 5: slot 0 is never used, and an insert stops at the first empty slot, leaving older versions after it.
    StopsAtEmpty,
    /// 6: the second stage serves the item that the first stage found without a check.
    TrustsFirstStage,
    /// 7: the space of an item is assumed to include its 8-byte header.
    RoomIncludesHeader,
}

/// The simplest one-bucket store that can have each flaw. Values are in one byte vector, each after an 8-byte header
/// with its own length.
pub struct Toy {
    flaw: Flaw,
    slots: [Option<Entry>; 8],
    bytes: Vec<u8>,
    clock: u64,
    located: Option<usize>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    at: usize,
    space: usize,
    age: u64,
}

impl Toy {
    pub fn new(flaw: Flaw) -> Toy {
        Toy {
            flaw,
            slots: [None; 8],
            bytes: Vec::new(),
            clock: 0,
            located: None,
        }
    }

    fn find(&self, key: u64) -> Option<usize> {
        let same_tag = |i: &usize| self.slots[*i].is_some_and(|e| tag_of(e.key) == tag_of(key));
        let own = |i: usize| self.slots[i].is_some_and(|e| e.key == key);
        match self.flaw {
            Flaw::LastFreeSlotFirstTag => (0..8).find(same_tag).filter(|&i| own(i)),
            _ => (0..8).find(|&i| own(i)),
        }
    }

    fn slot_for(&self, key: u64) -> usize {
        let free = |i: &usize| self.slots[*i].is_none();
        let age = |i: &usize| self.slots[*i].map_or(0, |e| e.age);
        match self.flaw {
            Flaw::EvictsNewest => (0..8)
                .find(free)
                .unwrap_or((0..8).max_by_key(age).expect("eight")),
            Flaw::LastFreeSlotFirstTag => (0..8).rev().find(free).unwrap_or(0),
            Flaw::StopsAtEmpty => (1..8)
                .find(|i| free(i) || self.slots[*i].is_some_and(|e| e.key == key))
                .unwrap_or(1),
            _ => (0..8)
                .find(free)
                .unwrap_or((0..8).min_by_key(age).expect("eight")),
        }
    }

    fn write(&mut self, at: usize, value: &[u8]) {
        self.bytes[at - 8..at].copy_from_slice(&value.len().to_le_bytes());
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }
}

impl Kv for Toy {
    fn look_ahead(&mut self, key: u64) {
        self.located = self.find(key);
    }

    fn put(&mut self, key: u64, value: &[u8]) {
        let own = if self.flaw == Flaw::StopsAtEmpty {
            None
        } else {
            self.find(key)
        };
        if let Some(entry) = own.and_then(|i| self.slots[i]) {
            let header = if self.flaw == Flaw::RoomIncludesHeader {
                8
            } else {
                0
            };
            if self.flaw == Flaw::FixedLength {
                let fixed = &value[..value.len().min(entry.space)];
                return self.write(entry.at, fixed);
            }
            if value.len() <= entry.space + header {
                return self.write(entry.at, value);
            }
        }
        let at = self.bytes.len() + 8;
        let space = value.len().next_multiple_of(8);
        self.bytes.resize(at + space, 0);
        self.write(at, value);
        self.clock += 1;
        let slot = own.unwrap_or_else(|| self.slot_for(key));
        self.slots[slot] = Some(Entry {
            key,
            at,
            space,
            age: self.clock,
        });
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        let located = self.located.take();
        let slot = match self.flaw {
            Flaw::TrustsFirstStage => located.or_else(|| self.find(key)),
            _ => self.find(key),
        };
        let entry = self.slots[slot?]?;
        let len = u64::from_le_bytes(self.bytes[entry.at - 8..entry.at].try_into().expect("8 bytes"));
        self.bytes
            .get(entry.at..)?
            .get(..len as usize)
            .map(<[u8]>::to_vec)
    }

    fn delete(&mut self, key: u64) {
        let first_empty_ends = self.flaw == Flaw::StopsAtEmpty;
        for slot in &mut self.slots[usize::from(first_empty_ends)..] {
            if slot.is_none() && first_empty_ends {
                continue;
            }
            if slot.is_some_and(|e| e.key == key) {
                *slot = None;
                if first_empty_ends {
                    return;
                }
            }
        }
    }
}
