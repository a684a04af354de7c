//! LRU mode: a full bucket evicts its item that was used longest ago, exactly; a full heap makes space for whatever is not
//! too large, at a bounded price.

use crate::common::{hash_at, options, partition};
use drover_base::{KeyHash, Rng};
use drover_mem::NativeCpu;
use drover_store::{Key, Mark, Mode, NewCas, Partition, PutOutcome};
use proptest::prelude::*;
use std::collections::BTreeMap;

const BUCKETS: u64 = 4;
const KEYS: u64 = 60;

#[derive(Clone, Copy, Debug)]
enum Op {
    Put {
        key: u64,
        len: usize,
    },
    Get {
        key: u64,
    },
    /// A command that is no GET, like `touch`.
    Mark {
        key: u64,
    },
    SetExpiry {
        key: u64,
    },
    Delete {
        key: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..KEYS, 0..200usize).prop_map(|(key, len)| Op::Put { key, len }),
        4 => (0..KEYS).prop_map(|key| Op::Get { key }),
        1 => (0..KEYS).prop_map(|key| Op::Mark { key }),
        1 => (0..KEYS).prop_map(|key| Op::SetExpiry { key }),
        1 => (0..KEYS).prop_map(|key| Op::Delete { key }),
    ]
}

fn hash(key: u64) -> KeyHash {
    // Some keys of a bucket share a tag.
    hash_at(key % BUCKETS, (key / BUCKETS % 5) as u16 + 1, key)
}

fn put(p: &mut Partition, key: u64, value: &[u8]) -> PutOutcome {
    let bytes = key.to_le_bytes();
    let key = Key {
        hash: hash(key),
        bytes: &bytes,
    };
    p.put(&NativeCpu::new(1), key, value, 0, 1)
}

fn get(p: &mut Partition, key: u64) -> Option<Vec<u8>> {
    let bytes = key.to_le_bytes();
    let key = Key {
        hash: hash(key),
        bytes: &bytes,
    };
    p.get(&NativeCpu::new(1), key, 1).map(|item| item.to_value())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]

    /// Each bucket is a list of at most eight items, the one used last at the front.
    #[test]
    fn buckets_are_strictly_lru(ops in prop::collection::vec(op(), 1..if cfg!(miri) { 60 } else { 600 })) {
        let cpu = NativeCpu::new(1);
        let mut p = partition(Mode::Lru, 1 << 16, BUCKETS as usize);
        let mut lists: BTreeMap<u64, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
        let mut evicted = 0;
        for (i, op) in ops.into_iter().enumerate() {
            let (Op::Put { key, .. } | Op::Get { key } | Op::Mark { key } | Op::SetExpiry { key } | Op::Delete { key }) = op;
            let list = lists.entry(key % BUCKETS).or_default();
            let old = list.iter().position(|(k, _)| *k == key).map(|at| list.remove(at));
            let bytes = key.to_le_bytes();
            let whole = Key { hash: hash(key), bytes: &bytes };
            match op {
                Op::Put { len, .. } => {
                    let value = vec![i as u8; len];
                    let outcome = put(&mut p, key, &value);
                    let is_stored = matches!(outcome, PutOutcome::Stored { .. });
                    prop_assert!(is_stored);
                    list.insert(0, (key, value));
                    if list.len() > 8 {
                        evicted += 1;
                        list.pop();
                    }
                    continue;
                }
                Op::Get { .. } => prop_assert_eq!(get(&mut p, key), old.as_ref().map(|(_, value)| value.clone())),
                Op::Mark { .. } => {
                    let mark = Mark { cas: NewCas::Next, ..Mark::default() };
                    let seen = p.mark(&cpu, whole, 1, |_| mark).map(|item| item.to_value());
                    prop_assert_eq!(seen, old.as_ref().map(|(_, value)| value.clone()));
                }
                Op::SetExpiry { .. } => prop_assert_eq!(p.set_expiry(&cpu, whole, 1000, 1), old.is_some()),
                Op::Delete { .. } => {
                    prop_assert_eq!(p.delete(&cpu, whole, 1), old.is_some());
                    continue;
                }
            }
            list.splice(0..0, old);
        }
        let stats = p.stats();
        prop_assert_eq!(stats.items as usize, lists.values().map(Vec::len).sum::<usize>());
        prop_assert_eq!((stats.evicted_bucket_full, stats.evicted_log_wrapped), (evicted, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 16 }))]

    /// Values of any length into a small heap: every one is stored, is there afterwards, and no item is a mixture.
    #[test]
    fn a_full_heap_refuses_nothing(seed in any::<u64>()) {
        let mut rng = Rng::new(seed, 0, 0);
        let log_bytes = 1 << 14;
        let mut p = partition(Mode::Lru, log_bytes, 16);
        let longest = log_bytes - 16 - 24;
        for round in 0..if cfg!(miri) { 100 } else { 2000 } {
            let key = rng.below(100);
            let len = match rng.below(50) {
                0 => rng.below(longest as u64 + 1) as usize,
                1..=9 => rng.below(2000) as usize,
                _ => rng.below(200) as usize,
            };
            let value = vec![round as u8; len];
            let outcome = put(&mut p, key, &value);
            let is_stored = matches!(outcome, PutOutcome::Stored { .. });
            prop_assert!(is_stored, "{:?}", outcome);
            prop_assert_eq!(get(&mut p, key), Some(value));
            if let Some(value) = get(&mut p, rng.below(100)) {
                prop_assert!(value.windows(2).all(|pair| pair[0] == pair[1]));
            }
        }
        prop_assert!(cfg!(miri) || p.stats().evicted_log_wrapped > 0);
        prop_assert_eq!(p.stats().full, 0);
        for key in 0..100u64 {
            let bytes = key.to_le_bytes();
            let key = Key { hash: hash(key), bytes: &bytes };
            p.delete(&NativeCpu::new(1), key, 1);
        }
        prop_assert_eq!((p.stats().items, p.stats().bytes), (0, 0));
    }
}

