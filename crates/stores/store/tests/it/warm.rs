//! A memory file passed from one process to the next: after a clean stop all items come back, otherwise the start is
//! cold and reports the reason.
#![cfg(not(miri))]

use crate::common::{ALL, FIFO, options};
use drover_base::{HashKind, HashSeed, Rng};
use drover_mem::NativeCpu;
use drover_store::{
    Doubt, Exclusive, ExtraPut, ItemRef, Key, Mode, Partition, PartitionOptions, PutOutcome, WarmFile,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const SEED: HashSeed = HashSeed::new(5, 6);
const NOW: u64 = 1_700_000_000;
const MODES: [Mode; 3] = [FIFO, Mode::Store, Mode::Lru];
const PART: u64 = 2 << 20;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "drover-warm-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("items")
    }

    fn meta(&self) -> PathBuf {
        self.0.join("items.meta")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small(mode: Mode) -> PartitionOptions {
    options(mode, 1 << 14, 32)
}

fn open(path: &Path, options: &PartitionOptions, count: usize, now: u64) -> (WarmFile, Option<Doubt>) {
    WarmFile::open(path, options, count, SEED, None, now).expect("a file")
}

/// All items of a partition, by key.
type Items = BTreeMap<Vec<u8>, (Vec<u8>, u32, u32, u64, u32)>;

fn items(partition: &Partition) -> Items {
    let mut all = Items::new();
    partition.scan(ALL, 1, |item: ItemRef<'_>| {
        let rest = (
            item.to_value(),
            item.expire_s(),
            item.version(),
            item.cas(),
            item.flags(),
        );
        all.insert(item.to_key(), rest);
    });
    all
}

/// Some hundred operations on keys of all kinds; the log wraps, chains grow.
fn work(partition: &mut Partition, seed: u64) {
    let cpu = NativeCpu::new(1);
    let mut rng = Rng::new(seed, 0, 0);
    for _ in 0..400 {
        let name = format!("key-{}", rng.below(150));
        let key = Key {
            hash: SEED.hash(name.as_bytes()),
            bytes: name.as_bytes(),
        };
        let value = vec![rng.below(256) as u8; rng.below(120) as usize];
        match rng.below(4) {
            0 => _ = partition.delete(&cpu, key, 1),
            1 => {
                let put = ExtraPut {
                    value: &[&value],
                    flags: rng.below(1 << 32) as u32,
                    expire_s: 1000,
                    ..Default::default()
                };
                partition.put_extra(&cpu, key, &put, 1);
            }
            _ => _ = partition.put(&cpu, key, &value, 0, 1),
        }
    }
}

/// Works in both partitions of a file and leaves it; returns their items.
fn leave(folder: &Folder, mode: Mode, seed: u64) -> [Items; 2] {
    let (warm, _) = open(&folder.file(), &small(mode), 2, NOW);
    let left = [0, 1].map(|index| {
        let (mut partition, doubt) = warm.partition::<Exclusive>(index).expect("memory");
        assert_eq!(doubt, None);
        work(&mut partition, seed + index as u64);
        warm.leave(index, &partition);
        items(&partition)
    });
    assert!(warm.seal(NOW + 50).expect("space"));
    left
}

#[test]
fn what_is_left_comes_back_and_goes_on_over_generations() {
    for mode in MODES {
        let folder = Folder::new();
        let mut left = leave(&folder, mode, 1);
        for generation in 2..5 {
            assert!(!left[0].is_empty() && !left[1].is_empty());
            let (warm, doubt) = open(&folder.file(), &small(mode), 2, NOW + 100 * generation);
            assert_eq!((doubt, warm.seed(), warm.start_unix_s()), (None, SEED, NOW));
            assert!(!folder.meta().exists(), "a crash from now on means a cold start");
            left = [0, 1].map(|index| {
                let (mut partition, doubt) = warm.partition::<Exclusive>(index).expect("memory");
                assert_eq!(doubt, None);
                assert_eq!(items(&partition), left[index]);
                work(&mut partition, 10 * generation + index as u64);
                warm.leave(index, &partition);
                items(&partition)
            });
            assert!(warm.seal(NOW + 100 * generation + 50).expect("space"));
        }
    }
}

