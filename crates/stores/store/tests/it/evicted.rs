//! A watcher of evictions gets every evicted item once, and no other item.

use crate::common::{FIFO, S3_FIFO, hash_at, options};
use drover_base::{KeyHash, Rng};
use drover_mem::NativeCpu;
use drover_store::{Key, Mode, Partition};
use std::collections::BTreeSet;

const KEYS: u64 = 400;
/// Several laps of the smaller logs; under Miri two.
const STEPS: u64 = if cfg!(miri) { 600 } else { 6000 };

struct Watched {
    partition: Partition,
    cpu: NativeCpu,
    /// Existing keys, according to the reports.
    there: BTreeSet<u64>,
}

fn key_of(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// The hash that the key of that name was stored under.
fn hash_of(key: &[u8]) -> KeyHash {
    let number = str::from_utf8(key).ok().and_then(|key| key.strip_prefix("key-"));
    let number: u64 = number
        .and_then(|number| number.parse().ok())
        .expect("a key of ours");
    let buckets = 32;
    hash_at(number % buckets, (number / buckets) as u16 + 1, number)
}

impl Watched {
    fn new(mode: Mode, log_bytes: usize, bucket_count: usize) -> Watched {
        Watched {
            partition: Partition::new(&options(mode, log_bytes, bucket_count)).expect("memory"),
            cpu: NativeCpu::new(1),
            there: BTreeSet::new(),
        }
    }

    fn with_key<T>(&mut self, number: u64, run: impl FnOnce(&mut Partition, &NativeCpu, Key<'_>) -> T) -> T {
        let bytes = key_of(number);
        let key = Key {
            hash: hash_of(&bytes),
            bytes: &bytes,
        };
        run(&mut self.partition, &self.cpu, key)
    }

    fn step(&mut self, rng: &mut Rng) {
        let number = rng.below(KEYS);
        let len = rng.below(200) as usize;
        match rng.below(8) {
            0 => {
                let was_there = self.with_key(number, |p, cpu, key| p.delete(cpu, key, 1));
                assert_eq!(was_there, self.there.remove(&number), "key {number}");
            }
            1..=3 => {
                let found = self.with_key(number, |p, cpu, key| p.get(cpu, key, 1).is_some());
                self.hear(None);
                assert_eq!(found, self.there.contains(&number), "key {number}");
            }
            _ => {
                self.with_key(number, |p, cpu, key| p.put(cpu, key, &vec![7; len], 0, 1));
                self.hear(Some(number));
                self.there.insert(number);
            }
        }
    }

    /// Removes the reported keys; the key just stored must not be among them.
    fn hear(&mut self, stored: Option<u64>) {
        for item in self.partition.take_evicted() {
            let text = String::from_utf8(item.key).expect("text");
            let number: u64 = text[4..].parse().expect("a number");
            assert_ne!(Some(number), stored, "it is there");
            assert!(
                self.there.remove(&number),
                "key {number} is told twice, or was not there"
            );
        }
    }

    fn check_all(&mut self) {
        for number in 0..KEYS {
            let found = self.with_key(number, |p, cpu, key| {
                p.mark(cpu, key, 1, |_| Default::default()).is_some()
            });
            self.hear(None);
            assert_eq!(found, self.there.contains(&number), "key {number}");
        }
    }
}

fn hears_of_everything(mode: Mode, log_bytes: usize, bucket_count: usize, watch_from: u64) {
    let mut watched = Watched::new(mode, log_bytes, bucket_count);
    let mut rng = Rng::new(watch_from + log_bytes as u64, 0, 0);
    for _ in 0..watch_from {
        let number = rng.below(KEYS);
        watched.with_key(number, |p, cpu, key| p.put(cpu, key, &[7; 50], 0, 1));
    }
    watched.there = (0..KEYS)
        .filter(|&number| watched.with_key(number, |p, cpu, key| p.get(cpu, key, 1).is_some()))
        .collect();
    watched.partition.watch_evictions();
    for _ in 0..STEPS {
        watched.step(&mut rng);
    }
    watched.check_all();
}

#[test]
fn from_the_beginning_or_in_the_middle_of_a_lap() {
    for watch_from in [0, 1, 100, 333, 1000] {
        hears_of_everything(FIFO, 1 << 14, 32, watch_from);
    }
}

#[test]
fn with_items_that_stay_because_they_are_read_and_buckets_that_are_full() {
    hears_of_everything(S3_FIFO, 1 << 14, 32, 200);
    hears_of_everything(S3_FIFO, 1 << 16, 8, 200);
    hears_of_everything(Mode::Lru, 1 << 14, 32, 200);
    hears_of_everything(Mode::Lru, 1 << 16, 8, 200);
}

#[test]
fn items_without_a_key_are_told_of_once() {
    let mut watched = Watched::new(FIFO, 1 << 12, 32);
    let partition = &mut watched.partition;
    partition.watch_evictions();
    let name = |number| Key {
        hash: hash_at(number % 32, (number / 32) as u16 + 1, number),
        bytes: b"",
    };
    let mut told = 0;
    for number in 0..200 {
        partition.put(&watched.cpu, name(number), &[7; 50], 0, 1);
        told += partition.take_evicted().len();
    }
    let found = (0..200).filter(|&number| partition.get(&watched.cpu, name(number), 1).is_some());
    let gone = 200 - found.count();
    assert!(gone > 100 && told == gone, "{gone} are gone, {told} were told");
}

#[test]
fn nothing_is_kept_for_who_does_not_watch() {
    let mut watched = Watched::new(FIFO, 1 << 12, 32);
    let fill = |watched: &mut Watched| {
        for number in 0..100 {
            watched.with_key(number, |p, cpu, key| p.put(cpu, key, &[7; 50], 0, 1));
        }
    };
    fill(&mut watched);
    assert!(watched.partition.take_evicted().is_empty());
    watched.partition.watch_evictions();
    fill(&mut watched);
    assert!(!watched.partition.take_evicted().is_empty());
    watched.partition.unwatch_evictions();
    fill(&mut watched);
    assert!(watched.partition.take_evicted().is_empty());
}
