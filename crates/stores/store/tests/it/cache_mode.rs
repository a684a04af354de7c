//! Cache mode: eviction order, loss rates, laps of the log, tags, lengths, expiry.

use crate::common::{ALL, FIFO, S3_FIFO, hash_at, options, partition};
use drover_base::{HashSeed, KeyHash, Rng};
use drover_mem::NativeCpu;
use drover_store::{
    Condition, KEY_BYTES_MAX, Key, Partition, PartitionOptions, PutOutcome, Sharing, VALUE_BYTES_MAX,
};

fn put<S: Sharing>(p: &mut Partition<S>, hash: KeyHash, key: &[u8], value: &[u8]) -> u32 {
    match p.put(&NativeCpu::new(1), Key { hash, bytes: key }, value, 0, 1) {
        PutOutcome::Stored { version } => version,
        other => panic!("{other:?}"),
    }
}

fn get<S: Sharing>(p: &mut Partition<S>, hash: KeyHash, key: &[u8]) -> Option<Vec<u8>> {
    p.get(&NativeCpu::new(1), Key { hash, bytes: key }, 1)
        .map(|item| item.to_value())
}

#[test]
fn nine_keys_in_a_bucket_evict_the_oldest_by_log_order() {
    let mut p = partition(FIFO, 1 << 16, 4);
    // Slots and age disagree: key 3 moves (its value grows), so key 0 is oldest, then 1, 2, 4.
    (0..8).for_each(|k| _ = put(&mut p, hash_at(2, k + 1, u64::from(k)), b"", &[k as u8]));
    put(&mut p, hash_at(2, 4, 3), b"", &[3; 64]);
    for (newcomer, gone) in [(8, 0), (9, 1), (10, 2), (11, 4)] {
        put(&mut p, hash_at(2, newcomer + 1, u64::from(newcomer)), b"", &[0]);
        assert_eq!(get(&mut p, hash_at(2, gone + 1, u64::from(gone)), b""), None);
    }
    assert_eq!(get(&mut p, hash_at(2, 4, 3), b""), Some(vec![3; 64]));
    assert_eq!(p.stats().evicted_bucket_full, 4);
    assert_eq!(p.stats().items, 8);
}

/// Share of inserted keys evicted from full buckets, in per cent.
fn loss(load: f64) -> f64 {
    let buckets = if cfg!(miri) { 64 } else { 1 << 14 };
    let keys = (load * 8.0 * buckets as f64) as u64;
    let mut p = partition(FIFO, 1 << 23, buckets);
    let seed = HashSeed::new(5, 6);
    let cpu = NativeCpu::new(1);
    for k in 0..keys {
        p.put(
            &cpu,
            Key {
                hash: seed.hash(&k.to_le_bytes()),
                bytes: b"",
            },
            b"",
            0,
            1,
        );
    }
    let found = (0..keys)
        .filter(|k| {
            p.get(
                &cpu,
                Key {
                    hash: seed.hash(&k.to_le_bytes()),
                    bytes: b"",
                },
                1,
            )
            .is_some()
        })
        .count() as u64;
    assert_eq!(
        keys - found,
        p.stats().evicted_bucket_full,
        "nothing else was lost"
    );
    100.0 * (keys - found) as f64 / keys as f64
}

#[test]
#[cfg_attr(miri, ignore = "statistics want many keys")]
fn index_losses_at_three_loads() {
    for (load, want) in [(0.5, 0.84), (0.75, 5.2), (1.0, 14.0)] {
        let got = loss(load);
        assert!(
            (got - want).abs() < 0.3,
            "load {load}: lost {got:.2} %, expected {want} %"
        );
    }
}

