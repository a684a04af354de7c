//! Goal: a block is not used again while an operation is left that may know it.

use crate::bed::{Bed, Fabric, loopback};
use drover_base::Ns;
use drover_memnode::{Addr, Need};
use drover_testkit::on_pool_fabrics;

on_pool_fabrics! { nothing_is_used_again_under_a_pin }

/// How a writer gives up its block.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Freed,
    /// The mistake: as if nobody else had known it.
    PutBack,
}

/// Whether a block that one process frees while another reads it is used again before the reader has ended, and after.
fn used_again<F: Fabric>(bed: &Bed<F>, way: Way) -> (bool, bool) {
    let (reader, writer) = (bed.process(), bed.process());
    let (reading, writing) = (bed.thread(&reader), bed.thread(&writer));
    let pin = reading.nodes.pin(0);
    let target = bed.run(&writing, move |cx, nodes, arena| async move {
        let pin = nodes.pin(0);
        let addr = arena
            .alloc(&cx, 0, 16 << 10, Need::Ordinary)
            .await
            .expect("memory");
        match way {
            Way::Freed => arena.free(&pin, addr, 16 << 10),
            Way::PutBack => arena.put_back(addr, 16 << 10),
        }
        addr
    });
    let churn = |rounds: usize| {
        bed.run(&writing, move |cx, nodes, arena| async move {
            let mut seen: Vec<Addr> = Vec::new();
            for _ in 0..rounds {
                let pin = nodes.pin(0);
                if let Ok(addr) = arena.alloc(&cx, 0, 16 << 10, Need::Ordinary).await {
                    seen.push(addr);
                    arena.free(&pin, addr, 16 << 10);
                }
                drop(pin);
                cx.sleep(Ns::from_ms(1)).await;
            }
            seen.contains(&target)
        })
    };
    let before = churn(300);
    drop(pin);
    (before, churn(300))
}

fn nothing_is_used_again_under_a_pin<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 1);
    assert_eq!(used_again(&bed, Way::Freed), (false, true));
}

#[test]
fn a_block_that_skips_its_epochs_is_found() {
    let bed = Bed::new(loopback(), 1);
    assert!(used_again(&bed, Way::PutBack).0);
}

#[test]
fn a_fenced_reader_holds_nothing_back() {
    let bed = Bed::new(loopback(), 1);
    let (reader, writer) = (bed.process(), bed.process());
    let (reading, writing) = (bed.thread(&reader), bed.thread(&writer));
    let _pin = reading.nodes.pin(0);
    let target = bed.run(&writing, |cx, nodes, arena| async move {
        let pin = nodes.pin(0);
        let addr = arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
        arena.free(&pin, addr, 64);
        addr
    });
    bed.pass(Ns::from_ms(300));
    assert_eq!(writing.arena.stats(0).limbo, 1);
    // It stops; after a second it is fenced, and does not count any more.
    let lease = reader.lease.0.take();
    let found = bed.run(&writing, move |cx, _, arena| async move {
        for _ in 0..3000 {
            cx.sleep(Ns::from_ms(1)).await;
            let addr = arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
            if addr == target {
                return true;
            }
        }
        false
    });
    assert!(found);
    drop(lease);
}
