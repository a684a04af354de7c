//! Loads that a cache meets in bad hours, with partitions as `drover serve -m` makes them: after each, every stored item is
//! accounted for, and a scan finds exactly those that are said to be there.

use crate::common::ALL;
use drover_base::{HashSeed, KeyHasher, Rng};
use drover_mem::{NativeCpu, PageWish};
use drover_store::{Key, Mode, Partition, PartitionOptions, PutOutcome, item_bytes};
use std::collections::BTreeSet;

const SEED: HashSeed = HashSeed::new(4, 5);
/// Most bytes of one value here.
const MEBIBYTE: usize = 1 << 20;
/// A twentieth of all steps under Miri.
const PART: u64 = if cfg!(miri) { 20 } else { 1 };

struct Load {
    partition: Partition,
    cpu: NativeCpu,
    hasher: KeyHasher,
    value: Vec<u8>,
    now_s: u32,
    /// PUTs that were stored.
    stored: u64,
    is_cache: bool,
}

impl Load {
    /// A cache or store in `bytes` of memory.
    fn new(mode: Mode, bytes: usize) -> Load {
        let options = PartitionOptions {
            hash_seed: Some(SEED),
            pages: PageWish::Small,
            ..PartitionOptions::for_memory(mode, bytes)
        };
        Load {
            partition: Partition::new(&options).expect("memory"),
            cpu: NativeCpu::new(1),
            hasher: SEED.hasher(),
            value: vec![0; MEBIBYTE],
            now_s: 1,
            stored: 0,
            is_cache: matches!(mode, Mode::Cache { .. }),
        }
    }

