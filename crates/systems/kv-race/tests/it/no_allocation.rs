//! Goal: an operation without conflict allocates no memory in its process.

use crate::bed::{Bed, shm};
use drover_kv_race::ItemMeta;
use drover_mem::CountingAlloc;
use drover_testkit::alone::alone;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn race_operations_allocate_nothing() {
    alone("no_allocation::race_operations_allocate_nothing", || {
        let bed = Bed::new(shm(), 64);
        let process = bed.process();
        bed.run(&process, |cx, race| async move {
            let meta = ItemMeta::default();
            // So that lists, limbo and the queues of the node and of tasks have their lengths.
            let mut counts = [0; 20];
            for count in &mut counts {
                let before = ALLOC.count();
                for key in 0..50u64 {
                    let key = key.to_le_bytes();
                    assert!(race.add(&cx, &key, b"8 bytes.", meta).await?);
                    race.put(&cx, &key, b"8 more..", meta).await?;
                    assert_eq!(race.get(&cx, &key).await?.expect("put").value(), b"8 more..");
                    assert!(race.delete(&cx, &key).await?);
                }
                *count = ALLOC.count() - before;
            }
            // A round in which chunks or epochs come is another matter.
            assert!(counts.contains(&0), "{counts:?}");
            Ok(())
        });
    });
}
