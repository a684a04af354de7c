//! Waiting of tasks for each other: permits, single flight.

use crate::bed::Bed;
use drover_rt::{Joined, Permits, SingleFlight};
use drover_verbs::QpKind;
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn bed() -> Bed<Loopback> {
    Bed::new(&LoopbackDevice::new(), QpKind::Rc)
}

#[test]
fn permits_are_given_in_the_order_of_asking() {
    let mut bed = bed();
    let permits: Permits<Loopback> = bed.pool.permits(1);
    let log = Rc::<RefCell<Vec<u32>>>::default();
    let mut tasks = Vec::new();
    for task in 0..8 {
        let (permits, log) = (permits.clone(), log.clone());
        tasks.push(bed.spawn(move |cx| async move {
            // The second time it is behind all that wait.
            for _ in 0..2 {
                let _permit = permits.acquire(&cx).await;
                log.borrow_mut().push(task);
                cx.yield_now().await;
            }
        }));
    }
    let _ = bed.step();
    assert_eq!(permits.waiting_count(), 7);
    assert!(bed.pool.cancel(tasks[3]));
    bed.run();
    let order = [0, 1, 2, 4, 5, 6, 7];
    assert_eq!(*log.borrow(), [order, order].concat());
}

#[test]
fn no_more_tasks_are_inside_than_there_are_permits() {
    let mut bed = bed();
    let (permits, inside) = (bed.pool.permits(3), Rc::new(Cell::new(0)));
    for task in 0..20 {
        let (permits, inside): (Permits<Loopback>, _) = (permits.clone(), inside.clone());
        bed.spawn(move |cx| async move {
            for _ in 0..5 {
                let _permit = permits.acquire(&cx).await;
                inside.set(inside.get() + 1);
                assert!(inside.get() <= 3);
                for _ in 0..task % 4 {
                    cx.yield_now().await;
                }
                inside.set(inside.get() - 1);
            }
        });
    }
    bed.run();
}

#[test]
fn a_permit_granted_to_a_task_that_is_gone_passes_on() {
    let mut bed = bed();
    let permits: Permits<Loopback> = bed.pool.permits(1);
    let (mine, got) = (permits.clone(), Rc::new(Cell::new(false)));
    let holder = bed.spawn(move |cx| async move {
        let _permit = mine.acquire(&cx).await;
        std::future::pending().await
    });
    let _ = bed.step();
    let mine = permits.clone();
    let waiter = bed.spawn(move |cx| async move {
        mine.acquire(&cx).await;
        panic!("it is gone");
    });
    let _ = bed.step();
    let put = got.clone();
    bed.spawn(move |cx| async move {
        permits.acquire(&cx).await;
        put.set(true);
    });
    let _ = bed.step();
    assert!(bed.pool.cancel(holder) && bed.pool.cancel(waiter));
    bed.run();
    assert!(got.get());
}

#[test]
fn one_task_works_for_all_that_ask_meanwhile() {
    let mut bed = bed();
    let flights: SingleFlight<Loopback, u32, String> = bed.pool.single_flight();
    let (work, values) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for task in 0..12 {
        let (flights, work, values) = (flights.clone(), work.clone(), values.clone());
        bed.spawn(move |cx| async move {
            let value = match flights.join(&cx, task % 3).await {
                Joined::Value(value) => value,
                Joined::Lead(lead) => {
                    work.set(work.get() + 1);
                    cx.yield_now().await;
                    lead.finish(format!("of {}", task % 3));
                    return;
                }
            };
            assert_eq!(value, format!("of {}", task % 3));
            values.set(values.get() + 1);
        });
    }
    bed.run();
    assert_eq!((work.get(), values.get()), (3, 9));
    // Afterwards there is nothing to wait for: the work is done again.
    let leads = bed.run_one(move |cx| async move { matches!(flights.join(&cx, 0).await, Joined::Lead(_)) });
    assert!(leads);
}

#[test]
fn work_that_is_given_up_passes_to_the_next_task() {
    let mut bed = bed();
    let flights: SingleFlight<Loopback, u32, u32> = bed.pool.single_flight();
    let log = Rc::<RefCell<Vec<(u32, bool)>>>::default();
    let mut tasks = Vec::new();
    for task in 0..4 {
        let (flights, log) = (flights.clone(), log.clone());
        tasks.push(bed.spawn(move |cx| async move {
            match flights.join(&cx, 7).await {
                Joined::Lead(lead) => {
                    log.borrow_mut().push((task, true));
                    if task == 0 {
                        std::future::pending::<()>().await;
                    }
                    cx.yield_now().await;
                    lead.finish(task);
                }
                Joined::Value(value) => log.borrow_mut().push((value, false)),
            }
        }));
    }
    let _ = bed.step();
    assert!(bed.pool.cancel(tasks[1]), "it waited");
    assert!(bed.pool.cancel(tasks[0]), "it led");
    bed.run();
    assert_eq!(*log.borrow(), [(0, true), (2, true), (2, false)]);
}