#[test]
fn versions_and_cas_numbers_go_on() {
    for mode in MODES {
        let folder = Folder::new();
        let newest = leave(&folder, mode, 1)[0].values().map(|item| item.3).max();
        let (warm, _) = open(&folder.file(), &small(mode), 2, NOW + 60);
        let (mut partition, _) = warm.partition::<Exclusive>(0).expect("memory");
        let key = Key {
            hash: SEED.hash(b"new"),
            bytes: b"new",
        };
        let PutOutcome::Stored { version } = partition.put(&NativeCpu::new(1), key, b"", 0, 1) else {
            panic!("no space");
        };
        assert!(Some(u64::from(version)) > newest);
    }
}

#[test]
fn who_crashes_starts_cold() {
    for mode in MODES {
        let folder = Folder::new();
        leave(&folder, mode, 1);
        let (warm, doubt) = open(&folder.file(), &small(mode), 2, NOW);
        assert_eq!(doubt, None);
        let (partition, _) = warm.partition::<Exclusive>(0).expect("memory");
        warm.leave(0, &partition);
        assert!(!warm.seal(NOW).expect("space"), "partition 1 was not left");
        drop((warm, partition));
        let (warm, doubt) = open(&folder.file(), &small(mode), 2, NOW);
        assert_eq!(doubt, Some(Doubt::NoRecord));
        let (partition, doubt) = warm.partition::<Exclusive>(1).expect("memory");
        assert!(items(&partition).is_empty() && doubt.is_none());
    }
}

#[test]
fn a_partition_that_begins_again_is_empty() {
    for mode in MODES {
        let folder = Folder::new();
        leave(&folder, mode, 1);
        let (warm, _) = open(&folder.file(), &small(mode), 2, NOW);
        assert!(!items(&warm.partition::<Exclusive>(0).expect("memory").0).is_empty());
        assert!(items(&warm.partition::<Exclusive>(0).expect("memory").0).is_empty());
        assert!(!items(&warm.partition::<Exclusive>(1).expect("memory").0).is_empty());
    }
}

#[test]
fn the_time_at_which_all_is_to_be_forgotten_is_kept() {
    for at in [None, Some(0), Some(77), Some(u32::MAX)] {
        let folder = Folder::new();
        let (warm, _) = open(&folder.file(), &small(FIFO), 1, NOW);
        let (mut partition, _) = warm.partition::<Exclusive>(0).expect("memory");
        partition.set_clear_at_s(at);
        warm.leave(0, &partition);
        assert!(warm.seal(NOW).expect("space"));
        drop((warm, partition));
        let (warm, _) = open(&folder.file(), &small(FIFO), 1, NOW);
        assert_eq!(warm.partition::<Exclusive>(0).expect("memory").0.clear_at_s(), at);
    }
}

