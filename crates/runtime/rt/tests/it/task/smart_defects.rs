//! Faults of SMART's public code that tasks must not have; two more are in `conflict.rs`.

use crate::bed::{BUFFERS, Bed, small};
use drover_rt::{Failure, PeerId, TaskCx, TaskOptions};
use drover_verbs::{Provider, QpKind, QueuePair, RemoteRegion};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use drover_verbs_suite::traced::{Traced, TracedDevice, What};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

fn stage<P: Provider>(cx: &TaskCx<P>, peer: PeerId, remote: RemoteRegion, count: usize) {
    for i in 0..count {
        let buffer = cx.buffer(8).expect("buffer");
        cx.read(peer, buffer, remote.at(8 * i)).expect("staged");
    }
}

#[test]
fn smart_defect_a_batch_above_c_max_blocks() {
    for credits in [1, 2, 4, 7] {
        let options = TaskOptions {
            credits: Some(credits),
            ..small()
        };
        let mut bed = Bed::<Shm>::with(&ShmDevice::default(), QpKind::Rc, &options);
        let (peer, remote) = (bed.peer, bed.remote);
        bed.run_one(move |cx| async move {
            stage(&cx, peer, remote, 40);
            cx.sync().await.expect("all of them");
        });
    }
}

#[test]
fn smart_defect_an_error_aborts_the_process() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (bad, good, remote) = (bed.peer, bed.add_peer(), bed.remote);
    let failures = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let failures = failures.clone();
        bed.spawn(move |cx| async move {
            cx.write_inline(bad, b"outside!", remote.at(1 << 20))
                .expect("staged");
            let error = cx.sync().await.expect_err("a WRITE outside");
            assert!(matches!(error.failure, Failure::Completed(_)));
            failures.set(failures.get() + 1);
        });
    }
    bed.spawn(move |cx| async move {
        for _ in 0..10 {
            stage(&cx, good, remote, 3);
            cx.sync().await.expect("another destination goes on");
        }
    });
    bed.run();
    assert_eq!(failures.get(), 3);
}

#[test]
fn smart_defect_sync_waits_for_other_coroutines() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (peer, silent, remote) = (bed.peer, bed.add_silent_peer(), bed.remote);
    bed.spawn(move |cx| async move {
        stage(&cx, silent, remote, 3);
        drop(cx.sync().await);
    });
    bed.settle();
    bed.run_beside(move |cx| async move {
        stage(&cx, peer, remote, 3);
        cx.sync().await.expect("its own requests have ended");
    });
}

#[test]
fn smart_defect_a_second_node_forces_a_sync_of_the_first() {
    let device = TracedDevice::<Loopback>::new(LoopbackDevice::new(), 100);
    let mut bed = Bed::<Traced<Loopback>>::new(&device, QpKind::Rc);
    let (first, second, remote) = (bed.peer, bed.add_peer(), bed.remote);
    bed.run_one(move |cx| async move {
        for _ in 0..3 {
            stage(&cx, first, remote, 1);
            stage(&cx, second, remote, 1);
        }
        cx.sync().await.expect("both nodes");
    });
    let kinds: Vec<bool> = device
        .trace()
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Posted { .. } => Some(true),
            What::Completed(_) => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [true, true, true, true, true, true, false, false]);
    assert_eq!(bed.pool.stats().requests.doorbells, 2);
}

#[test]
fn smart_defect_only_15_buffers_are_usable() {
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        stage(&cx, peer, remote, BUFFERS);
        cx.sync().await.expect("one request per buffer");
    });
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

#[test]
fn smart_defect_wakes_all_as_a_safety_net() {
    let (mut bed, near) = Bed::<Loopback>::half_connected(&LoopbackDevice::new(), &small());
    let (peer, remote) = (bed.peer, bed.remote);
    let polls = Rc::new(Cell::new(0));
    let count = polls.clone();
    bed.spawn(move |cx| async move {
        stage(&cx, peer, remote, 20);
        let mut sync = pin!(cx.sync());
        poll_fn(|poll| {
            count.set(count.get() + 1);
            sync.as_mut().poll(poll).map(drop)
        })
        .await;
    });
    for _ in 0..5000 {
        let _ = bed.step();
    }
    assert_eq!(polls.get(), 1, "nothing has ended: nobody is woken");
    bed.far.qp.connect(&near).expect("connect");
    bed.run();
    assert_eq!(polls.get(), 2, "woken once, by the last of its requests");
}

#[test]
fn smart_defect_a_full_queue_is_an_error() {
    for (send_depth, credits) in [(2, None), (2, Some(64)), (5, Some(6)), (8, Some(3))] {
        let options = TaskOptions {
            send_depth,
            credits,
            ..small()
        };
        let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &options);
        let (peer, remote) = (bed.peer, bed.remote);
        for _ in 0..4 {
            bed.spawn(move |cx| async move {
                for _ in 0..20 {
                    stage(&cx, peer, remote, 13);
                    assert_eq!(cx.sync().await.map(drop), Ok(()));
                }
            });
        }
        bed.run();
        assert_eq!(bed.pool.stats().requests.ended, 4 * 20 * 13);
    }
}
