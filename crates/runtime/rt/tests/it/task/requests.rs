//! Requests of tasks: several syncs at once, buffers, words, refusals, detached requests.

use super::join;
use crate::bed::{BUFFERS, Bed, small};
use drover_rt::{BufferClass, Failure, StageError, TaskCx};
use drover_verbs::{MaskedSwap, PostErrorKind, Provider, QpKind, RemoteAddr, WcStatus};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use drover_verbs_suite::traced::{Traced, TracedDevice, What};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

async fn word<P: Provider>(cx: &TaskCx<P>, peer: drover_rt::PeerId, from: RemoteAddr) -> u64 {
    let ticket = cx
        .read(peer, cx.buffer(8).expect("buffer"), from)
        .expect("staged");
    let bytes = cx.sync().await.expect("READ").take(ticket);
    u64::from_le_bytes(bytes[..].try_into().expect("8 bytes"))
}

#[test]
fn several_syncs_of_a_task_wait_at_once() {
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let slow = bed.add_silent_peer();
    (0..4).for_each(|i| bed.memory.store_u64(8 * i, 10 + i as u64, Ordering::Relaxed));
    let (peer, remote) = (bed.peer, bed.remote);
    let words = bed.run_one(move |cx| async move {
        let first = word(&cx, peer, remote.at(0));
        let others = join(word(&cx, peer, remote.at(8)), word(&cx, peer, remote.at(16)));
        let (a, (b, c)) = join(first, others).await;
        // One that waits for ever does not hold up another, and may be given up.
        cx.read(slow, cx.buffer(8).expect("buffer"), remote.at(0))
            .expect("staged");
        let mut never = std::pin::pin!(cx.sync());
        let d = std::future::poll_fn(|poll| std::task::Poll::Ready(never.as_mut().poll(poll).is_ready()));
        assert!(!d.await);
        [a, b, c, word(&cx, peer, remote.at(24)).await]
    });
    assert_eq!(words, [10, 11, 12, 13]);
}

use std::future::Future;

#[test]
fn a_sync_has_the_requests_staged_before_it() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        cx.write_inline(peer, b"first", remote.at(0)).expect("staged");
        let first = cx.sync();
        cx.write_inline(peer, b"later", remote.at(8)).expect("staged");
        drop(first);
        cx.sync().await.expect("the later one");
    });
    let mut text = [0; 13];
    bed.memory.copy_out(0, &mut text);
    assert_eq!(&text[8..], b"later");
    assert_eq!(&text[..5], [0; 5], "a sync that is never awaited posts nothing");
}

#[test]
fn running_out_of_words_is_an_error() {
    let mut options = small();
    options.atomic_count_max = 2;
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &options);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let tickets = [cx.faa(peer, remote.at(0), 1), cx.faa(peer, remote.at(0), 1)];
        assert_eq!(cx.cas(peer, remote.at(0), 0, 1), Err(StageError::NoWord));
        let done = cx.sync().await.expect("both");
        assert_eq!(tickets.map(|ticket| done.value(ticket.expect("staged"))), [0, 1]);
        drop(done);
        assert!(cx.cas(peer, remote.at(0), 2, 3).is_ok());
    });
}

#[test]
fn a_masked_cas_changes_a_field_of_a_word() {
    let swap = |lock: u32, from: u64, to: u64| MaskedSwap {
        compare: from << lock,
        compare_mask: 0xffff << lock,
        swap: to << lock,
        swap_mask: 0xffff << lock,
    };
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &small());
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let word = remote.at(8);
        cx.write_inline(peer, b"beside", remote.at(64)).expect("staged");
        let swaps = [swap(0, 0, 1), swap(48, 0, 2), swap(0, 0, 3)];
        let tickets = swaps.map(|swap| cx.masked_cas(peer, word, &swap).expect("staged"));
        let done = cx.sync().await.expect("all");
        assert_eq!(tickets.map(|ticket| done.value(ticket)), [0, 1, 2 << 48 | 1]);
    });
    assert_eq!(bed.memory.load_u64(8, Ordering::Relaxed), 2 << 48 | 1);
}

#[test]
fn a_masked_cas_is_refused_by_name_where_there_is_none() {
    let mut options = LoopbackOptions::default();
    options.caps.supports.masked_atomics = false;
    let device = LoopbackDevice::with_options(options);
    let mut bed = Bed::<Loopback>::with(&device, QpKind::Rc, &small());
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let refused = cx.masked_cas(peer, remote.at(0), &MaskedSwap::default());
        assert_eq!(refused, Err(StageError::NotSupported { what: "a masked CAS" }));
        assert!(cx.cas(peer, remote.at(0), 0, 1).is_ok());
    });
}

