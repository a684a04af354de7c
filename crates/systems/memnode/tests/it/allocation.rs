//! Goal: memory is given to one at a time, up to the reserve and the quota, and comes back.

use crate::bed::{Bed, Fabric, loopback, small};
use drover_base::Ns;
use drover_memnode::chunks::CHUNK_BYTES;
use drover_memnode::node::NodeOptions;
use drover_memnode::{Fill, MemoryError, Need};
use drover_testkit::on_pool_fabrics;
use std::cell::RefCell;
use std::rc::Rc;

on_pool_fabrics! {
    processes_never_share_a_block
    freed_blocks_are_used_again
    when_full_the_reserve_is_left
}

fn processes_never_share_a_block<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 2);
    let processes = [bed.process(), bed.process(), bed.process()];
    let threads: Vec<_> = processes.iter().map(|process| bed.thread(process)).collect();
    let all = Rc::new(RefCell::new(Vec::new()));
    let mut outs = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        for task in 0..4 {
            let all = all.clone();
            outs.push(thread.spawn(move |cx, _, arena| async move {
                for round in 0..40usize {
                    let bytes = [8, 64, 200, 3000, 16 << 10, 40_000][(round + task + index) % 6];
                    let addr = arena.alloc(&cx, round % 2, bytes, Need::Ordinary).await;
                    all.borrow_mut().push((addr.expect("memory"), bytes as u64));
                }
            }));
        }
    }
    let mut left = outs.len();
    bed.until("all tasks end", || {
        left -= outs.iter().filter(|out| out.take().is_some()).count();
        left == 0
    });
    // The owners of the last chunks are still on their way.
    bed.pass(Ns::from_us(100));
    let mut all = all.take();
    all.sort_unstable();
    assert_eq!(all.len(), 3 * 4 * 40);
    for pair in all.windows(2) {
        let ((addr, bytes), (next, _)) = (pair[0], pair[1]);
        assert!(
            addr.node() != next.node() || addr.offset() + bytes <= next.offset(),
            "{bytes} bytes at {addr}, then {next}"
        );
        assert!(
            addr.offset()
                .is_multiple_of(bytes.next_power_of_two().min(CHUNK_BYTES as u64))
        );
    }
    // Each chunk says whose it is.
    for (index, node) in bed.nodes.iter().enumerate() {
        let owned: u32 = processes
            .iter()
            .map(|process| process.pool.node(index).chunks_owned())
            .sum();
        node.with(|served| {
            let state = served.node.host();
            let (header, region) = (state.header(), state.region());
            let data = header.geometry.first_data_chunk()..header.supply.bump as u32;
            assert_eq!(data.len(), owned as usize);
            for chunk in data {
                let word = region.load_u64(
                    header.geometry.chunk_entry(chunk),
                    std::sync::atomic::Ordering::Relaxed,
                );
                let entry = drover_memnode::chunks::ChunkEntry::decode(word).expect("an entry");
                assert!((1..=3).contains(&entry.owner.id), "chunk {chunk}: {entry:?}");
            }
        });
    }
}

fn freed_blocks_are_used_again<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 1);
    let process = bed.process();
    let thread = bed.thread(&process);
    // 40 times as much as the node has.
    let used = bed.run(&thread, |cx, nodes, arena| async move {
        let mut count = 0;
        while count < 40 * 256 {
            let pin = nodes.pin(0);
            match arena.alloc(&cx, 0, 16 << 10, Need::Ordinary).await {
                Ok(addr) => {
                    arena.free(&pin, addr, 16 << 10);
                    count += 1;
                }
                // What was freed waits for its epoch, which does not come while the pin is held.
                Err(_) => {
                    drop(pin);
                    cx.sleep(Ns::from_ms(1)).await;
                }
            }
        }
        nodes.node(0).chunks_owned()
    });
    assert!(used <= 247, "{used} chunks");
}

fn when_full_the_reserve_is_left<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 1);
    let process = bed.process();
    let other = bed.process();
    let (thread, other) = (bed.thread(&process), bed.thread(&other));
    let (blocks, error) = bed.run(&thread, |cx, _, arena| async move {
        let mut blocks = Vec::new();
        loop {
            match arena.alloc(&cx, 0, 16 << 10, Need::Ordinary).await {
                Ok(addr) => blocks.push(addr),
                Err(error) => return (blocks, error),
            }
        }
    });
    assert_eq!(error, MemoryError::Full { node: 0 });
    // 256 chunks, 3 of them header and tables, 6 the reserve.
    assert_eq!(blocks.len(), 247);
    let essential = bed.run(&other, |cx, _, arena| async move {
        assert_eq!(
            arena.alloc(&cx, 0, 64, Need::Ordinary).await,
            Err(MemoryError::Full { node: 0 })
        );
        let mut count = 0;
        while arena.alloc(&cx, 0, 16 << 10, Need::Essential).await.is_ok() {
            count += 1;
        }
        (count, arena.stats(0).fill)
    });
    assert_eq!(essential, (6, Fill::Critical));
    // What one gives back, the other gets.
    bed.run(&thread, |cx, _, arena| async move {
        blocks[..100]
            .iter()
            .for_each(|&addr| arena.put_back(addr, 16 << 10));
        while arena.has_surplus(0) {
            arena.give_back(&cx, 0).await.expect("given back");
        }
    });
    let got = bed.run(&other, |cx, _, arena| async move {
        let mut count = 0;
        while arena.alloc(&cx, 0, 100, Need::Ordinary).await.is_ok() {
            count += 1;
        }
        count
    });
    assert!(got >= 50 * 128, "{got} blocks");
    let supply = bed.nodes[0].with(|served| served.node.stats().supply);
    assert!(supply.free() <= supply.reserve() && supply.bump >= 256);
}

#[test]
fn a_quota_is_kept() {
    let options = NodeOptions {
        quota_chunks: 5,
        ..small()
    };
    let bed = Bed::with(loopback(), 1, &options);
    let process = bed.process();
    let threads = [bed.thread(&process), bed.thread(&process)];
    let mut got = Vec::new();
    for thread in &threads {
        got.push(bed.run(thread, |cx, _, arena| async move {
            let mut count = 0;
            loop {
                match arena.alloc(&cx, 0, 16 << 10, Need::Ordinary).await {
                    Ok(_) => count += 1,
                    Err(error) => return (count, error),
                }
                if count == 3 {
                    return (count, MemoryError::Full { node: 9 });
                }
            }
        }));
    }
    assert_eq!(got[0].0, 3);
    assert_eq!(got[1], (2, MemoryError::Quota { node: 0 }));
    assert_eq!(process.pool.node(0).chunks_owned(), 5);
}
