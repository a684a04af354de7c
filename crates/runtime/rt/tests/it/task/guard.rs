//! The conflict guard in a pool.

use crate::bed::{Bed, small};
use drover_base::Ns;
use drover_rt::{Backoff, ConflictOptions, TaskOptions};
use drover_verbs::QpKind;
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::cell::RefCell;
use std::rc::Rc;

const UNIT: Ns = Ns(1_707);

fn bed(conflicts: ConflictOptions) -> (Bed<Loopback>, LoopbackDevice) {
    let options = LoopbackOptions {
        tick: Ns::ZERO,
        ..LoopbackOptions::default()
    };
    let device = LoopbackDevice::with_options(options);
    let options = TaskOptions { conflicts, ..small() };
    (Bed::with(&device, QpKind::Rc, &options), device)
}

const NO_WAIT: ConflictOptions = ConflictOptions {
    backoff: Backoff::Off,
    dynamic_limit: true,
    task_limit: true,
    ..ConflictOptions::OFF
};

/// Lets a period pass in which an operation is retried `retries` times; returns both limits.
fn period(bed: &mut Bed<Loopback>, device: &LoopbackDevice, retries: u32) -> (u64, u64) {
    bed.run_beside(move |cx| async move {
        let mut guard = cx.conflict_guard().await;
        for _ in 0..retries {
            guard.retry().await;
        }
    });
    device.advance(Ns::from_ms(1));
    bed.settle();
    let stats = bed.pool.stats();
    (stats.conflicts.tasks_max, stats.conflicts.backoff_max.0 / UNIT.0)
}

/// A pool in which `count` tasks exist that do nothing.
fn idle_tasks(bed: &mut Bed<Loopback>, count: usize) {
    for _ in 0..count {
        bed.spawn(|_| std::future::pending());
    }
    bed.settle();
}

#[test]
fn the_limits_follow_the_retries_of_the_pool() {
    let (mut bed, device) = bed(NO_WAIT);
    idle_tasks(&mut bed, 8);
    let tightened: Vec<_> = (0..5).map(|_| period(&mut bed, &device, 3)).collect();
    assert_eq!(tightened, [(4, 1), (2, 1), (1, 1), (1, 2), (1, 4)]);
    let relaxed: Vec<_> = (0..6).map(|_| period(&mut bed, &device, 0)).collect();
    let all = u64::MAX;
    assert_eq!(relaxed, [(2, 4), (4, 4), (all, 4), (all, 2), (all, 1), (all, 1)]);
    let stats = bed.pool.stats();
    assert_eq!(
        (
            stats.conflicts.retries,
            stats.conflicts.finished_by_retries[3],
            stats.conflicts.finished_by_retries[0]
        ),
        (15, 5, 6)
    );
}

#[test]
fn slots_are_given_in_the_order_of_asking() {
    let (mut bed, device) = bed(NO_WAIT);
    idle_tasks(&mut bed, 8);
    while period(&mut bed, &device, 3).0 > 2 {}
    let log = Rc::<RefCell<Vec<u32>>>::default();
    let mut tasks = Vec::new();
    for task in 0..8 {
        let log = log.clone();
        tasks.push(bed.spawn(move |cx| async move {
            for _ in 0..2 {
                let _guard = cx.conflict_guard().await;
                log.borrow_mut().push(task);
                cx.yield_now().await;
            }
        }));
    }
    let _ = bed.step();
    assert!(bed.pool.cancel(tasks[4]), "it waits");
    bed.settle();
    let order = [0, 1, 2, 3, 5, 6, 7];
    assert_eq!(*log.borrow(), [order, order].concat());
    assert!(bed.pool.stats().conflicts.slot_waits > 0);
}

#[test]
fn a_holder_of_a_slot_or_lock_never_waits_for_a_slot() {
    let (mut bed, device) = bed(NO_WAIT);
    idle_tasks(&mut bed, 8);
    while period(&mut bed, &device, 3).0 > 1 {}
    let lock = bed.pool.permits(1);
    let (mine, theirs) = (lock.clone(), lock);
    let log = Rc::<RefCell<Vec<&str>>>::default();
    let (first, second) = (log.clone(), log.clone());
    // One holds the lock, the other the only slot; each then asks for the other's.
    bed.spawn(move |cx| async move {
        let _lock = mine.acquire(&cx).await;
        cx.yield_now().await;
        let _guard = cx.conflict_guard().await;
        let _again = cx.conflict_guard().await;
        first.borrow_mut().push("lock, then slot");
    });
    bed.spawn(move |cx| async move {
        let _guard = cx.conflict_guard().await;
        let _lock = theirs.acquire(&cx).await;
        second.borrow_mut().push("slot, then lock");
    });
    bed.settle();
    assert_eq!(*log.borrow(), ["lock, then slot", "slot, then lock"]);
}

#[test]
fn tasks_that_wait_for_a_slot_get_one_when_the_limits_relax() {
    let (mut bed, device) = bed(NO_WAIT);
    idle_tasks(&mut bed, 8);
    while period(&mut bed, &device, 3).0 > 1 {}
    let log = Rc::<RefCell<Vec<u32>>>::default();
    for task in 0..3 {
        let log = log.clone();
        bed.spawn(move |cx| async move {
            let _guard = cx.conflict_guard().await;
            log.borrow_mut().push(task);
            // Short operations of others keep the rate low.
            cx.sleep(Ns::from_ms(100)).await;
        });
    }
    bed.settle();
    assert_eq!(*log.borrow(), [0]);
    // Operations inside that take long are no evidence; one that ends well is.
    let lock = bed.pool.permits(1);
    for _ in 0..2 {
        let lock = lock.clone();
        bed.run_beside(move |cx| async move {
            let _lock = lock.acquire(&cx).await;
            let _guard = cx.conflict_guard().await;
        });
        device.advance(Ns::from_ms(1));
        bed.settle();
    }
    assert_eq!(*log.borrow(), [0, 1, 2]);
}

#[test]
fn a_retry_waits_while_others_run() {
    let (mut bed, device) = bed(ConflictOptions {
        backoff: Backoff::Stepped,
        dynamic_limit: false,
        ..NO_WAIT
    });
    let waits = Rc::<RefCell<Vec<u64>>>::default();
    let put = waits.clone();
    bed.spawn(move |cx| async move {
        let mut guard = cx.conflict_guard().await;
        for _ in 0..3 {
            let start = cx.now();
            guard.retry().await;
            put.borrow_mut().push((cx.now() - start).0 / UNIT.0);
        }
        assert_eq!(guard.retries(), 3);
    });
    while bed.pool.task_count() > 0 {
        bed.settle();
        device.advance(Ns(50));
    }
    assert_eq!(*waits.borrow(), [2, 4, 8]);
}
