//! Messages to and from tasks.

use crate::bed::{Bed, small};
use drover_rt::{Failure, RecvOptions, TaskOptions};
use drover_verbs::{Provider, QpKind, QueuePair, SendList, SendWr, WcStatus, WrId};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::cell::RefCell;
use std::rc::Rc;

fn receiving() -> TaskOptions {
    TaskOptions {
        recv: RecvOptions { depth: 4, bytes: 64 },
        ..small()
    }
}

/// Sends `messages` from the far end.
fn send<P: Provider>(bed: &mut Bed<P>, messages: &[&[u8]]) {
    use drover_verbs::Context;
    let mut list = SendList::default();
    for message in messages {
        let payload = list.inline(message);
        list.push(SendWr::send(payload).signaled(WrId(1)));
    }
    bed.far.qp.post_send(bed.far.ctx.cpu(), &list).expect("posted");
}

type Log = Rc<RefCell<Vec<(u32, Vec<u8>)>>>;

fn messages_come_in_the_order_of_asking<P: Provider>(device: &P::Device) {
    let mut bed = Bed::<P>::with(device, QpKind::Rc, &receiving());
    let (peer, log) = (bed.peer, Log::default());
    for reader in 0..3 {
        let log = log.clone();
        bed.spawn(move |cx| async move {
            for _ in 0..3 {
                let message = cx.recv(peer).await.expect("a message");
                log.borrow_mut().push((reader, message.bytes.to_vec()));
            }
        });
    }
    bed.settle();
    let texts: Vec<String> = (0..9).map(|number| format!("message {number}")).collect();
    for three in texts.chunks(3) {
        let three: Vec<&[u8]> = three.iter().map(|text| text.as_bytes()).collect();
        send(&mut bed, &three);
        bed.settle();
    }
    let expected: Vec<_> = (0u32..9)
        .map(|number| (number % 3, format!("message {number}").into_bytes()))
        .collect();
    assert_eq!(*log.borrow(), expected);
    assert_eq!(bed.pool.task_count(), 0);
}

#[test]
fn messages_come_in_the_order_of_asking_shm() {
    messages_come_in_the_order_of_asking::<Shm>(&ShmDevice::default());
}

#[test]
fn messages_come_in_the_order_of_asking_loopback() {
    messages_come_in_the_order_of_asking::<Loopback>(&LoopbackDevice::new());
}

#[test]
fn a_reader_that_gives_up_passes_its_message_on() {
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &receiving());
    let (peer, log) = (bed.peer, Log::default());
    let mut tasks = Vec::new();
    for reader in 0..2 {
        let log = log.clone();
        tasks.push(bed.spawn(move |cx| async move {
            let message = cx.recv(peer).await.expect("a message");
            log.borrow_mut().push((reader, message.bytes.to_vec()));
        }));
    }
    bed.settle();
    assert!(bed.pool.cancel(tasks[0]));
    send(&mut bed, &[b"one"]);
    bed.run();
    assert_eq!(*log.borrow(), [(1, b"one".to_vec())]);
}

#[test]
fn a_newcomer_does_not_take_the_message_of_one_that_waited() {
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &receiving());
    let (peer, log) = (bed.peer, Log::default());
    for reader in 0..2 {
        // The second one is ready before the message comes, and so runs before the first.
        let log = log.clone();
        bed.spawn(move |cx| async move {
            let message = cx.recv(peer).await.expect("a message");
            log.borrow_mut().push((reader, message.bytes.to_vec()));
        });
        match reader {
            0 => bed.settle(),
            _ => send(&mut bed, &[b"one"]),
        }
    }
    let _ = bed.step();
    send(&mut bed, &[b"two"]);
    bed.run();
    assert_eq!(*log.borrow(), [(0, b"one".to_vec()), (1, b"two".to_vec())]);
}

