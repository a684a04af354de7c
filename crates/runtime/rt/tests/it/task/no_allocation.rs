//! Posting, suspending, taking credits and backing off allocate nothing.

use crate::bed::{Bed, small};
use drover_mem::CountingAlloc;
use drover_rt::{PeerId, Permits, TaskCx, TaskError, TaskOptions};
use drover_verbs::{QpKind, RemoteRegion};
use drover_verbs_shm::{Shm, ShmDevice};
use std::cell::Cell;
use std::rc::Rc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

async fn operation(
    cx: &TaskCx<Shm>,
    peer: PeerId,
    remote: RemoteRegion,
    lock: &Permits<Shm>,
) -> Result<(), TaskError> {
    let mut guard = cx.conflict_guard().await;
    let pointer = cx.read(peer, cx.buffer(8)?, remote.at(0))?;
    cx.sync().await?.take(pointer);
    guard.retry().await;
    for i in 0..6 {
        cx.read(peer, cx.buffer(8)?, remote.at(8 * i))?;
    }
    let counter = cx.faa(peer, remote.at(64), 1)?;
    let _lock = lock.acquire(cx).await;
    cx.sync().await?.value(counter);
    cx.write_inline(peer, b"unlocked", remote.at(128))?;
    cx.detach();
    cx.yield_now().await;
    cx.drain().await?;
    Ok(())
}

#[test]
fn operations_of_tasks_allocate_nothing() {
    let options = TaskOptions {
        credits: Some(5),
        ..small()
    };
    let mut bed = Bed::<Shm>::with(&ShmDevice::default(), QpKind::Rc, &options);
    let (peer, remote, done) = (bed.peer, bed.remote, Rc::new(Cell::new(0)));
    let lock = bed.pool.permits(2);
    for _ in 0..8 {
        let (done, lock) = (done.clone(), lock.clone());
        bed.spawn(move |cx| async move {
            loop {
                operation(&cx, peer, remote, &lock).await.expect("verbs");
                done.set(done.get() + 1);
            }
        });
    }
    let mut run = |until: u32| {
        while done.get() < until {
            let _ = bed.step();
        }
    };
    run(500);
    let before = ALLOC.count();
    run(2_000);
    assert_eq!(ALLOC.count() - before, 0);
    let stats = bed.pool.stats();
    assert!(stats.credits.waits > 0 && stats.conflicts.retries >= 2_000);
}
