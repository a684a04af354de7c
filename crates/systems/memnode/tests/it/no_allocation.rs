//! Goal: in the common case, allocating and freeing in a pool allocates nothing here.

use crate::bed::{Bed, loopback};
use drover_base::Ns;
use drover_mem::CountingAlloc;
use drover_memnode::Need;
use drover_testkit::alone::alone;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn blocks_cost_no_memory_here() {
    alone("no_allocation::blocks_cost_no_memory_here", || {
        let bed = Bed::new(loopback(), 1);
        let thread = bed.thread(&bed.process());
        bed.run(&thread, |cx, nodes, arena| async move {
            // So that lists and limbo have their lengths.
            for round in 0..50 {
                let before = ALLOC.count();
                for _ in 0..200 {
                    let pin = nodes.pin(0);
                    let addr = arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
                    nodes.locate_to_write(&cx, addr, 64).expect("inside");
                    arena.version(&cx, 0).await.expect("a version");
                    arena.free(&pin, addr, 64);
                }
                let count = ALLOC.count() - before;
                assert!(round < 25 || count == 0, "{count} allocations in round {round}");
                cx.sleep(Ns::from_ms(100)).await;
            }
        });
    });
}
