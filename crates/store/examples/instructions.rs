//! Runs operations on a loaded partition so that a tool can count their instructions:
//! `valgrind --tool=cachegrind --cache-sim=no instructions OP COUNT [MODE]`.
//!
//! OP is `none` (loading and choosing keys only), `prefetch` (both stages), `get`, `put` (update in place of
//! the same size), `insert` (a key that is mostly not there), `miss` or `delete` (with a put beside it). MODE is
//! `cache` (default) or `store`. Two runs with different counts, subtracted, give the cost of an operation
//! without set-up; `none` subtracted as well leaves out the loop. Keys are 16 bytes, values 32.

use drover_base::{HashSeed, KeyHash};
use drover_mem::{NativeCpu, PageWish};
use drover_store::{Key, Mode, Partition, PartitionOptions};
use std::hint::black_box;

const KEYS: usize = 4096;

fn main() {
    let mut args = std::env::args().skip(1);
    let op = args.next().expect("an operation");
    let count: usize = args.next().and_then(|n| n.parse().ok()).expect("a count");
    let mode = match args.next().as_deref() {
        Some("store") => Mode::Store,
        _ => Mode::Cache { move_to_head: 1.0 },
    };
    let cpu = NativeCpu::new(1);
    let seed = HashSeed::new(1, 2);
    let keys: Vec<([u8; 16], KeyHash)> = (0..4 * KEYS)
        .map(|i| {
            let mut key = *b"key-000000000000";
            key[8..].copy_from_slice(&(i as u64).to_le_bytes());
            (key, seed.hash(&key))
        })
        .collect();
    let mut partition = Partition::new(&PartitionOptions {
        mode,
        log_bytes: 1 << 20,
        bucket_count: 1 << 12,
        pages: PageWish::Small,
        ..Default::default()
    })
    .expect("memory");
    for (bytes, hash) in &keys[..KEYS] {
        partition.put(&cpu, Key { hash: *hash, bytes }, &[7; 32], 0, 1);
    }
    let run = match op.as_str() {
        "none" => |_: &mut Partition, _: &NativeCpu, present: Key<'_>, _: Key<'_>| {
            black_box(present);
        },
        "prefetch" => {
            |p: &mut Partition, cpu: &NativeCpu, present: Key<'_>, _: Key<'_>| prefetch(p, cpu, present)
        }
        "get" => |p: &mut Partition, cpu: &NativeCpu, present: Key<'_>, _: Key<'_>| get(p, cpu, present),
        "miss" => |p: &mut Partition, cpu: &NativeCpu, _: Key<'_>, absent: Key<'_>| get(p, cpu, absent),
        "put" => |p: &mut Partition, cpu: &NativeCpu, present: Key<'_>, _: Key<'_>| put(p, cpu, present),
        "insert" => |p: &mut Partition, cpu: &NativeCpu, _: Key<'_>, absent: Key<'_>| put(p, cpu, absent),
        "delete" => {
            |p: &mut Partition, cpu: &NativeCpu, present: Key<'_>, _: Key<'_>| delete(p, cpu, present)
        }
        other => panic!("no operation {other}"),
    };
    for i in 0..count {
        let key = |i: usize| {
            let (bytes, hash) = &keys[i & (4 * KEYS - 1)];
            Key {
                hash: *hash,
                bytes: black_box(&bytes[..]),
            }
        };
        run(&mut partition, &cpu, key(i & (KEYS - 1)), key(KEYS + i));
    }
}

fn prefetch(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>) {
    partition.prefetch_bucket(cpu, key.hash, false);
    black_box(partition.prefetch_item(cpu, key.hash));
}

fn get(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>) {
    let mut out = [0; 32];
    if let Some(item) = partition.get(cpu, key, 1) {
        item.copy_value(&mut out);
    }
    black_box(&out);
}

fn put(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>) {
    let value = [3; 32];
    black_box(partition.put(cpu, key, black_box(&value[..]), 0, 1));
}

fn delete(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>) {
    put(partition, cpu, key);
    black_box(partition.delete(cpu, key, 1));
}
