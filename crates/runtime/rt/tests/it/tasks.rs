//! Goal: asynchronous operations over verbs: dependent reads, many tasks, failures with a name, cancellation.

use crate::bed::{BUFFERS, Bed, TASKS, small};
use drover_base::{Ns, Progress};
use drover_rt::{Failure, PeerId, StageError, TaskCx, TaskError};
use drover_verbs::{Provider, QpKind, QueuePair, RemoteRegion, WcStatus};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

fn two_dependent_reads<P: Provider>(device: &P::Device) {
    let mut bed = Bed::<P>::new(device, QpKind::Rc);
    bed.memory.store_u64(0, 512, Ordering::Relaxed);
    bed.memory.copy_in(512, b"the item itself!");
    let (peer, remote) = (bed.peer, bed.remote);
    let item = bed.run_one(move |cx| async move {
        let ticket = cx
            .read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
            .expect("staged");
        let mut done = cx.sync().await.expect("first READ");
        let pointer = done.take(ticket);
        let offset = u64::from_le_bytes(pointer[..].try_into().expect("8 bytes"));
        let ticket = cx
            .read(peer, cx.buffer(16).expect("buffer"), remote.at(offset as usize))
            .expect("staged");
        // The first results may live on.
        let mut done_too = cx.sync().await.expect("second READ");
        done_too.take(ticket).to_vec()
    });
    assert_eq!(item, b"the item itself!");
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

/// Each task takes a lock by CAS, adds to two words by READ and WRITE, and unlocks; FAA counts besides.
fn many_tasks_with_a_lock<P: Provider>(device: &P::Device) {
    let mut bed = Bed::<P>::new(device, QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    for _ in 0..TASKS {
        bed.pool
            .spawn(|cx| async move {
                for _ in 0..10 {
                    locked_add(&cx, peer, remote).await.expect("verbs");
                }
            })
            .expect("space");
    }
    assert!(bed.pool.spawn(|_| async {}).is_err(), "the pool is full");
    bed.run();
    let total = TASKS as u64 * 10;
    let words = [0, 64, 72, 128].map(|offset| bed.memory.load_u64(offset, Ordering::Relaxed));
    assert_eq!(words, [0, total, total, total]);
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

async fn locked_add<P: Provider>(
    cx: &TaskCx<P>,
    peer: PeerId,
    remote: RemoteRegion,
) -> Result<(), TaskError> {
    loop {
        let ticket = cx.cas(peer, remote.at(0), 0, 1)?;
        if cx.sync().await?.value(ticket) == 0 {
            break;
        }
    }
    let ticket = cx.read(peer, cx.buffer(16)?, remote.at(64))?;
    let mut words = cx.sync().await?.take(ticket);
    for word in words.chunks_exact_mut(8) {
        let value = u64::from_le_bytes(word.try_into().expect("8 bytes")) + 1;
        word.copy_from_slice(&value.to_le_bytes());
    }
    cx.write(peer, words, remote.at(64))?;
    cx.faa(peer, remote.at(128), 1)?;
    cx.write_inline(peer, &0u64.to_le_bytes(), remote.at(0))?;
    cx.sync().await?;
    Ok(())
}

fn more_than_the_queue_holds<P: Provider>(device: &P::Device) {
    let mut bed = Bed::<P>::new(device, QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        for i in 0..200u64 {
            cx.write_inline(peer, &i.to_le_bytes(), remote.at(8 * i as usize))
                .expect("staged");
        }
        cx.sync().await.expect("all of them");
    });
    assert!((0..200).all(|i| bed.memory.load_u64(8 * i, Ordering::Relaxed) == i as u64));
}

macro_rules! stamp {
    ($($body:ident)*) => {
        mod loopback {
            $(#[test] fn $body() { super::$body::<super::Loopback>(&super::LoopbackDevice::new()) })*
        }
        mod shm {
            $(#[test] fn $body() { super::$body::<super::Shm>(&super::ShmDevice::default()) })*
        }
    };
}

stamp!(two_dependent_reads many_tasks_with_a_lock more_than_the_queue_holds a_failure_names_its_request);

fn a_failure_names_its_request<P: Provider>(device: &P::Device) {
    let mut bed = Bed::<P>::new(device, QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    let (error, bad) = bed.run_one(move |cx| async move {
        let buffer = || cx.buffer(8).expect("buffer");
        cx.read(peer, buffer(), remote.at(0)).expect("staged");
        let bad = cx.read(peer, buffer(), remote.at(1 << 20)).expect("staged");
        cx.read(peer, buffer(), remote.at(8)).expect("staged");
        (cx.sync().await.expect_err("a READ outside"), bad)
    });
    assert_eq!(error.ticket, bad);
    assert_eq!(error.failure, Failure::Completed(WcStatus::RemoteAccess));
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    // The queue pair is in the error state: later requests are flushed, and a new one heals it.
    let read_one = move |cx: TaskCx<P>| async move {
        cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
            .expect("staged");
        cx.sync().await.map(drop).map_err(|error| error.failure)
    };
    assert_eq!(bed.run_one(read_one), Err(Failure::Completed(WcStatus::Flushed)));
    bed.replace(peer);
    assert_eq!(bed.run_one(read_one), Ok(()));
}

#[test]
fn a_request_that_cannot_be_executed_is_refused_at_the_call() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Uc);
    let (peer, remote) = (bed.peer, bed.remote);
    let (read, atomic) = bed.run_one(move |cx| async move {
        let ticket = cx.write_inline(peer, b"12345678", remote.at(0));
        let read = cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(0));
        let atomic = cx.faa(peer, remote.at(0), 1);
        assert!(ticket.is_ok() && cx.sync().await.is_ok(), "the others go out");
        (read, atomic)
    });
    assert_eq!(read, Err(StageError::NotSupported { what: "READ" }));
    assert_eq!(atomic, Err(StageError::NotSupported { what: "an atomic" }));
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    let mut text = [0; 8];
    bed.memory.copy_out(0, &mut text);
    assert_eq!(&text, b"12345678");
}

#[test]
fn a_cancelled_task_leaves_its_buffers_until_the_device_is_done() {
    // Our end is connected, the other is not: requests wait.
    let (mut bed, near_export) = Bed::<Loopback>::half_connected(&LoopbackDevice::new(), &small());
    let (peer, remote) = (bed.peer, bed.remote);
    let task = bed
        .pool
        .spawn(move |cx| async move {
            for i in 0..12 {
                cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(8 * i))
                    .expect("staged");
            }
            drop(cx.sync().await);
            panic!("it was cancelled");
        })
        .expect("space");
    bed.settle();
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS - 12);
    assert!(bed.pool.cancel(task) && !bed.pool.cancel(task));
    bed.settle();
    // Eight are with the device; the other four were never posted.
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS - 8);
    bed.far.qp.connect(&near_export).expect("connect");
    bed.settle();
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    // The pool goes on.
    bed.memory.store_u64(0, 7, Ordering::Relaxed);
    let word = bed.run_one(move |cx| async move {
        let ticket = cx.faa(peer, remote.at(0), 1).expect("staged");
        cx.sync().await.expect("FAA").value(ticket)
    });
    assert_eq!(word, 7);
}

