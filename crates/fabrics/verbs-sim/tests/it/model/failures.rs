//! Failures: missing RECVs, full queues, lost packets, crashed machines.

use crate::model::pair::{Pair, send, write, write_at};
use drover_base::Ns;
use drover_mem::PageWish;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, MemoryRegion, QpKind, QpOptions, QpState, QueuePair, RecvList,
    RecvWr, SendList, SendOp, SendWr, SharedReceiveQueue, Wc, WcStatus, WrId,
};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{RcOptions, World, WorldOptions};

fn world(loss: f64) -> World {
    let options = WorldOptions {
        loss,
        rc: RcOptions {
            timeout: Ns::from_us(100),
            retries: 50,
            ..RcOptions::default()
        },
        ..WorldOptions::new(Profile::named("apt").expect("a profile"))
    };
    World::with_options(options, 2, 1)
}

/// A SEND over RC waits for a RECV and then arrives; over UC and UD it is lost and counted.
#[test]
fn rnr_and_drops() {
    for kind in [QpKind::Rc, QpKind::Uc, QpKind::Ud] {
        let world = world(0.0);
        let mut pair = Pair::new(&world, kind, 64);
        pair.post(&[send(&pair, 1, b"anybody?")]);
        world.run_for(Ns::from_us(50));
        assert_eq!(pair.completions().len(), usize::from(kind != QpKind::Rc));
        pair.post_recv(7);
        world.run_for(Ns::from_us(50));
        let took = pair.arrivals().len();
        assert_eq!(took, usize::from(kind == QpKind::Rc), "{kind:?}");
        let counters = world.report().machines[1].counters;
        match kind {
            QpKind::Rc => assert!((2..20).contains(&counters.out_of_buffer), "{counters:?}"),
            _ => assert_eq!(counters.out_of_buffer, 1),
        }
    }
}

/// A completion queue that overruns is fatal, and counted.
#[test]
fn an_overrun_completion_queue_is_fatal() {
    let world = world(0.0);
    let mut pair = Pair::with_cq_depth(&world, QpKind::Uc, 4);
    for n in 0..6 {
        pair.post(&[write(&pair, n, b"too many")]);
    }
    world.run_for(Ns::from_us(50));
    assert_eq!(world.report().machines[0].counters.cq_overruns, 2);
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pair.completions()));
    assert!(polled.is_err(), "an overrun queue was polled");
}

/// RC delivers all messages once and in order over a network that loses a tenth of all packets; UC loses some.
#[test]
fn reliable_connections_recover_from_loss() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        let world = world(0.1);
        let mut pair = Pair::new(&world, kind, 512);
        (0..200).for_each(|n| pair.post_recv(n));
        let mut done = Vec::new();
        for n in 0..200u64 {
            pair.post(&[send(&pair, n, &n.to_le_bytes())]);
            world.run_for(Ns::from_us(1));
            done.extend(pair.completions());
        }
        world.run_for(Ns::from_ms(10));
        done.extend(pair.completions());
        assert!(
            done.iter().map(|wc: &Wc| wc.wr_id.0).eq(0..200),
            "in order, each once"
        );
        let came = pair.arrivals();
        let report = world.report();
        let lost: u64 = report.machines.iter().map(|m| m.counters.lost).sum();
        assert!(lost > 5, "{lost} packets lost");
        match kind {
            QpKind::Rc => {
                assert!(came.iter().map(|wc| wc.wr_id.0).eq(0..200));
                assert!(report.machines[0].counters.retransmitted > 0);
                assert_eq!(report.machines[1].counters.rx_send_requests, 200);
            }
            _ => assert!(came.len() < 200 && came.len() > 120, "{} came", came.len()),
        }
    }
}

/// A request to a crashed machine fails when its retries are exhausted; the crashed machine's own requests are dropped.
#[test]
fn a_crashed_machine_is_noticed() {
    let world = world(0.0);
    let mut pair = Pair::new(&world, QpKind::Rc, 64);
    world.crash(1);
    pair.post(&[write(&pair, 1, b"hello?"), write(&pair, 2, b"hello??")]);
    world.run_for(Ns::from_ms(20));
    let statuses: Vec<_> = pair.completions().iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::RetryExceeded, WcStatus::Flushed]);
    assert_eq!(pair.qp.state(), QpState::Error);
    let mut now = [0; 8];
    pair.there_mr.region().copy_out(0, &mut now);
    assert_eq!(now, [0; 8]);
}

