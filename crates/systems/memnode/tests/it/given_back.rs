//! Goal: a client gives a dead one's chunks back while another one begins to sweep them: no chunk is given twice, and none is lost.

use crate::bed::{Bed, Simulated, Thread, simulated};
use crate::recovery::{LONG, LONG_BYTES, Roots, root, set_root, wait_until_dead};
use drover_base::Ns;
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_memnode::{Addr, Need};
use drover_testkit::seeds::Seeds;
use drover_verbs_sim::Sim;
use std::collections::BTreeSet;

/// Bytes of a block that has a chunk to itself.
const CHUNK: usize = 16 << 10;

/// Links a long piece of memory, and dies.
fn die_with_a_long_piece(bed: &Bed<Simulated>, survivor: &Thread<Sim>) {
    let dying = bed.process();
    let thread = bed.thread(&dying);
    bed.run(&thread, |cx, nodes, arena| async move {
        let _pin = nodes.pin(0);
        let long = arena.alloc(&cx, 0, LONG_BYTES, Need::Ordinary).await;
        let long = long.expect("memory");
        set_root(&cx, &nodes, LONG, 0, long.bits()).await.expect("empty");
    });
    let lock = thread.nodes.pool().new_lock();
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    wait_until_dead(bed, survivor, lock);
}

/// Unlinks that piece and frees it.
fn unlink(bed: &Bed<Simulated>, thread: &Thread<Sim>) {
    bed.run(thread, |cx, nodes, arena| async move {
        let pin = nodes.pin(0);
        let word = root(&cx, &nodes, LONG).await.expect("a READ");
        set_root(&cx, &nodes, LONG, word, 0).await.expect("as read");
        arena.free(&pin, Addr::from_bits(word), LONG_BYTES);
    });
}

/// All blocks of a chunk's length that `thread` gets before the node is full.
fn fill(bed: &Bed<Simulated>, thread: &Thread<Sim>) -> Vec<Addr> {
    bed.run(thread, |cx, nodes, arena| async move {
        let mut got = Vec::new();
        loop {
            let _pin = nodes.pin(0);
            match arena.alloc(&cx, 0, CHUNK, Need::Ordinary).await {
                Ok(addr) => got.push(addr),
                Err(drover_memnode::MemoryError::Full { .. }) => return got,
                Err(error) => panic!("{error}"),
            }
        }
    })
}

/// Returns the number of chunks that can be had in the end, if the chunks are given back `later` than the recovery begins.
fn give_back_and_sweep(seed: u64, later: Ns) -> usize {
    let bed = Bed::new(simulated(seed, |_| {}), 1);
    let (first, second) = (bed.process(), bed.process());
    let (sweeps, returns) = (bed.thread(&first), bed.thread(&second));
    die_with_a_long_piece(&bed, &sweeps);
    unlink(&bed, &returns);
    // Until no operation is left that may look at it.
    bed.pass(Ns::from_ms(200));
    drop(returns.spawn(move |cx, _, arena| async move {
        cx.sleep(later).await;
        arena.give_back(&cx, 0).await.expect("its chunks");
        arena.maintain(&cx, Ns::from_ms(1)).await;
    }));
    let done = bed.run(&sweeps, |cx, _, arena| async move {
        recover(&cx, &arena, 0, &Roots, RecoveryOptions::default()).await
    });
    assert!(matches!(done, Ok(Recovery::Done(_))), "{done:?}");
    let mut got = fill(&bed, &sweeps);
    got.extend(fill(&bed, &returns));
    let different: BTreeSet<Addr> = got.iter().copied().collect();
    assert_eq!(
        different.len(),
        got.len(),
        "a chunk was given twice, {later} later"
    );
    got.len()
}

#[test]
fn chunks_are_given_back_while_a_sweep_begins() {
    let seeds = Seeds::new(0, 1);
    println!("{seeds}");
    seeds.each(|seed| {
        let before = give_back_and_sweep(seed, Ns::from_ms(1));
        for later in (0..60).map(|step| Ns(step * 500)) {
            assert_eq!(give_back_and_sweep(seed, later), before, "{later} later");
        }
    });
}