/// A large item evicts about as many bytes as it takes, not the whole cache.
#[test]
#[cfg_attr(miri, ignore = "too slow: thousands of items")]
fn a_large_item_evicts_its_neighbours() {
    let mut p = partition(Mode::Lru, 1 << 20, 4096);
    let spread = |k: u64| hash_at(k, k as u16 | 1, k);
    let cpu = NativeCpu::new(1);
    let mut stored = 0u64;
    while p.stats().evicted() < 100 {
        let bytes = stored.to_le_bytes();
        let key = Key {
            hash: spread(stored),
            bytes: &bytes,
        };
        p.put(&cpu, key, &[1; 100], 0, 1);
        stored += 1;
    }
    let before = p.stats();
    let each = before.bytes / before.items;
    let key = Key {
        hash: spread(1 << 40),
        bytes: b"large",
    };
    let outcome = p.put(&cpu, key, &[2; 100_000], 0, 1);
    assert!(matches!(outcome, PutOutcome::Stored { .. }));
    let gone = p.stats().evicted() - before.evicted();
    assert!(
        gone >= 100_000 / each && gone <= 100_000 / each + 16,
        "{gone} of {each} bytes"
    );
    assert_eq!(
        p.get(&cpu, key, 1).map(|item| item.to_value()),
        Some(vec![2; 100_000])
    );
}

/// A value that outgrows its place in a full heap replaces its own older one, even if both do not fit.
#[test]
fn an_item_grows_to_the_whole_heap() {
    let mut p = partition(Mode::Lru, 1 << 12, 16);
    (0..40).for_each(|key| assert!(matches!(put(&mut p, key, &[1; 60]), PutOutcome::Stored { .. })));
    let longest = 4096 - 16 - 24;
    for len in [1000, 2500, longest] {
        assert!(matches!(
            put(&mut p, 39, &vec![2; len]),
            PutOutcome::Stored { .. }
        ));
        assert_eq!(get(&mut p, 39), Some(vec![2; len]));
    }
    assert_eq!(p.stats().items, 1);
    assert_eq!(put(&mut p, 39, &vec![3; longest + 1]), PutOutcome::TooLarge);
    assert_eq!(get(&mut p, 39), Some(vec![2; longest]), "the old value is kept");
}

/// Expired items that are in the way are no evictions.
#[test]
fn expired_items_are_reclaimed() {
    let mut p = partition(Mode::Lru, 1 << 12, 1);
    let cpu = NativeCpu::new(1);
    for k in 0..16u64 {
        let bytes = k.to_le_bytes();
        let key = Key {
            hash: hash_at(0, 1, k),
            bytes: &bytes,
        };
        p.put(&cpu, key, b"value", 10, if k < 8 { 1 } else { 20 });
    }
    let stats = p.stats();
    assert_eq!((stats.reclaimed, stats.evicted(), stats.items), (8, 0, 8));
    assert_eq!((stats.expired_unread, stats.evicted_unread), (8, 0));
}

#[test]
fn for_memory_divides_it() {
    let options = drover_store::PartitionOptions::for_memory(Mode::Lru, 1 << 20);
    assert!(options.bytes() <= 1 << 20 && options.bytes() > (1 << 20) - 128);
    let mut p = Partition::new(&options).expect("memory");
    assert!(matches!(put(&mut p, 1, b"value"), PutOutcome::Stored { .. }));
    let shared = Partition::<drover_store::SharedReads>::create(&self::options(Mode::Lru, 1 << 12, 4));
    assert!(shared.expect("memory").reader().is_none());
}