    fn with_key<T>(&mut self, number: u64, run: impl FnOnce(&mut Partition, &NativeCpu, Key<'_>) -> T) -> T {
        let bytes = number.to_le_bytes();
        let key = Key {
            hash: self.hasher.hash(&bytes),
            bytes: &bytes,
        };
        run(&mut self.partition, &self.cpu, key)
    }

    /// Stores a value of `len` bytes, of which the first few tell the key.
    fn put_until(&mut self, number: u64, len: usize, expire_s: u32) -> PutOutcome {
        let mut value = std::mem::take(&mut self.value);
        let told = len.min(8);
        value[..told].copy_from_slice(&number.to_le_bytes()[..told]);
        let now_s = self.now_s;
        let outcome = self.with_key(number, |partition, cpu, key| {
            partition.put(cpu, key, &value[..len], expire_s, now_s)
        });
        self.value = value;
        self.stored += u64::from(matches!(outcome, PutOutcome::Stored { .. }));
        outcome
    }

    fn put(&mut self, number: u64, len: usize) {
        let outcome = self.put_until(number, len, 0);
        assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
    }

    /// Whether the key has an item, whose value must be its own.
    fn get(&mut self, number: u64) -> bool {
        let now_s = self.now_s;
        self.with_key(number, |partition, cpu, key| {
            let Some(item) = partition.get(cpu, key, now_s) else {
                return false;
            };
            let mut told = [0; 8];
            let len = item.value_len().min(8);
            item.copy_value_part(0, &mut told[..len]);
            assert_eq!(told[..len], number.to_le_bytes()[..len], "a value of another key");
            true
        })
    }

    fn delete(&mut self, number: u64) -> bool {
        let now_s = self.now_s;
        self.with_key(number, |partition, cpu, key| partition.delete(cpu, key, now_s))
    }

    /// Checks the accounts against what is there; returns the keys that are.
    fn check(&self) -> BTreeSet<u64> {
        let stats = self.partition.stats();
        let gone = stats.evicted() + stats.expired + stats.reclaimed + stats.deletes + stats.cleared;
        let replaced = stats.updates_in_place + stats.updates_moved;
        assert_eq!(self.stored, stats.items + gone + replaced, "{stats:?}");
        let (mut keys, mut bytes) = (BTreeSet::new(), 0);
        // At a time at which nothing has expired.
        self.partition.scan(ALL, 0, |item| {
            let key = item.to_key().try_into().expect("8 bytes");
            assert!(keys.insert(u64::from_le_bytes(key)), "twice");
            bytes += item.bytes() as u64;
        });
        assert_eq!(keys.len() as u64, stats.items, "{stats:?}");
        // A heap's tags and the rest of a chunk count, too.
        assert!(
            bytes == stats.bytes || !self.is_cache && bytes < stats.bytes,
            "{stats:?}"
        );
        assert!(stats.bytes <= stats.bytes_max, "{stats:?}");
        keys
    }

    fn evicted(&self) -> u64 {
        self.partition.stats().evicted()
    }

    /// Stores many new items of `len` bytes from number `from` on; returns how many are there then.
    fn fill(&mut self, from: u64, len: usize) -> u64 {
        let bytes = self.partition.stats().bytes_max as usize;
        (from..from + 2 * fit(bytes, len)).for_each(|number| self.put(number, len));
        self.partition.stats().items
    }
}

/// Number of items with values of `len` bytes that `bytes` of memory may hold.
fn fit(bytes: usize, len: usize) -> u64 {
    (bytes / (item_bytes(8, len) + 15)) as u64
}

#[test]
fn items_of_one_byte_and_of_a_mebibyte_mixed() {
    for mode in [Mode::S3_FIFO, Mode::FIFO] {
        let mut load = Load::new(mode, 16 << 20);
        let mut rng = Rng::new(7, 0, 0);
        for _ in 0..60_000 / PART {
            let number = rng.below(20_000);
            if !load.get(number) {
                let len = if number.is_multiple_of(100) { MEBIBYTE } else { 1 };
                load.put(number, len);
            }
        }
        load.check();
        // Lengths that change under the same key, both ways.
        for _ in 0..20_000 / PART {
            let len = if rng.below(200) == 0 { MEBIBYTE } else { 1 };
            load.put(rng.below(2_000), len);
        }
        load.check();
        assert!(load.evicted() > 0);
    }
}

#[test]
fn every_item_read_once() {
    for mode in [Mode::S3_FIFO, Mode::FIFO] {
        let bytes = (2 << 20) / PART as usize;
        let mut load = Load::new(mode, bytes);
        for number in 0..4 * fit(bytes, 64) {
            load.put(number, 64);
            assert!(load.get(number), "it has just been stored");
        }
        let there = load.check();
        assert!(there.len() as u64 > fit(bytes, 64) * 9 / 10, "{}", there.len());
    }
}

#[test]
fn one_key_read_for_ever() {
    let bytes = (2 << 20) / PART as usize;
    for len in [64, 1000, 20_000] {
        let mut load = Load::new(Mode::S3_FIFO, bytes);
        load.put(0, len);
        for number in 1..20 * fit(bytes, len) {
            load.put(number, len);
            (0..20).for_each(|_| assert!(load.get(0), "after {number} of {len} bytes"));
        }
        load.check();
    }
}

/// Hits of the hot set during a scan of ten times the memory, and items of it that are there afterwards, per cent each. After
/// `puts_per_read` PUTs of new keys there is a read of the hot set; 0: none.
fn scanned(mode: Mode, puts_per_read: u64) -> [u64; 2] {
    let bytes = (2 << 20) / PART as usize;
    let (mut load, mut rng) = (Load::new(mode, bytes), Rng::new(3, 0, 0));
    let hot = fit(bytes, 400) * 3 / 10;
    for _ in 0..20 * hot {
        let number = rng.below(hot);
        if !load.get(number) {
            load.put(number, 400);
        }
    }
    let (mut hits, mut reads) = (0, 0);
    for number in 0..10 * fit(bytes, 400) {
        load.put((1 << 40) + number, 400);
        if puts_per_read > 0 && number.is_multiple_of(puts_per_read) {
            let number = rng.below(hot);
            let found = load.get(number);
            (hits, reads) = (hits + u64::from(found), reads + 1);
            if !found {
                load.put(number, 400);
            }
        }
    }
    let there = load.check();
    let left = there.range(..hot).count() as u64;
    [100 * hits / u64::max(reads, 1), 100 * left / hot]
}

#[test]
fn a_scan_of_ten_times_the_memory_spares_the_hot_set() {
    let (read, unread) = (scanned(Mode::S3_FIFO, 2), scanned(Mode::S3_FIFO, 0));
    println!(
        "read {read:?}, unread {unread:?}; FIFO {:?}",
        scanned(Mode::FIFO, 2)
    );
    assert!(read[0] >= 98 && read[1] >= 98, "{read:?}");
    assert!(unread[1] >= 90, "{unread:?}");
    // Otherwise the scan proves nothing.
    assert!(scanned(Mode::FIFO, 0)[1] == 0);
}

#[test]
fn a_second_to_live_for_everything() {
    for mode in [Mode::S3_FIFO, Mode::FIFO] {
        let bytes = (1 << 20) / PART as usize;
        let mut load = Load::new(mode, bytes);
        // About two seconds' items fit: half of what is there has expired.
        let per_second = fit(bytes, 100) / 2;
        for second in 1..20 {
            load.now_s = second;
            let first = u64::from(second) * per_second;
            for number in first..first + per_second {
                let outcome = load.put_until(number, 100, second + 1);
                assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
                assert!(load.get(number));
            }
            load.now_s = second + 1;
            assert!(!load.get(first), "its second is over");
            load.check();
        }
        let stats = load.partition.stats();
        assert!(stats.reclaimed > stats.evicted(), "{stats:?}");
    }
}

/// Of a full cache every third item expires; a third has its expiry brought forward. A lap of the index finds them
/// all, and the others, which are used, stay.
#[test]
fn expired_items_go_before_others() {
    let mut load = Load::new(Mode::S3_FIFO, (1 << 20) / PART as usize);
    let mut first_new = 0;
    while load.partition.stats().evicted_log_wrapped == 0 {
        let expire_s = [10, 1000, 0][first_new as usize % 3];
        load.put_until(first_new, 100, expire_s);
        load.get(first_new);
        first_new += 1;
    }
    let held = load.check();
    for &number in held.iter().filter(|number| *number % 3 == 1) {
        assert!(load.with_key(number, |partition, cpu, key| {
            partition.set_expiry(cpu, key, 10, 1)
        }));
    }
    load.now_s = 10;
    let lap = load.partition.stats().slots / 8;
    (first_new..=first_new + lap).for_each(|number| load.put(number, 100));
    let left = load.check();
    assert!(
        left.iter().all(|&number| number % 3 == 2 || number >= first_new),
        "expired ones are left"
    );
    let used = |keys: &BTreeSet<u64>| {
        keys.iter()
            .filter(|&&number| number % 3 == 2 && number < first_new)
            .count()
    };
    let lost = used(&held) - used(&left);
    assert!(
        lost * 20 < used(&held),
        "{lost} of {} used items were evicted",
        used(&held)
    );
}

#[test]
fn deletes_of_everything_leave_all_memory() {
    for mode in [Mode::S3_FIFO, Mode::FIFO] {
        let mut load = Load::new(mode, (1 << 20) / PART as usize);
        let first = load.fill(0, 200);
        for round in 1..4 {
            let there = load.check();
            there.iter().for_each(|&number| assert!(load.delete(number)));
            let stats = load.partition.stats();
            assert_eq!((stats.items, stats.bytes), (0, 0), "{mode:?}");
            load.check();
            let again = load.fill(round << 32, 200);
            // The index has grown to more than the first items needed.
            assert!(again >= first * 96 / 100, "{mode:?}: {again} instead of {first}");
        }
        load.check();
    }
}

#[test]
fn a_flush_leaves_all_memory() {
    for mode in [Mode::S3_FIFO, Mode::FIFO, Mode::Store, Mode::Lru] {
        let mut load = Load::new(mode, (1 << 20) / PART as usize);
        let count = fit((1 << 20) / PART as usize, 200) / 2;
        (0..count).for_each(|number| load.put(number, 200));
        load.partition.clear();
        assert_eq!(load.check().len(), 0);
        assert_eq!(load.partition.stats().bytes, 0, "{mode:?}");
        if mode != Mode::Store {
            let first = load.fill(1 << 32, 200);
            load.partition.clear();
            let again = load.fill(2 << 32, 200);
            assert!(again >= first * 98 / 100, "{mode:?}: {again} instead of {first}");
        }
        load.check();
    }
}

#[test]
fn a_full_store_keeps_everything() {
    let mut load = Load::new(Mode::Store, (1 << 20) / PART as usize);
    let mut rng = Rng::new(9, 0, 0);
    let mut there = BTreeSet::new();
    for number in 0..20_000 / PART {
        let len = 1 << rng.below(12);
        if matches!(load.put_until(number, len, 0), PutOutcome::Stored { .. }) {
            there.insert(number);
        }
    }
    assert!(load.partition.stats().full > 0, "it was full");
    assert_eq!(load.check(), there);
    assert!(there.iter().all(|&number| load.get(number)));
    assert_eq!(load.evicted(), 0);
}

/// A guard: values that grow again and again moved their item through the log, and did not pay for the copies of what is used
/// there, so that nearly all left. What moves leaves holes; copies of twice as many bytes use them once they are a third.
#[test]
fn a_value_that_grows_and_shrinks_leaves_most_others_there() {
    let bytes = (1 << 20) / PART as usize;
    let mut load = Load::new(Mode::S3_FIFO, bytes);
    let count = fit(bytes, 400) * 8 / 10;
    for number in 0..count {
        load.put(number, 400);
        (0..2).for_each(|_| assert!(load.get(number)));
    }
    let before = load.evicted();
    for turn in 0..20_000 / PART {
        load.put(0, if turn % 2 == 0 { 1000 } else { 100 });
    }
    load.check();
    let lost = load.evicted() - before;
    println!("lost {lost} of {count}");
    assert!(lost <= count * 35 / 100, "{lost} of {count}");
}
