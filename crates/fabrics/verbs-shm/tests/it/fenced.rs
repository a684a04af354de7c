//! A peer that is shut out, in a process of its own, which is stopped in the middle of a WRITE.

use crate::common::{connect, context, qp};
use drover_mem::{PageWish, Region};
use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::*;
use drover_verbs_shm::{ShmContext, ShmQp};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

/// Length of each WRITE.
const BYTES: usize = 1 << 20;
/// Most peers that are stopped until two of them were in the middle of a WRITE. Nearly all are.
const PEERS_MAX: usize = 60;

/// A child that WRITEs to our memory as fast as it can until it is refused, and our end of the connection.
struct Peer {
    child: Child,
    channel: Channel,
    ctx: ShmContext,
    memory: Region,
    qp: ShmQp,
}

impl Peer {
    /// Starts a child and waits for its first bytes.
    fn start(test: &str) -> Peer {
        let (child, mut channel) = spawn(&[test, "--exact"], "writer");
        let ctx = context();
        let cq = ctx.create_cq(16).expect("a queue");
        let memory = ctx.alloc(BYTES, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::REMOTE_WRITE).expect("registered");
        let mut qp = qp(&ctx, &cq, QpKind::Rc);
        channel.send(&mr.export(&[]).expect("an export")).expect("child");
        channel.send(&qp.export().expect("an export")).expect("child");
        qp.connect(&channel.receive().expect("child")).expect("connected");
        while memory.load_u64(BYTES - 8, std::sync::atomic::Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        Peer {
            child,
            channel,
            ctx,
            memory,
            qp,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// Stops the child, and waits until it runs no more.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        let is_stopped = || {
            let stat = std::fs::read_to_string(&stat).expect("proc");
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.memory.copy_out(0, &mut bytes);
        bytes
    }

    fn fence_until_done(&mut self) {
        while self.qp.fence() == Fenced::Pending {
            std::thread::yield_now();
        }
    }

    /// Lets the child go on until it has noticed that it is shut out, and checks that this changes nothing.
    fn check_that_nothing_lands(mut self) {
        let before = self.bytes();
        self.signal(Signal::CONT);
        assert_eq!(self.channel.receive_text().expect("child"), "refused");
        assert!(self.bytes() == before, "memory changed after the fence was done");
        self.child.wait().expect("the child ends");
        assert_eq!(self.qp.state(), QpState::Error);
        drop(self.ctx);
    }
}

#[test]
fn a_peer_stopped_inside_a_write_keeps_the_fence_pending() {
    const TEST: &str = "fenced::a_peer_stopped_inside_a_write_keeps_the_fence_pending";
    if role().is_some() {
        return writer(Channel::of_child());
    }
    let (mut continued, mut killed) = (0, 0);
    for _ in 0..PEERS_MAX {
        let mut peer = Peer::start(TEST);
        peer.stop();
        if peer.qp.fence() == Fenced::Done {
            // Stopped between two WRITEs.
            peer.check_that_nothing_lands();
            continue;
        }
        assert_eq!(peer.qp.fence(), Fenced::Pending, "it is still stopped");
        if continued == 0 {
            continued += 1;
            peer.signal(Signal::CONT);
            peer.fence_until_done();
            peer.check_that_nothing_lands();
        } else {
            killed += 1;
            peer.child.kill().expect("killed");
            peer.child.wait().expect("the child ends");
            peer.fence_until_done();
            break;
        }
    }
    assert_eq!((continued, killed), (1, 1), "no peer was stopped inside a WRITE");
}

/// WRITEs different bytes again and again, until it is refused. The many rounds are for an orphan.
fn writer(mut channel: Channel) {
    let ctx = context();
    let mut cq = ctx.create_cq(16).expect("a queue");
    let mut qp = qp(&ctx, &cq, QpKind::Rc);
    let Ok(region) = channel.receive() else { return };
    let remote = ctx.import_region(&region).expect("imported");
    qp.connect(&channel.receive().expect("parent"))
        .expect("connected");
    channel.send(&qp.export().expect("an export")).expect("parent");
    let memory = ctx.alloc(BYTES, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::LOCAL).expect("registered");
    let mut list = SendList::default();
    for round in 1..1_000_000u64 {
        memory.copy_in(0, &round.to_ne_bytes().repeat(BYTES / 8));
        list.clear();
        list.push(SendWr::write(remote.at(0), mr.sge(0, BYTES)).signaled(WrId(round)));
        qp.post_send(ctx.cpu(), &list).expect("posted");
        let mut wcs = [Wc::default(); 1];
        assert_eq!(cq.poll(ctx.cpu(), &mut wcs), 1);
        if wcs[0].status != WcStatus::Success {
            assert_eq!(wcs[0].status, WcStatus::RetryExceeded);
            return channel.send_text("refused").expect("parent");
        }
    }
}

#[test]
fn a_fence_is_done_at_once_when_no_request_is_under_way() {
    let ctx = context();
    let cq = ctx.create_cq(16).expect("a queue");
    for kind in [QpKind::Rc, QpKind::Uc, QpKind::Ud] {
        let mut never_connected = qp(&ctx, &cq, kind);
        assert_eq!(never_connected.fence(), Fenced::Done);
    }
    let (mut here, mut there) = (qp(&ctx, &cq, QpKind::Rc), qp(&ctx, &cq, QpKind::Rc));
    connect(&mut here, &mut there);
    assert_eq!((there.fence(), there.state()), (Fenced::Done, QpState::Error));
}
