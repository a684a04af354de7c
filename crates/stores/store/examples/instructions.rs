//! Runs operations on a loaded partition so that a tool can count their instructions:
//! `valgrind --tool=callgrind --toggle-collect=instructions::Keys::each instructions OP COUNT [MODE]`.
//!
//! OP is `none` (only choosing keys), `prefetch` (both stages), `get`, `put` (update in place of the same size),
//! `prefetch-get` and `prefetch-put` (a whole operation with the hint), `insert` (a new key), `miss` or `delete` (with
//! a put). MODE is `cache` (S3-FIFO, default), `fifo` or `store`. Two runs with different counts, subtracted, give the
//! cost of an operation without set-up; subtracting `none` as well removes the loop. Keys are 16 bytes, values 32. COUNT
//! is at most 61440.

use drover_base::{HashSeed, KeyHash};
use drover_mem::{NativeCpu, PageWish};
use drover_store::{Hint, Key, Mode, Partition, PartitionOptions};
use std::hint::black_box;

const KEYS: usize = 4096;

fn main() {
    let mut args = std::env::args().skip(1);
    let op = args.next().expect("an operation");
    let count: usize = args.next().and_then(|n| n.parse().ok()).expect("a count");
    let mode = match args.next().as_deref() {
        Some("store") => Mode::Store,
        Some("fifo") => Mode::FIFO,
        _ => Mode::S3_FIFO,
    };
    let cpu = NativeCpu::new(1);
    let seed = HashSeed::new(1, 2);
    let keys: Vec<([u8; 16], KeyHash)> = (0..16 * KEYS)
        .map(|i| {
            let mut key = *b"key-000000000000";
            key[8..].copy_from_slice(&(i as u64).to_le_bytes());
            (key, seed.hash(&key))
        })
        .collect();
    let mut partition = Partition::new(&PartitionOptions {
        mode,
        log_bytes: 1 << 22,
        bucket_count: 1 << 13,
        pages: PageWish::Small,
        hash_seed: Some(seed),
        ..Default::default()
    })
    .expect("memory");
    for (bytes, hash) in &keys[..KEYS] {
        partition.put(&cpu, Key { hash: *hash, bytes }, &[7; 32], 0, 1);
    }
    let keys = Keys { keys: &keys, count };
    let (p, out) = (&mut partition, &mut [0; 64]);
    match op.as_str() {
        "none" => keys.each(|present, absent| _ = black_box((present, absent))),
        "prefetch" => keys.each(|present, _| _ = black_box(prefetch(p, &cpu, present))),
        "get" => keys.each(|present, _| get(p, &cpu, present, Hint::NONE, out)),
        "put" => keys.each(|present, _| put(p, &cpu, present, Hint::NONE)),
        "prefetch-get" => keys.each(|present, _| {
            let hint = prefetch(p, &cpu, present);
            get(p, &cpu, present, hint, out);
        }),
        "prefetch-put" => keys.each(|present, _| {
            let hint = prefetch(p, &cpu, present);
            put(p, &cpu, present, hint);
        }),
        "miss" => keys.each(|_, absent| get(p, &cpu, absent, Hint::NONE, out)),
        "insert" => keys.each(|_, absent| put(p, &cpu, absent, Hint::NONE)),
        "delete" => keys.each(|present, _| {
            put(p, &cpu, present, Hint::NONE);
            black_box(p.delete(&cpu, present, 1));
        }),
        other => panic!("no operation {other}"),
    }
}

/// The keys of a run: the first `KEYS` are loaded, the others are not.
struct Keys<'a> {
    keys: &'a [([u8; 16], KeyHash)],
    count: usize,
}

impl Keys<'_> {
    /// Calls `op` with one existing key and one that does not exist.
    #[inline(never)]
    fn each(&self, mut op: impl FnMut(Key<'_>, Key<'_>)) {
        for i in 0..self.count {
            let key = |i: usize| {
                let (bytes, hash) = black_box(&self.keys[i & (16 * KEYS - 1)]);
                Key {
                    hash: *hash,
                    bytes: &bytes[..black_box(16)],
                }
            };
            op(key(i & (KEYS - 1)), key(KEYS + i));
        }
    }
}

#[inline(always)]
fn prefetch(partition: &Partition, cpu: &NativeCpu, key: Key<'_>) -> Hint {
    partition.prefetch_bucket(cpu, key.hash, false);
    partition.prefetch_item(cpu, key.hash)
}

#[inline(always)]
fn get(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>, hint: Hint, out: &mut [u8; 64]) {
    if let Some(item) = partition.get_hinted(cpu, key, 1, hint) {
        item.copy_value(out);
    }
}

#[inline(always)]
fn put(partition: &mut Partition, cpu: &NativeCpu, key: Key<'_>, hint: Hint) {
    static VALUE: [u8; 32] = [3; 32];
    black_box(partition.put_hinted(cpu, key, black_box(&VALUE[..]), 0, 1, hint));
}