/// Items are private to their owner, and the seed allows to construct colliding keys.
#[test]
fn nobody_else_may_read_what_is_left() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    leave(&folder, FIFO, 1);
    for path in [folder.file(), folder.meta()] {
        let mode = std::fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_file_in_use_is_refused() {
    let folder = Folder::new();
    let _in_use = open(&folder.file(), &small(FIFO), 1, NOW);
    let error = WarmFile::open(&folder.file(), &small(FIFO), 1, SEED, None, NOW).expect_err("it is in use");
    assert!(error.to_string().contains("another process"), "{error}");
}

#[test]
fn time_goes_on_by_the_wall_clock_and_never_back() {
    for (opened, start) in [(NOW + 50, NOW), (NOW + 500, NOW), (NOW + 20, NOW - 30)] {
        let folder = Folder::new();
        leave(&folder, FIFO, 1);
        let (warm, doubt) = open(&folder.file(), &small(FIFO), 2, opened);
        assert_eq!((doubt, warm.start_unix_s()), (None, start));
        assert!(opened - warm.start_unix_s() >= 50);
    }
}

#[test]
fn other_settings_start_cold_and_say_what_is_different() {
    let wider = options(FIFO, 1 << 15, 16);
    let more = options(FIFO, 1 << 14, 64);
    let cases = [
        (small(Mode::Store), 2, "the mode"),
        (wider, 2, "memory for items"),
        (more, 2, "buckets"),
        (small(FIFO), 3, "partitions"),
    ];
    for (wanted, count, what) in cases {
        let folder = Folder::new();
        leave(&folder, FIFO, 1);
        let (warm, doubt) = open(&folder.file(), &wanted, count, NOW);
        let said = doubt.expect("a reason").to_string();
        assert!(said.contains(what), "{said}");
        for index in 0..count {
            assert!(items(&warm.partition::<Exclusive>(index).expect("memory").0).is_empty());
        }
    }
}

#[test]
fn another_seed_starts_cold_and_does_not_tell_the_old_one() {
    let folder = Folder::new();
    leave(&folder, FIFO, 1);
    let fixed = Some(HashSeed::new(7, 7));
    let (warm, doubt) = WarmFile::open(&folder.file(), &small(FIFO), 2, SEED, fixed, NOW).expect("a file");
    assert_eq!((doubt, Some(warm.seed())), (Some(Doubt::Seed), fixed));
}

#[test]
fn another_hash_starts_cold_and_is_named() {
    let folder = Folder::new();
    leave(&folder, FIFO, 1);
    let aes = HashSeed::of(HashKind::Aes, 5, 6);
    let (warm, doubt) = WarmFile::open(&folder.file(), &small(FIFO), 2, aes, None, NOW).expect("a file");
    let doubt = doubt.expect("a reason").to_string();
    assert_eq!(doubt, "its keys were hashed with xxh3, not with aes");
    assert_eq!(warm.seed(), aes);
    assert!(items(&warm.partition::<Exclusive>(0).expect("memory").0).is_empty());
}

#[test]
fn a_file_of_another_length_starts_cold() {
    for len in [0, PART, 2 * PART - 4096, 2 * PART + 4096] {
        let folder = Folder::new();
        leave(&folder, FIFO, 1);
        let file = OpenOptions::new()
            .write(true)
            .open(folder.file())
            .expect("it is there");
        file.set_len(len).expect("space");
        let (warm, doubt) = open(&folder.file(), &small(FIFO), 2, NOW);
        assert!(matches!(doubt, Some(Doubt::Differs { .. })), "{len}: {doubt:?}");
        assert!(items(&warm.partition::<Exclusive>(0).expect("memory").0).is_empty());
    }
}

#[test]
fn a_description_cut_off_anywhere_starts_cold() {
    let folder = Folder::new();
    leave(&folder, FIFO, 1);
    let whole = std::fs::read(folder.meta()).expect("it is there");
    for len in (0..whole.len()).step_by(7) {
        std::fs::write(folder.meta(), &whole[..len]).expect("space");
        let (_warm, doubt) = open(&folder.file(), &small(FIFO), 2, NOW);
        assert!(matches!(doubt, Some(Doubt::Record(_))), "{len}: {doubt:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bytes of the file change while it is not in use. Either the partition reports it or none of its data was hit;
    /// there is no panic, neither then nor in the work that follows.
    #[test]
    fn damage_is_noticed(
        store in any::<bool>(),
        seed in 0u64..8,
        at in 0u64..(1 << 14) + 16 * 64 + 256,
        damage in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let mode = MODES[usize::from(store)];
        let folder = Folder::new();
        let left = leave(&folder, mode, seed);
        let file = OpenOptions::new().write(true).open(folder.file()).expect("it is there");
        file.write_all_at(&damage, at).expect("space");
        let (warm, doubt) = open(&folder.file(), &small(mode), 2, NOW);
        prop_assert_eq!(doubt, None);
        let (mut partition, doubt) = warm.partition::<Exclusive>(0).expect("memory");
        match doubt {
            None => prop_assert_eq!(&items(&partition), &left[0]),
            Some(doubt) => {
                let said = matches!(doubt, Doubt::Contents { .. });
                prop_assert!(said && items(&partition).is_empty());
            }
        }
        work(&mut partition, seed);
        let (other, doubt) = warm.partition::<Exclusive>(1).expect("memory");
        prop_assert!(doubt.is_none() && items(&other) == left[1]);
    }

    /// Random bytes all over the file.
    #[test]
    fn garbage_is_no_partition(store in any::<bool>(), seed in any::<u64>()) {
        let mode = MODES[usize::from(store)];
        let folder = Folder::new();
        leave(&folder, mode, 1);
        let mut rng = Rng::new(seed, 0, 0);
        let garbage: Vec<u8> = (0..1 << 15).map(|_| rng.below(256) as u8).collect();
        let file = OpenOptions::new().write(true).open(folder.file()).expect("it is there");
        file.write_all_at(&garbage, 0).expect("space");
        let (warm, _) = open(&folder.file(), &small(mode), 2, NOW);
        let (mut partition, doubt) = warm.partition::<Exclusive>(0).expect("memory");
        prop_assert!(doubt.is_some() && items(&partition).is_empty());
        work(&mut partition, 1);
    }
}
