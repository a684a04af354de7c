//! Store mode: nothing is evicted; a full heap or index is reported, and existing items stay.

use crate::common::{hash_at, partition};
use drover_base::KeyHash;
use drover_mem::NativeCpu;
use drover_store::{Key, Mode, Partition, PartitionOptions, PutOutcome};

fn put(p: &mut Partition, hash: KeyHash, key: &[u8], value: &[u8]) -> PutOutcome {
    p.put(&NativeCpu::new(1), Key { hash, bytes: key }, value, 0, 1)
}

fn get(p: &mut Partition, hash: KeyHash, key: &[u8]) -> Option<Vec<u8>> {
    p.get(&NativeCpu::new(1), Key { hash, bytes: key }, 1)
        .map(|item| item.to_value())
}

fn delete(p: &mut Partition, hash: KeyHash, key: &[u8]) -> bool {
    p.delete(&NativeCpu::new(1), Key { hash, bytes: key }, 1)
}

fn is_stored(outcome: PutOutcome) -> bool {
    matches!(outcome, PutOutcome::Stored { .. })
}

#[test]
fn a_bucket_chains_until_the_spare_buckets_are_gone() {
    let mut p = partition(Mode::Store, 1 << 16, 16); // 16 main buckets, 2 spare ones.
    let hash = |k: u64| hash_at(5, (k % 3) as u16, k);
    for k in 0..21 {
        assert!(is_stored(put(&mut p, hash(k), &k.to_le_bytes(), &[k as u8; 9])));
    }
    assert_eq!(
        put(&mut p, hash(21), &21u64.to_le_bytes(), b"v"),
        PutOutcome::Full
    );
    let bytes = p.stats().bytes;
    assert_eq!(
        put(&mut p, hash(21), &21u64.to_le_bytes(), b"v"),
        PutOutcome::Full
    );
    assert_eq!(p.stats().bytes, bytes, "a refused PUT keeps no memory");
    assert_eq!((p.stats().full, p.stats().items), (2, 21));
    for k in 0..21 {
        assert_eq!(
            get(&mut p, hash(k), &k.to_le_bytes()),
            Some(vec![k as u8; 9]),
            "{k}"
        );
    }
    // Holes are filled from the end of the chain; all other items stay reachable.
    for k in [0, 20, 7, 13, 1] {
        assert!(delete(&mut p, hash(k), &k.to_le_bytes()));
        assert_eq!(get(&mut p, hash(k), &k.to_le_bytes()), None);
    }
    for k in (0..21).filter(|k| ![0, 20, 7, 13, 1].contains(k)) {
        assert_eq!(
            get(&mut p, hash(k), &k.to_le_bytes()),
            Some(vec![k as u8; 9]),
            "{k}"
        );
    }
    assert!(is_stored(put(&mut p, hash(21), &21u64.to_le_bytes(), b"v")));
}

#[test]
fn a_full_heap_refuses_and_keeps_the_old_value() {
    let mut p = partition(Mode::Store, 1 << 12, 64);
    let hash = |k: u64| hash_at(k, 1, k);
    let mut stored = 0;
    while is_stored(put(&mut p, hash(stored), b"key", &[1; 40])) {
        stored += 1;
    }
    assert_eq!(stored, 4096 / (16 + 8 + 40 + 16));
    assert_eq!(
        put(&mut p, hash(0), b"key", &[2; 400]),
        PutOutcome::Full,
        "it would have to grow"
    );
    assert_eq!(get(&mut p, hash(0), b"key"), Some(vec![1; 40]));
    assert!(
        is_stored(put(&mut p, hash(0), b"key", &[3; 40])),
        "the same size needs no space"
    );
    assert!(
        is_stored(put(&mut p, hash(1), b"key", &[4; 1])),
        "nor does a shorter one"
    );
    assert_eq!(get(&mut p, hash(0), b"key"), Some(vec![3; 40]));
    assert_eq!(get(&mut p, hash(1), b"key"), Some(vec![4; 1]));
    // Six neighbours freed are one chunk.
    (2..8).for_each(|k| assert!(delete(&mut p, hash(k), b"key")));
    assert!(is_stored(put(&mut p, hash(0), b"key", &[5; 400])));
    assert_eq!(get(&mut p, hash(0), b"key"), Some(vec![5; 400]));
    assert_eq!(get(&mut p, hash(8), b"key"), Some(vec![1; 40]));
}

