//! Each fault has exactly the effect of its name, and the same effect for the same seed.
#![allow(missing_docs, reason = "test names say it")]

use drover_base::{Cpu, Ns};
use drover_mem::{PageWish, Region};
use drover_verbs::*;
use drover_verbs_suite::faulty::{
    FaultCounts, FaultOptions, Faulty, FaultyContext, FaultyCq, FaultyDevice, FaultyMr, FaultyQp,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};

type P = Faulty<Loopback>;
const BYTES: usize = 8192;

/// A faulty sender and a receiver, connected.
struct Pair {
    device: FaultyDevice<Loopback>,
    here: FaultyContext<Loopback>,
    cq: FaultyCq<Loopback>,
    qp: FaultyQp<Loopback>,
    dest: Option<UdDest>,
    there: FaultyContext<Loopback>,
    there_cq: FaultyCq<Loopback>,
    there_qp: FaultyQp<Loopback>,
    target: Region,
    target_mr: FaultyMr<Loopback>,
    remote: RemoteRegion,
}

impl Pair {
    fn new(kind: QpKind, options: FaultOptions) -> Pair {
        let device: FaultyDevice<Loopback> = FaultyDevice::new(LoopbackDevice::new(), options);
        let (here, there) = (
            device.context().expect("context"),
            device.context().expect("context"),
        );
        let (cq, there_cq) = (
            here.create_cq(256).expect("cq"),
            there.create_cq(256).expect("cq"),
        );
        let mut qp = here
            .create_qp(&QpOptions::<P>::new(kind, &cq, here.caps()))
            .expect("qp");
        let mut there_qp = there
            .create_qp(&QpOptions::<P>::new(kind, &there_cq, there.caps()))
            .expect("qp");
        let dest = match kind {
            QpKind::Ud => Some(
                here.create_ah(&there_qp.export().expect("export"))
                    .expect("address"),
            ),
            QpKind::Rc | QpKind::Uc => {
                qp.connect(&there_qp.export().expect("export")).expect("connect");
                there_qp.connect(&qp.export().expect("export")).expect("connect");
                None
            }
        };
        let target = there.alloc(BYTES, PageWish::Small).expect("memory");
        let target_mr = there.register(&target, Access::ALL).expect("register");
        let remote = here
            .import_region(&target_mr.export(&[]).expect("export"))
            .expect("import");
        Pair {
            device,
            here,
            cq,
            qp,
            dest,
            there,
            there_cq,
            there_qp,
            target,
            target_mr,
            remote,
        }
    }

    /// Posts one signaled request with an inline payload.
    fn post(&mut self, id: u64, op: SendOp, bytes: &[u8]) {
        let mut list = SendList::default();
        let payload = list.inline(bytes);
        list.push(SendWr::new(op, payload).signaled(WrId(id)));
        self.qp.post_send(self.here.cpu(), &list).expect("post");
    }

    fn write(&mut self, id: u64, offset: usize, bytes: &[u8]) {
        let remote = self.remote.at(offset);
        self.post(id, SendOp::Write { remote, imm: None }, bytes);
    }

    fn send(&mut self, id: u64, bytes: &[u8]) {
        let dest = self.dest;
        self.post(id, SendOp::Send { dest, imm: None }, bytes);
    }

    fn recv(&mut self, id: u64, offset: usize) {
        let mut list = RecvList::default();
        list.push(RecvWr {
            wr_id: WrId(id),
            sge: self.target_mr.sge(offset, 128),
        });
        self.there_qp.post_recv(self.there.cpu(), &list).expect("post");
    }

    /// Polls all completions.
    fn poll(&mut self) -> Vec<Wc> {
        self.here.cpu().refresh();
        poll_all(&mut self.cq, &self.here)
    }

    fn received(&mut self) -> Vec<Wc> {
        poll_all(&mut self.there_cq, &self.there)
    }

    fn word(&self, offset: usize) -> u64 {
        self.target.load_u64(offset, std::sync::atomic::Ordering::Acquire)
    }

    fn counts(&self) -> FaultCounts {
        self.device.counts()
    }
}

fn poll_all(cq: &mut FaultyCq<Loopback>, ctx: &FaultyContext<Loopback>) -> Vec<Wc> {
    let mut all = Vec::new();
    let mut wcs = [Wc::default(); 4];
    loop {
        let count = cq.poll(ctx.cpu(), &mut wcs);
        all.extend_from_slice(&wcs[..count]);
        if count == 0 {
            return all;
        }
    }
}

fn only(set: impl Fn(&mut FaultOptions)) -> FaultOptions {
    let mut options = FaultOptions::quiet(7);
    set(&mut options);
    options
}

