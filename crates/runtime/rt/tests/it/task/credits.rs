//! Credits in a pool: requests wait, and credits come back exactly once whatever happens.

use crate::bed::{BUFFERS, Bed, small};
use drover_base::{Actor, Cpu, Ns};
use drover_rt::{Choice, PeerId, TaskCx, TaskOptions, Throttle, TunerActor, TunerOptions};
use drover_verbs::{Context, Provider, QpKind, QueuePair, RemoteRegion};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::cell::Cell;
use std::rc::Rc;

fn with_credits(credits: u32) -> TaskOptions {
    TaskOptions {
        credits: Some(credits),
        ..small()
    }
}

/// A sync of `count` READs; says whether all of them succeeded.
async fn reads<P: Provider>(cx: &TaskCx<P>, peer: PeerId, remote: RemoteRegion, count: usize) -> bool {
    for i in 0..count {
        let buffer = cx.buffer(8).expect("buffer");
        cx.read(peer, buffer, remote.at(8 * i)).expect("staged");
    }
    cx.sync().await.is_ok()
}

#[test]
fn no_more_is_outstanding_than_there_are_credits() {
    let device = LoopbackDevice::new();
    let (mut bed, near) = Bed::<Loopback>::half_connected(&device, &with_credits(5));
    let (peer, remote) = (bed.peer, bed.remote);
    for _ in 0..3 {
        bed.spawn(move |cx| async move { assert!(reads(&cx, peer, remote, 12).await) });
    }
    bed.settle();
    let stats = bed.pool.stats();
    assert_eq!((stats.requests.outstanding, stats.credits.max), (5, 5));
    assert!(stats.credits.waits > 0);
    // Lowered below what is outstanding, and raised again.
    bed.pool.set_credits(Some(2));
    bed.settle();
    assert_eq!(bed.pool.stats().requests.outstanding, 5);
    bed.far.qp.connect(&near).expect("connect");
    bed.step();
    bed.step();
    assert!(bed.pool.stats().requests.outstanding <= 2);
    bed.pool.set_credits(None);
    bed.run();
    let stats = bed.pool.stats();
    assert_eq!(
        (
            stats.requests.outstanding,
            stats.requests.posted,
            stats.requests.ended
        ),
        (0, 36, 36)
    );
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

#[test]
fn credits_of_failed_cancelled_and_replaced_requests_come_back() {
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &with_credits(4));
    let silent = bed.add_silent_peer();
    let (peer, remote) = (bed.peer, bed.remote);
    for round in 0..20 {
        // Fails in the middle; the rest is flushed.
        let failed = bed.run_one(move |cx| async move {
            for i in 0..9 {
                let offset = if i == round % 9 { 1 << 20 } else { 0 };
                cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(offset))
                    .expect("staged");
            }
            cx.sync().await.is_err()
        });
        assert!(failed);
        bed.replace(peer);
        // Posted and queued requests of a cancelled task, and a queue pair that goes with them.
        let task = bed.spawn(move |cx| async move { _ = reads(&cx, silent, remote, 7).await });
        bed.settle();
        assert_eq!(
            bed.pool.stats().requests.outstanding,
            2,
            "two credits are the others'"
        );
        if round % 2 == 0 {
            assert!(bed.pool.cancel(task));
        }
        assert!(bed.run_beside(move |cx| async move { reads(&cx, peer, remote, 9).await }));
        // Not cancelled: the failure ends the task.
        bed.replace_silently(silent);
        bed.pool.cancel(task);
        bed.settle();
        bed.replace_silently(silent);
        let stats = bed.pool.stats();
        assert_eq!(stats.requests.outstanding, 0, "round {round}");
        assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    }
}

#[test]
fn destinations_get_credits_in_turn() {
    let options = TaskOptions {
        peer_count_max: 3,
        ..with_credits(4)
    };
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &options);
    // Two of them could take all credits, each its share, in every step.
    let peers = [bed.peer, bed.add_peer(), bed.add_peer()];
    let remote = bed.remote;
    let counts: [Rc<Cell<u32>>; 3] = Default::default();
    for (peer, count) in peers.into_iter().zip(&counts) {
        for _ in 0..6 {
            let count = count.clone();
            bed.spawn(move |cx| async move {
                loop {
                    assert!(reads(&cx, peer, remote, 3).await);
                    count.set(count.get() + 1);
                }
            });
        }
    }
    for _ in 0..1000 {
        let _ = bed.step();
    }
    let counts = counts.map(|count| count.get());
    let (least, most) = (counts.iter().min(), counts.iter().max());
    let (least, most) = (*least.expect("three"), *most.expect("three"));
    assert!(least > 100 && most - least <= 6, "{counts:?}");
}

#[test]
fn a_throttle_bounds_pools_and_counts_what_ended() {
    let throttle = Throttle::new(6);
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    bed.pool.set_throttle(&throttle);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move { assert!(reads(&cx, peer, remote, 30).await) });
    bed.step();
    assert_eq!((bed.pool.stats().credits.max, throttle.ended()), (6, 30));
    throttle.set_ceiling(u32::MAX);
    bed.step();
    assert_eq!(bed.pool.stats().credits.max, u64::MAX);
    drop(bed);
    assert_eq!(throttle.ended(), 30, "of pools that are gone, too");
}

#[test]
fn the_tuner_moves_the_throttle() {
    let options = LoopbackOptions {
        tick: Ns::ZERO,
        ..LoopbackOptions::default()
    };
    let device = LoopbackDevice::with_options(options);
    let mut bed = Bed::<Loopback>::new(&device, QpKind::Rc);
    let throttle = Throttle::new(u32::MAX);
    bed.pool.set_throttle(&throttle);
    let mut tuner = TunerActor::new(&throttle, TunerOptions::default());
    let (peer, remote) = (bed.peer, bed.remote);
    bed.spawn(move |cx| async move {
        loop {
            assert!(reads(&cx, peer, remote, 2).await);
            cx.sleep(Ns::from_us(50)).await;
        }
    });
    let mut limits = Vec::new();
    while tuner.tuner().last_choice().is_none() {
        bed.ctx.cpu().refresh();
        let _ = tuner.step(bed.ctx.cpu());
        if limits.last() != Some(&throttle.ceiling()) {
            limits.push(throttle.ceiling());
        }
        bed.settle();
        device.advance(Ns::from_us(50));
    }
    assert_eq!(limits, [4, 6, 8, 10, 12, u32::MAX]);
    assert_eq!(tuner.tuner().last_choice(), Some(Choice::LoadBound));
}