/// In torn mode a long message is visible partially, never out of order, and completely once it has completed.
#[test]
fn torn_messages_grow_line_by_line() {
    let options = WorldOptions {
        torn: true,
        ..WorldOptions::new(Profile::named("apt").expect("a profile"))
    };
    let world = World::with_options(options, 2, 3);
    let mut pair = Pair::new(&world, QpKind::Rc, 64);
    pair.post(&[write(&pair, 1, &[0xff; 1024])]);
    let mut seen = Vec::new();
    for _ in 0..1000 {
        world.run_for(Ns(10));
        let mut now = [0; 1024];
        pair.there_mr.region().copy_out(0, &mut now);
        let there = now.iter().filter(|&&byte| byte != 0).count();
        assert!(now[..there].iter().all(|&byte| byte == 0xff), "a hole");
        if seen.last() != Some(&there) {
            seen.push(there);
        }
        let completed = !pair.completions().is_empty();
        assert!(!completed || there == 1024, "completed with {there} bytes");
    }
    assert!(seen.len() > 8 && seen.last() == Some(&1024), "{seen:?}");
}

/// Tearing happens between lines of memory: an aligned word is visible or not, wherever the message begins.
#[test]
fn torn_messages_split_no_words() {
    let options = WorldOptions {
        torn: true,
        ..WorldOptions::new(Profile::named("apt").expect("a profile"))
    };
    let world = World::with_options(options, 2, 3);
    let mut pair = Pair::new(&world, QpKind::Uc, 64);
    for (n, len) in (60..200usize).enumerate() {
        // The message ends at 1024, as a request ends with its slot.
        pair.post(&[write_at(&pair, n as u64, 1024 - len, &vec![n as u8 + 1; len])]);
        for _ in 0..150 {
            world.run_for(Ns(20));
            let word = pair
                .there_mr
                .region()
                .load_u64(1016, std::sync::atomic::Ordering::Acquire);
            assert_eq!(
                word,
                u64::from(word as u8) * 0x0101_0101_0101_0101,
                "a split word"
            );
        }
        pair.completions();
    }
}

/// A device may move to another thread but cannot open a context there.
#[test]
fn another_thread_is_told_where_the_world_is() {
    use drover_verbs::Device;
    let world = world(0.0);
    let device = world.device(0);
    let said = std::thread::spawn(move || device.context().err().map(|error| error.to_string()));
    let said = said.join().expect("no panic").expect("an error");
    assert!(said.contains("lives on another thread"), "{said}");
}

/// The poll of an empty queue finds nothing and costs its price.
#[test]
fn polls_are_charged() {
    let world = world(0.0);
    let mut pair = Pair::new(&world, QpKind::Rc, 64);
    let before = pair.here.cpu().local();
    assert_eq!(pair.cq.poll(pair.here.cpu(), &mut [Wc::default()]), 0);
    let price = Profile::named("apt")
        .expect("a profile")
        .parameters()
        .cpu
        .poll_empty_ns;
    assert_eq!((pair.here.cpu().local() - before).as_ns(), price);
}

/// A queue pair that goes gives back the slots of the shared receive queue that its messages took, although nobody polls
/// their completions any more.
#[test]
fn slots_of_a_shared_queue_come_back() {
    const DEPTH: usize = 8;
    let world = world(0.0);
    let (here, there) = (
        world.device(0).context().expect("this thread's world"),
        world.device(1).context().expect("this thread's world"),
    );
    let (cq, there_cq) = (
        here.create_cq(64).expect("a queue"),
        there.create_cq(64).expect("a queue"),
    );
    let mut srq = there.create_srq(DEPTH).expect("a queue");
    let region = there.alloc(4096, PageWish::Small).expect("memory");
    let mr = there.register(&region, Access::ALL).expect("registered");
    for _ in 0..2 {
        let mut recvs = RecvList::default();
        for id in 0..DEPTH as u64 {
            recvs.push(RecvWr {
                wr_id: WrId(id),
                sge: mr.sge(0, 64),
            });
        }
        srq.post_recv(there.cpu(), &recvs).expect("all slots are free");
        let mut qp = here
            .create_qp(&QpOptions::new(QpKind::Uc, &cq, here.caps()))
            .expect("a queue pair");
        let mut there_qp = there
            .create_qp(&QpOptions {
                srq: Some(&srq),
                ..QpOptions::new(QpKind::Uc, &there_cq, there.caps())
            })
            .expect("a queue pair");
        let exports = (
            qp.export().expect("an export"),
            there_qp.export().expect("an export"),
        );
        qp.connect(&exports.1).expect("connected");
        there_qp.connect(&exports.0).expect("connected");
        let mut list = SendList::default();
        for _ in 0..DEPTH {
            let payload = list.inline(b"message");
            let op = SendOp::Send {
                dest: None,
                imm: None,
            };
            list.push(SendWr::new(op, payload));
        }
        qp.post_send(here.cpu(), &list).expect("space");
        world.run_for(Ns::from_us(50));
        assert_eq!(
            world.report().machines[1].counters.out_of_buffer,
            0,
            "all took a RECV"
        );
    }
}