#[test]
fn three_laps_of_mixed_sizes_keep_the_newest_and_only_them() {
    let (log_bytes, looked_at) = if cfg!(miri) { (1 << 11, 12) } else { (1 << 14, 200) };
    let mut p = partition(FIFO, log_bytes, 64);
    let mut rng = Rng::new(3, 0, 0);
    let mut history: Vec<(u64, usize)> = Vec::new();
    let mut appended = 0;
    while appended < 3 * log_bytes {
        let k = history.len() as u64;
        let len = rng.below(400) as usize;
        put(
            &mut p,
            hash_at(k, (k % 60000) as u16 + 1, k),
            &k.to_le_bytes(),
            &vec![k as u8; len],
        );
        appended += drover_store::item_bytes(8, len);
        history.push((k, len));
        // The last few items always exist; items appended more than a lap ago never do.
        let mut behind = 0;
        for &(k, len) in history.iter().rev().take(looked_at) {
            let got = get(&mut p, hash_at(k, (k % 60000) as u16 + 1, k), &k.to_le_bytes());
            behind += drover_store::item_bytes(8, len);
            if behind < log_bytes - 2 * 440 {
                assert_eq!(got, Some(vec![k as u8; len]), "key {k}, {behind} bytes ago");
            }
            if behind > log_bytes {
                assert_eq!(got, None, "key {k}, {behind} bytes ago");
            }
        }
    }
}

#[test]
fn an_item_exactly_a_log_behind_is_still_served() {
    let mut p = partition(FIFO, 4096, 16);
    // 64 items of 64 bytes fill the log to the byte.
    (0..64).for_each(|k| _ = put(&mut p, hash_at(k, 1, k), b"", &[k as u8; 40]));
    assert_eq!(
        get(&mut p, hash_at(0, 1, 0), b""),
        Some(vec![0; 40]),
        "distance = size"
    );
    put(&mut p, hash_at(64, 1, 64), b"", &[64; 40]);
    assert_eq!(get(&mut p, hash_at(0, 1, 0), b""), None);
    assert_eq!(get(&mut p, hash_at(1, 1, 1), b""), Some(vec![1; 40]));
}

#[test]
fn same_tag_collisions_stay_apart() {
    let mut p = partition(FIFO, 1 << 14, 4);
    let (a, b) = (hash_at(1, 9, 1), hash_at(1, 9, 2));
    for round in 0..if cfg!(miri) { 8 } else { 50u8 } {
        put(&mut p, a, b"a", &[round; 10]);
        put(&mut p, b, b"b", &[round + 100; 10]);
        assert_eq!(get(&mut p, a, b"a"), Some(vec![round; 10]));
        assert_eq!(get(&mut p, b, b"b"), Some(vec![round + 100; 10]));
        let (victim, name, other, other_name, value) = if round % 2 == 0 {
            (a, b"a", b, b"b", round + 100)
        } else {
            (b, b"b", a, b"a", round)
        };
        assert!(p.delete(
            &NativeCpu::new(1),
            Key {
                hash: victim,
                bytes: name
            },
            1
        ));
        assert!(!p.delete(
            &NativeCpu::new(1),
            Key {
                hash: victim,
                bytes: name
            },
            1
        ));
        assert_eq!(get(&mut p, victim, name), None);
        assert_eq!(get(&mut p, other, other_name), Some(vec![value; 10]));
    }
}

#[test]
fn tag_zero_is_not_an_empty_slot() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let zero = hash_at(0, 0, 5);
    assert_eq!(get(&mut p, zero, b"k"), None, "eight empty slots do not match");
    put(&mut p, zero, b"k", b"v");
    let one = hash_at(0, 1, 6);
    put(&mut p, one, b"l", b"w");
    assert_eq!(get(&mut p, zero, b"k"), Some(b"v".to_vec()));
    assert_eq!(get(&mut p, one, b"l"), Some(b"w".to_vec()));
}

#[test]
fn lengths_change_both_ways_and_padding_is_zero() {
    let mut p = Partition::new(&PartitionOptions {
        value_bytes_max: VALUE_BYTES_MAX,
        ..options(FIFO, 1 << 24, 8)
    })
    .expect("memory");
    let hash = hash_at(0, 1, 1);
    let lens = [
        0usize,
        1,
        7,
        8,
        9,
        0,
        40,
        33,
        500,
        513,
        12,
        4096,
        100,
        VALUE_BYTES_MAX,
        3,
        VALUE_BYTES_MAX,
    ];
    for key_len in [1usize, 3, 8, 15, 16, 17, 33, KEY_BYTES_MAX] {
        let key = vec![0xee; key_len];
        for (i, &len) in lens
            .iter()
            .enumerate()
            .take(if cfg!(miri) { 8 } else { lens.len() })
        {
            let value: Vec<u8> = (0..len).map(|b| (b + i) as u8 | 1).collect();
            put(&mut p, hash, &key, &value);
            assert_eq!(get(&mut p, hash, &key), Some(value), "key {key_len}, value {len}");
        }
        // Keys that differ in length or in the last byte only, padding included, are other keys.
        let mut shorter = key.clone();
        shorter.pop();
        let mut longer = key.clone();
        longer.push(0);
        let mut other = key.clone();
        *other.last_mut().expect("not empty") ^= 1;
        for wrong in [shorter, longer, other] {
            assert_eq!(get(&mut p, hash, &wrong), None);
        }
        assert!(p.delete(&NativeCpu::new(1), Key { hash, bytes: &key }, 1));
    }
}

