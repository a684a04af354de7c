//! An elastic cache: its index follows the number of items, at the expense of the memory for them, while everything
//! stays true.

use crate::common::{ALL, options};
use drover_base::{HashSeed, KeyHasher, Rng};
use drover_mem::NativeCpu;
use drover_store::{Key, Mode, Partition, PartitionOptions, PutOutcome};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SEED: HashSeed = HashSeed::new(8, 9);

struct Elastic {
    partition: Partition,
    cpu: NativeCpu,
    hasher: KeyHasher,
    /// The last value stored under each key; the cache may have lost it.
    model: BTreeMap<u64, Vec<u8>>,
    stored: u64,
}

impl Elastic {
    fn new(mode: Mode, total: usize) -> Elastic {
        Elastic::with_values(mode, total, 1 << 20)
    }

    /// A cache for values of at most `value_bytes_max` bytes.
    fn with_values(mode: Mode, total: usize, value_bytes_max: usize) -> Elastic {
        let bucket_count = total / 64 / 100;
        let sizes = PartitionOptions {
            elastic: true,
            value_bytes_max,
            hash_seed: Some(SEED),
            ..options(mode, total - 64 * bucket_count, bucket_count)
        };
        Elastic {
            partition: Partition::new(&sizes).expect("memory"),
            cpu: NativeCpu::new(1),
            hasher: SEED.hasher(),
            model: BTreeMap::new(),
            stored: 0,
        }
    }

    fn put(&mut self, number: u64, len: usize, now_s: u32) {
        self.stored += 1;
        let mut value = self.stored.to_le_bytes().to_vec();
        value.resize(len.max(8), number as u8);
        let bytes = number.to_le_bytes();
        let key = Key {
            hash: self.hasher.hash(&bytes),
            bytes: &bytes,
        };
        let outcome = self.partition.put(&self.cpu, key, &value, 0, now_s);
        assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
        self.model.insert(number, value);
    }

    fn get(&mut self, number: u64) -> Option<Vec<u8>> {
        let bytes = number.to_le_bytes();
        let key = Key {
            hash: self.hasher.hash(&bytes),
            bytes: &bytes,
        };
        let found = self.partition.get(&self.cpu, key, 1).map(|item| item.to_value());
        if found.is_some() {
            assert_eq!(found.as_ref(), self.model.get(&number), "key {number}");
        }
        found
    }

    /// Checks that a scan, a read of every key and the counters agree.
    fn check(&mut self) {
        let (mut seen, mut bytes) = (BTreeMap::new(), 0);
        self.partition.scan(ALL, 1, |item| {
            let number = u64::from_le_bytes(item.to_key().try_into().expect("8 bytes"));
            assert!(seen.insert(number, item.to_value()).is_none(), "twice");
            bytes += item.bytes() as u64;
        });
        let stats = self.partition.stats();
        assert_eq!((seen.len() as u64, bytes), (stats.items, stats.bytes));
        assert_eq!(stats.inserts, stats.items + stats.evicted() + stats.deletes);
        let numbers: Vec<u64> = self.model.keys().copied().collect();
        for number in numbers {
            assert_eq!(self.get(number).as_ref(), seen.get(&number), "key {number}");
        }
    }
}

/// Bytes that an item of these values takes.
fn item_bytes(value_len: usize) -> u64 {
    drover_store::item_bytes(8, value_len) as u64
}

#[test]
fn the_index_follows_the_size_of_the_items() {
    let total = if cfg!(miri) { 1 << 14 } else { 1 << 20 };
    for mode in [Mode::S3_FIFO, Mode::FIFO] {
        let mut cache = Elastic::new(mode, total);
        let mut number = 0;
        for len in [400, 32, 3000, 100] {
            // Several laps, so that only items of this length are left.
            for _ in 0..6 * total as u64 / item_bytes(len) {
                number += 1;
                cache.put(number, len, 1);
            }
            cache.model.retain(|&key, _| key + 2 * total as u64 / 40 > number);
            cache.check();
            let stats = cache.partition.stats();
            // Items of earlier lengths may be left: nothing needed their space.
            let (held, per_item) = (
                stats.bytes as f64 / stats.items as f64,
                total as f64 / stats.items as f64,
            );
            assert!(
                per_item < 1.09 * (held + 15.0),
                "{mode:?}: {per_item:.1} bytes for an item of {held:.1} and its share of the index; {stats:?}"
            );
            assert_eq!(stats.bytes_max, total as u64);
            assert!(stats.bytes + stats.slots * 8 <= total as u64);
        }
    }
}

/// A guard: one item of 1 MiB made the index shrink, and a tenth of the small ones after it was lost.
#[test]
fn nothing_is_lost_while_there_is_memory_for_it() {
    let total = if cfg!(miri) { 1 << 17 } else { 16 << 20 };
    for long in [0, total / 16, total / 40] {
        let mut cache = Elastic::new(Mode::S3_FIFO, total);
        cache.put(u64::MAX, long, 1);
        for number in 0..total as u64 / 300 {
            cache.put(number, 32, 1);
        }
        let stats = cache.partition.stats();
        // A bucket may be full by chance, very seldom.
        assert!(stats.evicted() <= stats.items / 500, "{stats:?}");
        cache.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 12 }))]

    #[test]
    fn everything_stays_true_while_the_index_changes(seed in any::<u64>()) {
        stays_true(&mut Rng::new(seed, 0, 0));
    }
}