#[test]
fn a_buffer_is_the_shortest_that_is_free() {
    let mut options = small();
    options.buffers[1] = BufferClass { bytes: 512, count: 1 };
    options.buffers[2] = BufferClass { bytes: 128, count: 1 };
    let mut bed = Bed::<Shm>::with(&ShmDevice::default(), QpKind::Rc, &options);
    bed.memory.copy_in(0, &[7; 512]);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let lengths = [100, 100].map(|len| cx.buffer(len).expect("buffer").len());
        assert_eq!(lengths, [100, 100]);
        let (first, second) = (cx.buffer(100), cx.buffer(100));
        assert!(first.is_ok() && second.is_ok(), "a longer one if need be");
        assert_eq!(cx.buffer(65).err(), Some(StageError::NoBuffer { bytes: 65 }));
        let (bytes, limit) = (513, 512);
        assert_eq!(cx.buffer(bytes).err(), Some(StageError::TooLong { bytes, limit }));
        drop((first, second));
        let ticket = cx
            .read(peer, cx.buffer(512).expect("buffer"), remote.at(0))
            .expect("staged");
        assert_eq!(cx.sync().await.expect("READ").take(ticket)[..], [7; 512]);
    });
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS + 2);
}

#[test]
fn bad_requests_are_refused_at_the_call() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.pool.add_region(&remote);
    bed.run_one(move |cx| async move {
        let buffer = |len| cx.buffer(len).expect("buffer");
        assert_eq!(
            cx.read(peer, buffer(0), remote.at(0)),
            Err(StageError::ZeroLength)
        );
        assert_eq!(
            cx.write_inline(peer, &[], remote.at(0)),
            Err(StageError::ZeroLength)
        );
        assert_eq!(
            cx.faa(peer, remote.at(12), 1),
            Err(StageError::Unaligned { offset: 12 })
        );
        for (offset, bytes) in [(4090, 8), (usize::MAX - 3, 8), (1 << 20, 8)] {
            let region_bytes = 4096;
            let error = StageError::OutOfRange {
                offset: offset as u64,
                bytes,
                region_bytes,
            };
            assert_eq!(cx.write(peer, buffer(8), remote.at(offset)), Err(error));
        }
        assert!(cx.cas(peer, remote.at(4096), 0, 1).is_err());
        assert!(cx.write(peer, buffer(8), remote.at(4088)).is_ok());
        assert!(cx.sync().await.is_ok(), "only that one");
    });
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
}

/// Results of one task per length, each of which READs so many bytes.
fn reads_of(bed: &mut Bed<Loopback>, lengths: &[usize]) -> Vec<Result<(), Failure>> {
    let (peer, remote, results) = (bed.peer, bed.remote, Rc::new(RefCell::new(Vec::new())));
    for (nth, &bytes) in lengths.iter().enumerate() {
        let results = results.clone();
        bed.spawn(move |cx| async move {
            cx.read(peer, cx.buffer(bytes).expect("buffer"), remote.at(0))
                .expect("staged");
            let result = cx.sync().await.map(drop).map_err(|error| error.failure);
            results.borrow_mut().push((nth, result));
        });
    }
    bed.run();
    let mut results = results.take();
    results.sort_by_key(|(nth, _)| *nth);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn requests_around_a_refused_one_end_and_return_their_credits() {
    let mut options = LoopbackOptions::default();
    options.caps.message_bytes_max = 16;
    let device = LoopbackDevice::with_options(options);
    let mut bed = Bed::<Loopback>::with(&device, QpKind::Rc, &small());
    let too_long = Err(Failure::Refused(PostErrorKind::MessageTooLong));
    // More rounds than the queue has places: a credit or place lost in each would show.
    for _ in 0..20 {
        assert_eq!(
            reads_of(&mut bed, &[8, 32, 8, 32, 32, 8]),
            [Ok(()), too_long, Ok(()), too_long, too_long, Ok(())]
        );
    }
    assert_eq!(bed.pool.stats().requests.outstanding, 0);
    assert_eq!(bed.pool.stats().requests.posted, 60);
    // In one sync the first request is not signaled: nothing but the error state reports its end.
    let (peer, remote) = (bed.peer, bed.remote);
    let failure = bed.run_one(move |cx| async move {
        for bytes in [8, 32, 8] {
            cx.read(peer, cx.buffer(bytes).expect("buffer"), remote.at(0))
                .expect("staged");
        }
        cx.sync().await.map(drop).map_err(|error| error.failure)
    });
    assert!(failure.is_err(), "{failure:?}");
    assert_eq!(bed.pool.stats().requests.outstanding, 0);
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    bed.replace(peer);
    assert_eq!(reads_of(&mut bed, &[8]), [Ok(())]);
}

#[test]
fn detached_requests_outlive_their_task() {
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        cx.write_inline(peer, b"unlocked", remote.at(0)).expect("staged");
        cx.detach();
    });
    bed.settle();
    let mut text = [0; 8];
    bed.memory.copy_out(0, &mut text);
    assert_eq!(&text, b"unlocked");
}

