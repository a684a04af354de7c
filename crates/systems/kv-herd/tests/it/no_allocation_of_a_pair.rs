//! No allocation per operation on either side: server and client on shared memory, in one thread, under an allocator that
//! counts. Control messages and set-up may allocate; GETs and PUTs of small items may not, on either side.

use crate::no_allocation::ALLOC;
use crate::shm::pair::Pair;
use drover_base::Cpu;
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::ClientOptions;
use drover_store::PartitionOptions;
use drover_verbs::Context;

const KEYS: u64 = 1000;
const WINDOW: usize = 16;

fn pair() -> Pair {
    let partition = PartitionOptions {
        log_bytes: 1 << 21,
        bucket_count: 1 << 11,
        ..PartitionOptions::default()
    };
    let wishes = ClientOptions {
        window: WINDOW,
        slot_bytes: 128,
        ..ClientOptions::default()
    };
    Pair::new(partition, wishes)
}

/// `count` operations, every twentieth a PUT; returns how many GETs hit.
fn run(pair: &mut Pair, count: u64, mut each: impl FnMut()) -> u64 {
    let (mut submitted, mut done, mut hits) = (0u64, 0u64, 0u64);
    let value = [7; 32];
    while done < count {
        pair.ctx.cpu().refresh();
        while submitted < count {
            let mut key = *b"key-000000000000";
            key[8..].copy_from_slice(&(submitted % KEYS).to_le_bytes());
            let op = if submitted.is_multiple_of(20) || submitted < KEYS {
                Op::put(&key, &value)
            } else {
                Op::Get { key: &key }
            };
            if pair.client.submit(pair.ctx.cpu(), &op, submitted).is_err() {
                break;
            }
            submitted += 1;
            each();
        }
        pair.client.poll(pair.ctx.cpu(), &mut |completion| {
            done += 1;
            hits += u64::from(matches!(completion.outcome, Outcome::Value(_)));
        });
        pair.step_worker();
    }
    hits
}

/// Allocations of `count` operations after `count` to warm up, with `each` called per operation.
fn allocations(count: u64, each: impl FnMut()) -> u64 {
    let mut pair = pair();
    assert!(run(&mut pair, count, || {}) > 0, "GETs hit");
    let before = ALLOC.count();
    run(&mut pair, count, each);
    ALLOC.count() - before
}

/// In one thread: the counter is a thread's.
#[test]
fn gets_and_puts_do_not_allocate() {
    let few = allocations(50_000, || {});
    // The control channel is looked at every millisecond or so and may allocate: a handful, not per operation.
    assert!(few < 100, "{few} allocations in 50,000 operations");
    // The canary: an allocation in one operation of a hundred is noticed.
    let mut n = 0u64;
    let planted = allocations(50_000, || {
        n += 1;
        if n.is_multiple_of(100) {
            drop(std::hint::black_box(Box::new(n)));
        }
    });
    assert!(
        planted >= 500,
        "the planted allocations were not counted: {planted}"
    );
    println!("{few} allocations in 50,000 operations, {planted} with one planted per hundred");
}
