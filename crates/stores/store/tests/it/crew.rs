//! CREW: one thread writes as fast as it can while another reads; no value read may be torn, of another key, or older than
//! one read before.

use crate::common::{FIFO, options};
use drover_base::{HashSeed, Rng};
use drover_mem::NativeCpu;
use drover_store::{
    ExtraPut, ItemCopy, Key, Mode, Partition, PartitionOptions, ReadOutcome, Reader, SharedReads, Sharing,
    Unannounced,
};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Keys, and the lengths of their values: `long` of them in a phase, `short` in the next.
#[derive(Clone, Copy)]
struct Load {
    keys: u64,
    long: u64,
    short: u64,
}

const MIXED: Load = Load {
    keys: 64,
    long: LEN_END,
    short: LEN_END,
};

/// Writes in a phase.
const PHASE: u64 = WRITES / 4;

fn write<S: Sharing>(mut partition: Partition<S>, seed: HashSeed, load: Load) -> Partition<S> {
    let cpu = NativeCpu::new(1);
    let mut rng = Rng::new(4, 0, 0);
    for stamp in 1..=WRITES {
        let name = rng.below(load.keys).to_le_bytes();
        let key = Key {
            hash: seed.hash(&name),
            bytes: &name,
        };
        let len_end = if (stamp / PHASE).is_multiple_of(2) {
            load.long
        } else {
            load.short
        };
        if rng.chance(0.1) {
            partition.delete(&cpu, key, 1);
        } else {
            let len = if rng.chance(0.5) {
                16
            } else {
                rng.below(len_end) as usize
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

/// What a reader has seen.
#[derive(Default, Debug)]
struct Seen {
    hits: u64,
    misses: u64,
    unknown: u64,
    /// The first thing that no reader may see.
    wrong: Option<String>,
}

/// Reads until `done`, or until something is wrong.
fn read(reader: &Reader, seed: HashSeed, load: Load, done: &AtomicBool) -> Seen {
    let cpu = NativeCpu::new(2);
    let mut rng = Rng::new(5, 0, 0);
    let (copy, mut seen) = (ItemCopy::new().expect("memory"), Seen::default());
    let mut latest = vec![0; load.keys as usize];
    loop {
        let last_round = done.load(Ordering::Acquire);
        for _ in 0..if cfg!(miri) { 40 } else { 100 } {
            let k = rng.below(load.keys);
            let name = k.to_le_bytes();
            let key = Key {
                hash: seed.hash(&name),
                bytes: &name,
            };
            match reader.get(&cpu, key, 1, &copy) {
                ReadOutcome::Hit(read) => {
                    let (value, version) = (read.item.to_value(), read.item.version());
                    reader.count_use(&read);
                    seen.hits += 1;
                    if !is_whole(k, &value) {
                        seen.wrong = Some(format!("key {k}: {value:?}"));
                    } else if version < latest[k as usize] {
                        seen.wrong = Some(format!("key {k} went back in time"));
                    }
                    latest[k as usize] = version;
                }
                ReadOutcome::Miss => seen.misses += 1,
                ReadOutcome::Unknown => seen.unknown += 1,
            }
        }
        if last_round || seen.wrong.is_some() {
            return seen;
        }
    }
}

fn one_writes_one_reads<S: Sharing + Send>(options: PartitionOptions, load: Load) -> Seen {
    let seed = HashSeed::new(7, 8);
    let options = PartitionOptions {
        hash_seed: Some(seed),
        ..options
    };
    let partition = Partition::<S>::create(&options).expect("memory");
    let reader = partition.reader().expect("it is shared");
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&reader, seed, load, &done));
        let writing = scope.spawn(|| {
            let partition = write(partition, seed, load);
            done.store(true, Ordering::Release);
            partition
        });
        let writer = writing.join();
        done.store(true, Ordering::Release); // Also if the writer failed: the reader must end.
        let partition = writer.expect("the writer ends");
        println!("{:?}", partition.stats());
        // Lengths that are of two items can make it panic.
        reading.join().unwrap_or_else(|_| Seen {
            wrong: Some("the reader panicked".to_owned()),
            ..Seen::default()
        })
    });
    println!("{seen:?}");
    seen
}

/// Small enough that the log wraps, buckets overflow and chunks are reused all the time.
fn small(mode: Mode) -> PartitionOptions {
    options(mode, 1 << 14, 16)
}

fn is_sound(seen: &Seen) {
    assert_eq!(seen.wrong, None);
    assert!(seen.hits > 0);
}

#[test]
fn one_writes_one_reads_in_cache_mode() {
    is_sound(&one_writes_one_reads::<SharedReads>(small(FIFO), MIXED));
    is_sound(&one_writes_one_reads::<SharedReads>(small(Mode::S3_FIFO), MIXED));
}

#[test]
fn one_writes_one_reads_in_store_mode() {
    is_sound(&one_writes_one_reads::<SharedReads>(small(Mode::Store), MIXED));
}

/// Short items make the index grow, longer ones make it shrink.
#[test]
fn one_writes_one_reads_while_the_index_changes_its_size() {
    let load = Load {
        keys: if cfg!(miri) { 100 } else { 4000 },
        long: LEN_END,
        short: 17,
    };
    let options = PartitionOptions {
        pages: drover_mem::PageWish::Small,
        ..PartitionOptions::for_memory(Mode::S3_FIFO, 1 << 17)
    };
    is_sound(&one_writes_one_reads::<SharedReads>(options, load));
}

/// If the owner's writes are not announced, the check of a read finds nothing, and this test notices.
#[test]
#[cfg_attr(miri, ignore = "takes many tries")]
fn a_read_without_its_check_is_caught() {
    let mut tries = 0..100;
    let caught = tries.find(|_| {
        let seen = one_writes_one_reads::<Unannounced>(small(FIFO), MIXED);
        seen.wrong.is_some()
    });
    println!("{caught:?}");
    assert!(caught.is_some());
}

#[test]
fn a_torn_value_would_be_noticed() {
    let mut torn = value(3, 700, 40);
    assert!(is_whole(3, &torn) && !is_whole(4, &torn));
    torn[30] ^= 1;
    assert!(!is_whole(3, &torn));
}