#[test]
fn a_shrinking_update_gives_memory_back() {
    let mut p = partition(Mode::Store, 1 << 16, 16);
    let hash = hash_at(1, 1, 1);
    put(&mut p, hash, b"key", &[1; 30_000]);
    let large = p.stats().bytes;
    put(&mut p, hash, b"key", &[1; 10]);
    assert!(p.stats().bytes < 100 && large > 30_000);
    assert!(delete(&mut p, hash, b"key"));
    assert_eq!((p.stats().bytes, p.stats().items), (0, 0));
}

#[test]
fn an_expired_item_gives_its_memory_back_when_met() {
    let mut p = partition(Mode::Store, 1 << 16, 16);
    let cpu = NativeCpu::new(1);
    let key = Key {
        hash: hash_at(1, 1, 1),
        bytes: b"key",
    };
    p.put(&cpu, key, b"value", 10, 1);
    assert!(p.get(&cpu, key, 9).is_some());
    assert!(p.get(&cpu, key, 10).is_none());
    assert_eq!((p.stats().bytes, p.stats().items, p.stats().expired), (0, 0, 1));
}

#[test]
fn two_keys_of_the_same_hash_live_side_by_side() {
    let mut p = partition(Mode::Store, 1 << 16, 16);
    let hash = hash_at(0, 1, 1);
    put(&mut p, hash, b"first", b"1");
    put(&mut p, hash, b"other", b"2");
    put(&mut p, hash, b"", b"3");
    assert_eq!(
        (get(&mut p, hash, b"first"), get(&mut p, hash, b"other")),
        (Some(b"1".to_vec()), Some(b"2".to_vec()))
    );
    assert_eq!(p.stats().items, 3);
    assert!(delete(&mut p, hash, b"other"));
    assert_eq!(get(&mut p, hash, b"other"), None);
    assert_eq!(get(&mut p, hash, b""), Some(b"3".to_vec()));
}

#[test]
fn an_item_as_large_as_the_heap_is_too_large() {
    let mut p = partition(Mode::Store, 1 << 12, 16);
    let hash = hash_at(0, 1, 1);
    assert!(is_stored(put(&mut p, hash, b"", &[7; 4096 - 16 - 32])));
    assert_eq!(get(&mut p, hash, b""), Some(vec![7; 4096 - 48]));
    assert_eq!(put(&mut p, hash, b"", &[7; 4096 - 47]), PutOutcome::TooLarge);
}

/// Whatever the length of the items, at most a tenth of the memory is neither items nor index entries in use; and after
/// all were deleted, or cleared, the same fit again.
#[test]
fn items_of_every_length_use_the_memory() {
    for value_len in [0, 8, 32, 100, 1000] {
        let total = 4 << 20;
        let mut p = Partition::new(&PartitionOptions::for_memory(Mode::Store, total)).expect("memory");
        let value = vec![7; value_len];
        let fill = |p: &mut Partition| {
            let fits = |number: &u64| is_stored(put(p, hash_of(*number), &number.to_le_bytes(), &value));
            (0..).take_while(fits).count() as u64
        };
        let count = fill(&mut p);
        let stats = p.stats();
        assert_eq!((stats.items, stats.evicted()), (count, 0));
        let used = stats.bytes + count * 64 / 7;
        println!("{value_len}: {count} items, {used} bytes of {total}");
        assert!(used >= total as u64 * 9 / 10, "{value_len}: {used}");
        assert!((0..count).all(|number| get(&mut p, hash_of(number), &number.to_le_bytes()).is_some()));
        for number in 0..count {
            assert!(delete(&mut p, hash_of(number), &number.to_le_bytes()));
        }
        assert_eq!((p.stats().items, p.stats().bytes), (0, 0));
        assert_eq!(fill(&mut p), count);
        p.clear();
        assert_eq!(fill(&mut p), count);
    }
}

fn hash_of(number: u64) -> KeyHash {
    KeyHash {
        low: drover_base::mix(number),
        high: drover_base::mix(!number),
    }
}