#[test]
fn an_item_shrinks_in_its_place_and_moves_to_grow() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let hash = hash_at(0, 1, 1);
    for (len, moved) in [
        (100, 0),
        (104, 0),
        (97, 0),
        (50, 0),
        (1, 0),
        (0, 0),
        (8, 1),
        (7, 1),
        (9, 2),
    ] {
        put(&mut p, hash, b"key", &vec![len as u8; len]);
        assert_eq!(get(&mut p, hash, b"key"), Some(vec![len as u8; len]));
        assert_eq!(p.stats().updates_moved, moved, "{len}");
    }
    let stats = p.stats();
    assert_eq!((stats.inserts, stats.updates_in_place, stats.items), (1, 6, 1));
}

#[test]
fn too_large_is_said_and_changes_nothing() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let cpu = NativeCpu::new(1);
    let hash = hash_at(0, 1, 1);
    put(&mut p, hash, b"key", b"value");
    let long_key = vec![1; KEY_BYTES_MAX + 1];
    for (key, len) in [
        (&b"key"[..], VALUE_BYTES_MAX + 1),
        (b"key", 1 << 14),
        (&long_key, 1),
        (b"key", (1 << 14) - 23),
    ] {
        assert_eq!(
            p.put(&cpu, Key { hash, bytes: key }, &vec![0; len], 0, 1),
            PutOutcome::TooLarge
        );
    }
    assert_eq!(get(&mut p, hash, b"key"), Some(b"value".to_vec()));
    assert_eq!(get(&mut p, hash, &long_key), None);
    let whole_log = vec![9; (1 << 14) - 24];
    put(&mut p, hash, b"key", &whole_log);
    assert_eq!(get(&mut p, hash, b"key"), Some(whole_log));
}

#[test]
fn two_keys_of_the_same_hash_live_side_by_side() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let hash = hash_at(0, 1, 1);
    put(&mut p, hash, b"first", b"1");
    assert_eq!(get(&mut p, hash, b"other"), None);
    put(&mut p, hash, b"other", b"2");
    put(&mut p, hash, b"", b"3");
    assert_eq!(get(&mut p, hash, b"first"), Some(b"1".to_vec()));
    assert_eq!(get(&mut p, hash, b"other"), Some(b"2".to_vec()));
    assert_eq!(get(&mut p, hash, b""), Some(b"3".to_vec()));
    assert_eq!(p.stats().items, 3);
    let other = Key {
        hash,
        bytes: b"other",
    };
    assert!(p.delete(&NativeCpu::new(1), other, 1));
    assert_eq!(get(&mut p, hash, b"other"), None);
    assert_eq!(get(&mut p, hash, b"first"), Some(b"1".to_vec()));
}

#[test]
fn an_item_past_its_time_is_a_miss_and_gives_up_its_slot() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let cpu = NativeCpu::new(1);
    let key = Key {
        hash: hash_at(0, 1, 1),
        bytes: b"key",
    };
    p.put(&cpu, key, b"v", 10, 1);
    assert_eq!(p.get(&cpu, key, 9).map(|i| i.expire_s()), Some(10));
    assert!(p.set_expiry(&cpu, key, 20, 9));
    assert!(p.get(&cpu, key, 19).is_some());
    assert!(p.get(&cpu, key, 20).is_none());
    assert_eq!((p.stats().expired, p.stats().items), (1, 0));
    assert!(!p.set_expiry(&cpu, key, 0, 21));
    p.put(&cpu, key, b"v", u32::MAX, 1);
    assert!(p.get(&cpu, key, u32::MAX - 1).is_some());
    p.put(&cpu, key, b"v", 5, 6);
    assert!(!p.delete(&cpu, key, 6), "what is over cannot be deleted");
}