fn stays_true(rng: &mut Rng) {
    let total = 64 * (1000 + rng.below(4000)) as usize;
    let mut cache = Elastic::new([Mode::S3_FIFO, Mode::FIFO][rng.below(2) as usize], total);
    let mut longest = 40;
    for step in 0..if cfg!(miri) { 200 } else { 20_000 } {
        if step % 4000 == 0 {
            longest = [20, 100, 700, 3000][rng.below(4) as usize];
        }
        let number = rng.below(8000);
        match rng.below(4) {
            0 => _ = cache.get(number),
            1 if rng.below(10) == 0 => {
                let bytes = number.to_le_bytes();
                let key = Key {
                    hash: cache.hasher.hash(&bytes),
                    bytes: &bytes,
                };
                cache.partition.delete(&cache.cpu, key, 1);
                cache.model.remove(&number);
            }
            _ => {
                let len = rng.below(longest) as usize;
                cache.put(number, len, 1);
                assert!(cache.get(number).is_some(), "just stored");
            }
        }
        if step % 997 == 0 {
            cache.check();
        }
    }
    cache.check();
}

/// A scan in pieces, during which the index changes its size, shows every item that stays exactly once.
/// The limit is halved and doubled again under load: the cache follows, and stays true.
#[test]
fn the_memory_follows_its_limit() {
    let total = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
    let mut elastic = Elastic::with_values(Mode::S3_FIFO, total, 200);
    let new_keys = |elastic: &mut Elastic, from: u64| {
        (from..from + total as u64 / 20).for_each(|number| elastic.put(number, 40, 1));
        elastic.check();
        elastic.partition.stats()
    };
    let full = new_keys(&mut elastic, 0);
    let [half, whole] = [total as u64 / 2, total as u64];
    for bytes in [0, half / 16 * 15, whole + 64, u64::MAX] {
        assert!(!elastic.partition.limit_memory(bytes), "{bytes}");
    }
    assert!(elastic.partition.limit_memory(half));
    assert_eq!(elastic.partition.stats().bytes_max, half);
    let less = new_keys(&mut elastic, 1 << 32);
    assert!(less.bytes + 8 * less.slots <= half, "{less:?}");
    assert!(less.items * 100 >= full.items * 47, "{less:?} after {full:?}");
    assert!(elastic.partition.limit_memory(whole));
    let again = new_keys(&mut elastic, 2 << 32);
    assert!(again.items * 100 >= full.items * 97, "{again:?} after {full:?}");
    assert!(again.bytes + 8 * again.slots <= whole, "{again:?}");
}

#[test]
fn memory_that_does_not_adapt_has_one_limit() {
    let fixed = options(Mode::S3_FIFO, 1 << 16, 16);
    let store = options(Mode::Store, 1 << 16, 16);
    for options in [fixed, store] {
        let mut partition = Partition::new(&options).expect("memory");
        assert!(!partition.limit_memory(partition.stats().bytes_max));
    }
}

#[test]
fn a_scan_in_pieces_sees_every_item_once_while_the_index_grows() {
    let total = 1 << 20;
    let mut cache = Elastic::new(Mode::S3_FIFO, total);
    let stay = 30;
    (0..stay).for_each(|number| cache.put(number, 40, 1));
    let slots = cache.partition.stats().slots;
    let (mut seen, mut from, mut number) = (BTreeMap::new(), 0u64, stay);
    let piece = (1 << 32) / 97;
    while from < 1 << 32 {
        cache.partition.scan(from..from + piece, 1, |item| {
            let number = u64::from_le_bytes(item.to_key().try_into().expect("8 bytes"));
            *seen.entry(number).or_insert(0) += 1;
        });
        from += piece;
        for _ in 0..40 {
            number += 1;
            cache.put(number, 40, 1);
        }
    }
    assert!(
        cfg!(miri) || cache.partition.stats().slots > 2 * slots,
        "it has grown"
    );
    for key in 0..stay {
        assert_eq!(seen.get(&key), Some(&1), "key {key}");
    }
    assert!(seen.values().all(|&times| times == 1));
}

/// A PUT computes the hash of its key again: an item stored with a wrong hash is found with the right one, and evicted
/// as any other.
#[test]
fn a_wrong_hash_does_no_harm() {
    let mut cache = Elastic::new(Mode::S3_FIFO, 1 << 16);
    for number in 0..5000u64 {
        let bytes = number.to_le_bytes();
        let key = Key {
            hash: cache.hasher.hash(b"of another key"),
            bytes: &bytes,
        };
        cache.partition.put(&cache.cpu, key, &bytes, 0, 1);
        cache.model.insert(number, bytes.to_vec());
        assert!(cache.get(number).is_some());
    }
    cache.check();
}