#[test]
fn a_failed_queue_pair_ends_the_wait_after_its_messages() {
    let mut bed = Bed::<Loopback>::with(&LoopbackDevice::new(), QpKind::Rc, &receiving());
    bed.settle();
    send(&mut bed, &[b"last"]);
    let (peer, remote) = (bed.peer, bed.remote);
    let results = bed.run_one(move |cx| async move {
        cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(1 << 20))
            .expect("staged");
        assert!(cx.sync().await.is_err());
        let first = cx.recv(peer).await.map(|message| message.bytes.to_vec());
        (first, cx.recv(peer).await.map(|message| message.bytes.to_vec()))
    });
    let flushed = Failure::Completed(WcStatus::Flushed);
    assert_eq!(results, (Ok(b"last".to_vec()), Err(flushed)));
    // A new queue pair brings messages again.
    bed.replace(peer);
    bed.settle();
    bed.far.qp = bed.more.pop().expect("the far end of the new one");
    send(&mut bed, &[b"again"]);
    let again = bed.run_one(move |cx| async move { cx.recv(peer).await.expect("a message").bytes.to_vec() });
    assert_eq!(again, b"again");
}

#[test]
fn a_task_sends_messages() {
    use drover_mem::PageWish;
    use drover_verbs::{Access, CompletionQueue, Context, MemoryRegion, RecvList, RecvWr, Wc};
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let inbox = bed.far.ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = bed.far.ctx.register(&inbox, Access::LOCAL).expect("register");
    let mut recvs = RecvList::default();
    for at in [0, 64] {
        let (wr_id, sge) = (WrId(at as u64), mr.sge(at, 64));
        recvs.push(RecvWr { wr_id, sge });
    }
    bed.far.qp.post_recv(bed.far.ctx.cpu(), &recvs).expect("posted");
    let peer = bed.peer;
    bed.run_one(move |cx| async move {
        let mut buffer = cx.buffer(5).expect("buffer");
        buffer.copy_from_slice(b"hello");
        let sent = cx.send(peer, buffer).expect("staged");
        cx.send_inline(peer, b"world").expect("staged");
        assert_eq!(&cx.sync().await.expect("sent").take(sent)[..], b"hello");
    });
    let mut wcs = [Wc::default(); 4];
    assert_eq!(bed.far.cq.poll(bed.far.ctx.cpu(), &mut wcs), 2);
    let mut text = [0; 69];
    inbox.copy_out(0, &mut text);
    assert_eq!((&text[..5], &text[64..]), (&b"hello"[..], &b"world"[..]));
}

#[test]
fn immediate_data_comes_with_writes_and_messages() {
    use drover_mem::PageWish;
    use drover_rt::StageError;
    use drover_verbs::{Access, CompletionQueue, Context, Imm, MemoryRegion, RecvList, RecvWr, Wc};
    let mut bed = Bed::<Shm>::new(&ShmDevice::default(), QpKind::Rc);
    let inbox = bed.far.ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = bed.far.ctx.register(&inbox, Access::LOCAL).expect("register");
    let mut recvs = RecvList::default();
    for number in 0..2 {
        let (wr_id, sge) = (WrId(number), mr.sge(0, 64));
        recvs.push(RecvWr { wr_id, sge });
    }
    bed.far.qp.post_recv(bed.far.ctx.cpu(), &recvs).expect("posted");
    let (peer, remote) = (bed.peer, bed.remote);
    bed.run_one(move |cx| async move {
        let written = cx.write_inline(peer, b"8 bytes!", remote.at(0)).expect("staged");
        cx.imm(written, Imm(7)).expect("a WRITE carries it");
        let mut buffer = cx.buffer(8).expect("buffer");
        buffer.copy_from_slice(b"as long.");
        let written = cx.write(peer, buffer, remote.at(8)).expect("staged");
        cx.imm(written, Imm(8)).expect("a WRITE carries it");
        cx.sync().await.expect("both");
        let read = cx
            .read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
            .expect("staged");
        let refused = cx.imm(read, Imm(9));
        assert_eq!(
            refused,
            Err(StageError::NotSupported {
                what: "immediate data"
            })
        );
        cx.sync().await.expect("a READ without it");
    });
    let mut wcs = [Wc::default(); 4];
    assert_eq!(bed.far.cq.poll(bed.far.ctx.cpu(), &mut wcs), 2);
    assert_eq!([wcs[0].imm, wcs[1].imm], [Some(Imm(7)), Some(Imm(8))]);
}