#[test]
fn a_dropped_write_completes_and_never_lands() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| o.drop = 1.0));
    pair.write(5, 0, &9u64.to_ne_bytes());
    let wcs = pair.poll();
    assert_eq!(
        (wcs.len(), wcs[0].wr_id, wcs[0].status, wcs[0].opcode),
        (1, WrId(5), WcStatus::Success, Opcode::Write)
    );
    (0..200).for_each(|_| assert!(pair.poll().is_empty()));
    assert_eq!(pair.word(0), 0);
    assert_eq!(pair.counts().dropped, 1);
    assert_eq!(pair.counts().total(), 1);
}

#[test]
fn a_dropped_datagram_takes_no_recv() {
    let mut pair = Pair::new(QpKind::Ud, only(|o| o.drop = 1.0));
    pair.recv(1, 0);
    pair.send(5, b"lost");
    assert_eq!(pair.poll().len(), 1);
    assert!(pair.received().is_empty());
    pair.device.set_active(false);
    pair.send(6, b"kept");
    assert_eq!(pair.received().len(), 1);
}

#[test]
fn a_dropped_uc_send_completes_as_a_send() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| o.drop = 1.0));
    pair.recv(1, 0);
    pair.send(5, b"lost");
    let wcs = pair.poll();
    assert_eq!(
        (wcs.len(), wcs[0].opcode, wcs[0].status),
        (1, Opcode::Send, WcStatus::Success)
    );
    assert!(pair.received().is_empty());
}

#[test]
fn a_delayed_write_lands_later_with_the_bytes_of_its_posting() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| (o.delay, o.late_polls_max) = (1.0, 40)));
    let source = pair.here.alloc(4096, PageWish::Small).expect("memory");
    let mr = pair.here.register(&source, Access::LOCAL_READ).expect("register");
    source.copy_in(0, &1u64.to_ne_bytes());
    let mut list = SendList::default();
    let (remote, payload) = (pair.remote.at(0), Payload::Region(mr.sge(0, 8)));
    list.push(SendWr::write(remote, payload).signaled(WrId(5)));
    pair.qp.post_send(pair.here.cpu(), &list).expect("post");
    source.copy_in(0, &2u64.to_ne_bytes());
    let mut completions = 0;
    let mut waited = 0;
    while pair.word(0) == 0 {
        completions += pair.poll().len();
        waited += 1;
        assert!(waited <= 60, "it never landed");
    }
    assert!(waited > 1, "it was not late");
    assert_eq!((pair.word(0), completions + pair.poll().len()), (1, 1));
}

#[test]
fn a_delay_in_time_waits_for_the_clock() {
    let late_max = Ns::from_ms(10);
    let mut pair = Pair::new(
        QpKind::Uc,
        only(|o| (o.delay, o.late_polls_max, o.late_max) = (1.0, 1, late_max)),
    );
    for n in 0..8 {
        pair.write(n, 8 * n as usize, &1u64.to_ne_bytes());
    }
    let landed = |pair: &Pair| (0..8).filter(|n| pair.word(8 * n) == 1).count();
    (0..20).for_each(|_| drop(pair.poll()));
    assert!(landed(&pair) < 8, "nothing waited for the clock");
    pair.device.inner().advance(late_max);
    (0..3).for_each(|_| drop(pair.poll()));
    assert_eq!(landed(&pair), 8);
}

#[test]
fn reordered_writes_swap_places() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| o.reorder = 1.0));
    pair.write(1, 0, &1u64.to_ne_bytes());
    pair.device.set_active(false);
    pair.write(2, 0, &2u64.to_ne_bytes());
    assert_eq!(pair.word(0), 2);
    (0..3).for_each(|_| drop(pair.poll()));
    assert_eq!(
        pair.word(0),
        1,
        "the first WRITE should have landed after the second"
    );
}

#[test]
fn a_duplicated_write_lands_again_over_what_came_since() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| (o.duplicate, o.late_polls_max) = (1.0, 8)));
    pair.write(1, 0, &1u64.to_ne_bytes());
    assert_eq!(pair.word(0), 1);
    pair.target.copy_in(0, &7u64.to_ne_bytes());
    (0..12).for_each(|_| drop(pair.poll()));
    assert_eq!(pair.word(0), 1, "it did not land again");
}

#[test]
fn a_duplicated_datagram_takes_two_recvs() {
    let mut pair = Pair::new(QpKind::Ud, only(|o| (o.duplicate, o.late_polls_max) = (1.0, 8)));
    pair.recv(1, 0);
    pair.recv(2, 128);
    pair.send(5, b"twice");
    let sent: usize = (0..12).map(|_| pair.poll().len()).sum();
    assert_eq!((sent, pair.received().len()), (1, 2));
}