#[test]
fn versions_decide_conditional_puts() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let cpu = NativeCpu::new(1);
    let key = Key {
        hash: hash_at(0, 1, 1),
        bytes: b"key",
    };
    let mut put_if = |condition, now_s| p.put_if(&cpu, key, b"v", 10, now_s, condition);
    assert_eq!(put_if(Condition::IfPresent, 1), PutOutcome::Absent);
    assert_eq!(put_if(Condition::IfVersion(1), 1), PutOutcome::Absent);
    let PutOutcome::Stored { version } = put_if(Condition::IfAbsent, 1) else {
        panic!()
    };
    assert_eq!(put_if(Condition::IfAbsent, 1), PutOutcome::Present { version });
    assert_eq!(
        put_if(Condition::IfVersion(u64::from(version) + 1), 1),
        PutOutcome::Present { version }
    );
    let PutOutcome::Stored { version: newer } = put_if(Condition::IfVersion(version.into()), 1) else {
        panic!()
    };
    assert_ne!(version, newer);
    assert!(matches!(
        put_if(Condition::IfPresent, 1),
        PutOutcome::Stored { .. }
    ));
    assert_eq!(
        put_if(Condition::IfPresent, 10),
        PutOutcome::Absent,
        "expired counts as absent"
    );
    assert!(matches!(
        put_if(Condition::IfAbsent, 10),
        PutOutcome::Stored { .. }
    ));
}

#[test]
fn a_version_never_returns_with_a_reinserted_key() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let hash = hash_at(0, 1, 1);
    let first = put(&mut p, hash, b"key", b"v");
    assert!(p.delete(&NativeCpu::new(1), Key { hash, bytes: b"key" }, 1));
    assert_ne!(put(&mut p, hash, b"key", b"v"), first);
}

#[test]
fn what_is_read_stays_unless_the_cache_is_a_fifo() {
    let keys = if cfg!(miri) { 150 } else { 100_000 };
    let lived = |mode| {
        let mut p = partition(mode, 1 << 12, 64);
        put(&mut p, hash_at(0, 1, 0), b"hot", b"hot value");
        for k in 1..keys {
            put(
                &mut p,
                hash_at(k, 2, k),
                &k.to_le_bytes(),
                &vec![1; (k % 50) as usize],
            );
            if get(&mut p, hash_at(0, 1, 0), b"hot") != Some(b"hot value".to_vec()) {
                return k;
            }
        }
        keys
    };
    assert!(lived(FIFO) < 100, "FIFO forgets it");
    assert_eq!(lived(S3_FIFO), keys);
}

#[test]
fn scan_shows_every_item_once_and_clear_forgets_all() {
    let mut p = partition(FIFO, 1 << 16, 16);
    let keys: Vec<u64> = (0..60).collect();
    for &k in &keys {
        put(&mut p, hash_at(k, k as u16 + 1, k), &k.to_le_bytes(), b"v");
    }
    let scan = |p: &Partition| {
        let mut seen = Vec::new();
        p.scan(ALL, 1, |item| {
            seen.push(u64::from_le_bytes(item.to_key().try_into().expect("8 bytes")))
        });
        seen.sort_unstable();
        seen
    };
    assert_eq!(scan(&p), keys);
    p.clear();
    assert_eq!(scan(&p), []);
    assert_eq!(
        (
            p.stats().items,
            get(&mut p, hash_at(1, 2, 1), &1u64.to_le_bytes())
        ),
        (0, None)
    );
}

#[test]
fn items_are_read_in_parts_and_into_registered_memory() {
    let mut p = partition(FIFO, 1 << 14, 1);
    let value: Vec<u8> = (0..=255).collect();
    let hash = hash_at(0, 1, 1);
    put(&mut p, hash, b"key", &value);
    let cpu = NativeCpu::new(1);
    let item = p.get(&cpu, Key { hash, bytes: b"key" }, 1).expect("hit");
    let mut part = [0; 100];
    item.copy_value_part(33, &mut part);
    assert_eq!(part[..], value[33..133]);
    let to = drover_mem::Region::private(4096, drover_mem::PageWish::Small).expect("memory");
    item.value().copy_to(&to, 13);
    let mut out = vec![0; 256];
    to.copy_out(13, &mut out);
    assert_eq!(
        (out, item.hash_key(), item.to_key()),
        (value, None, b"key".to_vec())
    );
}
