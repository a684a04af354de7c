//! CREW: one thread writes as fast as it can while another reads; no value read may be torn or of another key.

use crate::common::{FIFO, options};
use drover_base::{HashSeed, Rng};
use drover_mem::NativeCpu;
use drover_store::{ExtraPut, Key, Mode, Partition, ReadOutcome, Reader, SharedReads};
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 64;
const WRITES: u64 = if cfg!(miri) { 60 } else { 60_000 };
/// Upper bound of value lengths; shorter under Miri, which is slow.
const LEN_END: u64 = if cfg!(miri) { 70 } else { 700 };

/// A value that can be verified: key, a stamp, and the stamp in every following byte.
fn value(key: u64, stamp: u64, len: usize) -> Vec<u8> {
    let mut out = vec![stamp as u8; 16 + len];
    out[..8].copy_from_slice(&key.to_le_bytes());
    out[8..16].copy_from_slice(&stamp.to_le_bytes());
    out
}

fn is_whole(key: u64, bytes: &[u8]) -> bool {
    bytes.len() >= 16 && bytes[..8] == key.to_le_bytes() && bytes[16..].iter().all(|&b| b == bytes[8])
}

fn write(mut partition: Partition<SharedReads>, seed: HashSeed) -> Partition<SharedReads> {
    let cpu = NativeCpu::new(1);
    let mut rng = Rng::new(4, 0, 0);
    for stamp in 1..=WRITES {
        let name = rng.below(KEYS).to_le_bytes();
        let key = Key {
            hash: seed.hash(&name),
            bytes: &name,
        };
        if rng.chance(0.1) {
            partition.delete(&cpu, key, 1);
        } else {
            let len = if rng.chance(0.5) {
                16
            } else {
                rng.below(LEN_END) as usize
            };
            let value = value(u64::from_le_bytes(name), stamp, len);
            if rng.chance(0.5) {
                // Far from now or never: with terms and without.
                let expire_s = if rng.chance(0.3) { 1000 } else { 0 };
                partition.put(&cpu, key, &value, expire_s, 1);
                if rng.chance(0.1) {
                    partition.set_expiry(&cpu, key, 2000, 1);
                }
            } else {
                let put = ExtraPut {
                    value: &[&value[..11], &value[11..]],
                    flags: !0,
                    cas: Some(u64::MAX),
                    ..Default::default()
                };
                partition.put_extra(&cpu, key, &put, 1);
            }
        }
    }
    partition
}

/// Reads until `done`; returns hits.
fn read(reader: &Reader, seed: HashSeed, done: &AtomicBool) -> u64 {
    let cpu = NativeCpu::new(2);
    let mut rng = Rng::new(5, 0, 0);
    let (mut out, mut items, mut hits) = (Vec::new(), Vec::new(), 0);
    let mut latest = [0; KEYS as usize];
    loop {
        let last_round = done.load(Ordering::Acquire);
        for _ in 0..if cfg!(miri) { 40 } else { 100 } {
            let k = rng.below(KEYS);
            let name = k.to_le_bytes();
            let outcome = reader.get(
                &cpu,
                Key {
                    hash: seed.hash(&name),
                    bytes: &name,
                },
                1,
                &mut out,
            );
            if let ReadOutcome::Hit { version, .. } = outcome {
                assert!(is_whole(k, &out), "key {k}: {out:?}");
                assert!(version >= latest[k as usize], "key {k} went back in time");
                latest[k as usize] = version;
                hits += 1;
            }
        }
        items.clear();
        reader.scan(rng.below(16), 1, &mut items);
        for item in &items {
            let k = u64::from_le_bytes(item.key.as_slice().try_into().expect("8 bytes"));
            assert!(is_whole(k, &item.value) && item.hash_key.is_none(), "{item:?}");
        }
        if last_round {
            return hits;
        }
    }
}

fn one_writes_one_reads(mode: Mode) {
    let seed = HashSeed::new(7, 8);
    // Small enough that the log wraps, buckets overflow and chunks are reused all the time.
    let partition = Partition::<SharedReads>::create(&options(mode, 1 << 14, 16)).expect("memory");
    let reader = partition.reader();
    let done = AtomicBool::new(false);
    let hits = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&reader, seed, &done));
        let writing = scope.spawn(|| {
            let partition = write(partition, seed);
            done.store(true, Ordering::Release);
            partition
        });
        let writer = writing.join();
        done.store(true, Ordering::Release); // Also if the writer failed: the reader must end.
        writer.expect("the writer ends");
        reading.join().expect("the reader ends")
    });
    assert!(hits > 0);
}

#[test]
fn one_writes_one_reads_in_cache_mode() {
    one_writes_one_reads(FIFO);
}

#[test]
fn one_writes_one_reads_in_store_mode() {
    one_writes_one_reads(Mode::Store);
}

#[test]
fn a_torn_value_would_be_noticed() {
    let mut torn = value(3, 700, 40);
    assert!(is_whole(3, &torn) && !is_whole(4, &torn));
    torn[30] ^= 1;
    assert!(!is_whole(3, &torn));
}