#[test]
fn a_drain_waits_and_says_what_failed() {
    let mut bed = Bed::<Loopback>::new(&LoopbackDevice::new(), QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        assert_eq!(cx.drain().await, Ok(()), "nothing to wait for");
        cx.faa(peer, remote.at(0), 1).expect("staged");
        cx.detach();
        assert_eq!(cx.drain().await, Ok(()));
        let bad = cx
            .write_inline(peer, b"outside!", remote.at(1 << 20))
            .expect("staged");
        cx.write_inline(peer, b"flushed", remote.at(0)).expect("staged");
        cx.detach();
        let error = cx.drain().await.expect_err("a WRITE outside");
        assert_eq!(error.ticket, bad);
        assert_eq!(error.failure, Failure::Completed(WcStatus::RemoteAccess));
        assert_eq!(cx.drain().await, Ok(()), "reported once");
        cx.write_inline(peer, b"flushed", remote.at(0)).expect("staged");
        cx.detach();
    });
    bed.settle();
    assert_eq!(bed.pool.stats().detached_failures, 3);
    let stats = bed.pool.stats();
    assert_eq!(
        (stats.requests.outstanding, stats.requests.posted),
        (0, stats.requests.ended)
    );
}

#[test]
fn a_fence_reaches_the_queue_pair() {
    let device = TracedDevice::<Loopback>::new(LoopbackDevice::new(), 100);
    let mut bed = Bed::<Traced<Loopback>>::new(&device, QpKind::Rc);
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        cx.faa(peer, remote.at(0), 1).expect("staged");
        let after = cx.write_inline(peer, b"after it", remote.at(8)).expect("staged");
        cx.fence(after);
        cx.sync().await.expect("both");
    });
    let trace = device.trace();
    let fences: Vec<bool> = trace
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Posted { wr, .. } => Some(wr.fence),
            _ => None,
        })
        .collect();
    assert_eq!(fences, [false, true]);
}

#[test]
fn a_task_waits_for_a_word() {
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let (memory, seen) = (bed.memory.clone(), Rc::new(Cell::new(0)));
    let put = seen.clone();
    bed.spawn(|cx| async move {
        let first = cx.word_change(&memory, 64, 0).await;
        put.set(first);
        put.set(cx.word_change(&memory, 64, first).await);
    });
    bed.settle();
    bed.memory.store_u64(64, 3, Ordering::Release);
    bed.settle();
    assert_eq!(seen.get(), 3);
    bed.memory.store_u64(64, 4, Ordering::Release);
    bed.run();
    assert_eq!(seen.get(), 4);
}

#[test]
fn a_sync_that_does_not_end_fails_and_its_buffers_stay() {
    let device = LoopbackDevice::new();
    let (mut bed, near) = Bed::<Loopback>::half_connected(&device, &small());
    let (peer, remote) = (bed.peer, bed.remote);
    let failure = Rc::new(Cell::new(None));
    let put = failure.clone();
    bed.spawn(move |cx| async move {
        for i in 0..12 {
            cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(8 * i))
                .expect("staged");
        }
        put.set(cx.sync().await.map(drop).err().map(|error| error.failure));
    });
    bed.settle();
    assert!(matches!(bed.step(), drover_base::Progress::Idle { wake_at } if wake_at < drover_base::Ns::MAX));
    device.advance(drover_base::Ns::from_s(4));
    bed.settle();
    assert_eq!(failure.get(), None);
    device.advance(drover_base::Ns::from_s(3));
    bed.run();
    assert_eq!(failure.get(), Some(Failure::TimedOut));
    bed.settle();
    assert_eq!(
        bed.pool.free_buffer_count(),
        BUFFERS - 8,
        "the device may still fill them"
    );
    use drover_verbs::QueuePair;
    bed.far.qp.connect(&near).expect("connect");
    bed.settle();
    assert_eq!(bed.pool.free_buffer_count(), BUFFERS);
    let stats = bed.pool.stats();
    assert_eq!((stats.timed_out, stats.requests.outstanding), (1, 0));
}