#[test]
#[should_panic(expected = "is not of a READ or WRITE from a buffer")]
fn the_word_of_an_atomic_cannot_be_taken() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let ticket = cx.faa(peer, remote.at(0), 1).expect("staged");
        cx.sync().await.expect("FAA").take(ticket).len()
    });
}

#[test]
fn a_sync_can_be_given_up_for_a_timeout() {
    let (mut bed, near_export) = Bed::<Loopback>::half_connected(&LoopbackDevice::new(), &small());
    let (peer, remote) = (bed.peer, bed.remote);
    let timed_out = bed.run_one(move |cx| async move {
        cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
            .expect("staged");
        let (mut sync, mut sleep) = (pin!(cx.sync()), pin!(cx.sleep(Ns::from_us(10))));
        poll_fn(|poll| match sync.as_mut().poll(poll) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => sleep.as_mut().poll(poll).map(|()| true),
        })
        .await
    });
    assert!(timed_out);
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS - 1);
    bed.far.qp.connect(&near_export).expect("connect");
    bed.settle();
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

#[test]
fn a_pool_can_go_with_requests_in_flight() {
    let (mut bed, _) = Bed::<Loopback>::half_connected(&LoopbackDevice::new(), &small());
    let (peer, remote) = (bed.peer, bed.remote);
    bed.pool
        .spawn(move |cx| async move {
            cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
                .expect("staged");
            drop(cx.sync().await);
        })
        .expect("space");
    bed.settle();
    drop(bed);
}

#[test]
fn sleepers_wake_in_order_and_the_core_may_sleep_meanwhile() {
    let options = LoopbackOptions {
        tick: Ns::ZERO,
        ..LoopbackOptions::default()
    };
    let device = LoopbackDevice::with_options(options);
    let mut bed = Bed::<Loopback>::new(&device, QpKind::Rc);
    let woken = Rc::new(RefCell::new(Vec::new()));
    for us in [30u64, 10, 20] {
        let woken = woken.clone();
        bed.pool
            .spawn(|cx| async move {
                cx.sleep(Ns::from_us(us)).await;
                woken.borrow_mut().push(us);
            })
            .expect("space");
    }
    while bed.pool.task_count() > 0 {
        if let Progress::Idle { wake_at } = bed.step() {
            assert!(wake_at > device.now() && wake_at != Ns::MAX);
            device.advance(wake_at - device.now());
        }
    }
    assert_eq!(*woken.borrow(), [10, 20, 30]);
    assert_eq!(device.now(), Ns::from_us(30), "woken on time");
}

#[test]
fn a_foreign_thread_can_wake_a_task() {
    use std::sync::{Arc, Mutex};
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let mail: Arc<Mutex<(Option<u32>, Option<std::task::Waker>)>> = Arc::default();
    let (inbox, got) = (mail.clone(), Rc::new(Cell::new(0)));
    let put = got.clone();
    bed.pool
        .spawn(|_| async move {
            let value = poll_fn(|cx| {
                let mut mail = inbox.lock().expect("mail");
                mail.1 = Some(cx.waker().clone());
                mail.0.take().map_or(Poll::Pending, Poll::Ready)
            });
            put.set(value.await);
        })
        .expect("space");
    bed.settle();
    let thread = std::thread::spawn(move || {
        let mut mail = mail.lock().expect("mail");
        mail.0 = Some(42);
        mail.1.take().expect("a waker").wake();
    });
    thread.join().expect("thread");
    assert!(matches!(bed.step(), Progress::Busy));
    assert_eq!((got.get(), bed.pool.task_count()), (42, 0));
}