#[test]
fn a_torn_write_shows_its_last_word_before_its_first_sometimes() {
    let mut commit_first = 0;
    let mut states = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let options = FaultOptions {
            tear: 1.0,
            late_polls_max: 6,
            ..FaultOptions::quiet(seed)
        };
        let mut pair = Pair::new(QpKind::Uc, options);
        assert!(!pair.here.caps().writes.ordered);
        pair.write(1, 0, &[0xff; 192]);
        for _ in 0..12 {
            pair.poll();
            let lines = [0, 64, 128].map(|at| pair.word(at) != 0);
            let torn_inside = [0, 64, 128]
                .iter()
                .any(|&at| (pair.word(at) != 0) != (pair.word(at + 56) != 0));
            assert!(!torn_inside, "a line of a long WRITE was torn");
            commit_first += usize::from(lines[2] && !lines[0]);
            states.insert(lines);
        }
        assert_eq!(
            [0, 64, 128].map(|at| pair.word(at)),
            [u64::MAX; 3],
            "not all of it landed"
        );
    }
    assert!(commit_first > 0, "the last line never came first");
    assert!(states.len() >= 6, "only these states were seen: {states:?}");
}

#[test]
fn rc_suffers_only_broken_connections() {
    let mut pair = Pair::new(QpKind::Rc, FaultOptions::all(3, 1.0));
    for n in 0..50 {
        pair.write(n, 0, &n.to_ne_bytes());
        assert_eq!(pair.word(0), n);
    }
    assert_eq!(pair.counts().total(), 0);

    let (mut before, mut after) = (0, 0);
    for seed in 0..20 {
        let mut pair = Pair::new(
            QpKind::Rc,
            FaultOptions {
                rc_break: 1.0,
                ..FaultOptions::quiet(seed)
            },
        );
        pair.write(1, 0, &1u64.to_ne_bytes());
        assert_eq!(pair.qp.state(), QpState::Error);
        match pair.word(0) {
            0 => before += 1,
            _ => after += 1,
        }
    }
    assert!(before > 2 && after > 2, "{before} broke before, {after} after");
}

#[test]
fn a_destroyed_queue_pair_delivers_nothing_late() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| o.delay = 1.0));
    pair.write(1, 0, &1u64.to_ne_bytes());
    let Pair {
        here,
        mut cq,
        qp,
        target,
        ..
    } = pair;
    drop(qp);
    (0..100).for_each(|_| drop(poll_all(&mut cq, &here)));
    assert_eq!(target.load_u64(0, std::sync::atomic::Ordering::Acquire), 0);
}

#[test]
fn a_parked_context_still_delivers_what_is_late() {
    let mut pair = Pair::new(QpKind::Uc, only(|o| (o.delay, o.late_polls_max) = (1.0, 4)));
    pair.write(1, 0, &1u64.to_ne_bytes());
    for _ in 0..8 {
        pair.here.arm();
        pair.here.park(Ns::MAX);
    }
    assert_eq!(pair.word(0), 1);
}

/// Results of a run of mixed traffic.
fn outcome(seed: u64) -> (Vec<u8>, Vec<(u64, Opcode)>, FaultCounts) {
    let mut pair = Pair::new(QpKind::Uc, FaultOptions::all(seed, 0.2));
    let mut completions = Vec::new();
    for n in 0..400u64 {
        pair.write(n, (n as usize * 24) % (BYTES - 256), &[n as u8; 100]);
        completions.extend(pair.poll().iter().map(|wc| (wc.wr_id.0, wc.opcode)));
    }
    (0..200).for_each(|_| completions.extend(pair.poll().iter().map(|wc| (wc.wr_id.0, wc.opcode))));
    let mut bytes = vec![0; BYTES];
    pair.target.copy_out(0, &mut bytes);
    (bytes, completions, pair.counts())
}

#[test]
fn the_seed_decides_everything() {
    let (bytes, completions, counts) = outcome(11);
    assert_eq!(outcome(11), (bytes.clone(), completions.clone(), counts));
    assert!(
        completions.iter().map(|(id, _)| *id).eq(0..400),
        "each request completes once and in order"
    );
    assert_ne!(outcome(12).0, bytes);
    for count in [
        counts.dropped,
        counts.torn,
        counts.delayed,
        counts.reordered,
        counts.duplicated,
    ] {
        assert!(count > 20, "a fate that hardly struck: {counts:?}");
    }
}
