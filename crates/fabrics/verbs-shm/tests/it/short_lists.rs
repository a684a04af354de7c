//! Short lists against the ordinary lists of the same requests: the same requests are accepted, arrive and complete, whatever
//! is wrong with some of them.

use crate::common::{context, qp};
use drover_base::Rng;
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_shm::{ShmContext, ShmCq, ShmQp};

/// RECVs of each receiver, bytes of each, and bytes of the region that is written to.
const RECVS: usize = 12;
const RECV_BYTES: usize = 128;
const REGION_BYTES: usize = 4096;
/// Bytes that the requests of WRITEs are taken from.
const KEPT_BYTES: usize = 256;

/// What became of a list: the result of posting, and all completions, with the bytes that messages brought.
type Outcome = (
    Result<(), (usize, PostErrorKind)>,
    Vec<(WrId, WcStatus, Opcode, u32)>,
    Vec<Vec<u8>>,
);

fn outcome(
    ctx: &ShmContext,
    result: Result<(), PostError>,
    cqs: &mut [&mut ShmCq],
    bytes: impl Fn(&Wc) -> Vec<u8>,
) -> Outcome {
    let (mut completions, mut received) = (Vec::new(), Vec::new());
    let mut wcs = [Wc::default(); 64];
    for cq in cqs {
        let count = cq.poll(ctx.cpu(), &mut wcs);
        for wc in &wcs[..count] {
            let imm = wc.imm.map_or(0, |imm| imm.0);
            completions.push((wc.wr_id, wc.status, wc.opcode, imm));
            received.push(bytes(wc));
        }
    }
    (
        result.map_err(|error| (error.accepted, error.kind)),
        completions,
        received,
    )
}

struct Datagrams {
    ctx: ShmContext,
    send_cq: ShmCq,
    sender: ShmQp,
    receivers: Vec<(ShmCq, ShmQp)>,
    mr: <drover_verbs_shm::Shm as Provider>::Mr,
    dests: Vec<UdDest>,
}

impl Datagrams {
    fn new() -> Datagrams {
        let ctx = context();
        let send_cq = ctx.create_cq(64).expect("cq");
        let sender = ctx
            .create_qp(&QpOptions {
                send_depth: 10,
                ..QpOptions::new(QpKind::Ud, &send_cq, ctx.caps())
            })
            .expect("qp");
        let memory = ctx
            .alloc(2 * RECVS * RECV_BYTES, PageWish::Small)
            .expect("memory");
        let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
        let mut receivers = Vec::new();
        for nth in 0..2 {
            let cq = ctx.create_cq(64).expect("cq");
            let mut qp = qp(&ctx, &cq, QpKind::Ud);
            let mut recvs = RecvList::default();
            for piece in nth * RECVS..(nth + 1) * RECVS {
                let (wr_id, sge) = (WrId(piece as u64), mr.sge(piece * RECV_BYTES, RECV_BYTES));
                recvs.push(RecvWr { wr_id, sge });
            }
            qp.post_recv(ctx.cpu(), &recvs).expect("post");
            receivers.push((cq, qp));
        }
        let mut dests: Vec<UdDest> = receivers
            .iter()
            .map(|(_, qp)| ctx.create_ah(&qp.export().expect("export")).expect("handle"))
            .collect();
        let (first, second) = (dests[0], dests[1]);
        dests.push(UdDest {
            qpn: second.qpn,
            ..first
        });
        dests.push(UdDest { ah: 77, ..first });
        dests.push(UdDest {
            qkey: first.qkey ^ 1,
            ..first
        });
        Datagrams {
            ctx,
            send_cq,
            sender,
            receivers,
            mr,
            dests,
        }
    }

    fn post(&mut self, requests: &[(usize, usize, bool)], spread: bool) -> Outcome {
        let mut list = DatagramList::with_capacity(8, 512);
        for (nth, &(dest, len, signaled)) in requests.iter().enumerate() {
            list.push(&self.dests[dest], Imm(nth as u32), len)
                .fill(nth as u8 + 1);
            if signaled {
                list.sign(nth, WrId(100 + nth as u64));
            }
        }
        let result = match spread {
            true => self.sender.post_send(self.ctx.cpu(), list.spread()),
            false => self.sender.post_datagrams(self.ctx.cpu(), &mut list),
        };
        let [(one, _), (other, _)] = &mut self.receivers[..] else {
            unreachable!("two receivers")
        };
        let mr = &self.mr;
        outcome(&self.ctx, result, &mut [&mut self.send_cq, one, other], |wc| {
            let mut bytes = vec![0; (wc.byte_len as usize).saturating_sub(GRH_BYTES)];
            if wc.opcode == Opcode::Recv {
                let at = wc.wr_id.0 as usize * RECV_BYTES + GRH_BYTES;
                mr.region().copy_out(at, &mut bytes);
            }
            bytes
        })
    }
}

#[test]
fn short_datagrams_are_sent_as_ordinary_ones() {
    let seed = drover_testkit::seeds::fresh_seed();
    println!("seed {seed}");
    let mut rng = Rng::new(seed, 0, 0);
    for _ in 0..200 {
        let usual = rng.chance(0.5);
        let requests: Vec<_> = (0..rng.below(12))
            .map(|_| {
                let dest = if usual || rng.chance(0.7) {
                    0
                } else {
                    rng.below(5) as usize
                };
                let len = if rng.chance(0.1) {
                    60
                } else {
                    rng.below(41) as usize
                };
                (dest, len, rng.chance(0.2))
            })
            .collect();
        let (mut short, mut ordinary) = (Datagrams::new(), Datagrams::new());
        for _ in 0..2 {
            assert_eq!(
                short.post(&requests, false),
                ordinary.post(&requests, true),
                "{requests:?}"
            );
        }
    }
}

struct Writes {
    ctx: ShmContext,
    cq: ShmCq,
    qp: ShmQp,
    _peer: ShmQp,
    mr: <drover_verbs_shm::Shm as Provider>::Mr,
    rkeys: Vec<u32>,
}

impl Writes {
    fn new() -> Writes {
        let ctx = context();
        let cq = ctx.create_cq(64).expect("cq");
        let options = QpOptions {
            send_depth: 10,
            ..QpOptions::new(QpKind::Uc, &cq, ctx.caps())
        };
        let mut ends = [0; 2].map(|_| ctx.create_qp(&options).expect("qp"));
        let exports = [0, 1].map(|nth: usize| ends[nth].export().expect("export"));
        ends[0].connect(&exports[1]).expect("connect");
        ends[1].connect(&exports[0]).expect("connect");
        let memory = ctx.alloc(REGION_BYTES, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::ALL).expect("registration");
        let readable = ctx.alloc(REGION_BYTES, PageWish::Small).expect("memory");
        let readable = ctx
            .register(&readable, Access::REMOTE_READ)
            .expect("registration");
        let import = |mr: &<drover_verbs_shm::Shm as Provider>::Mr| {
            ctx.import_region(&mr.export(&[]).expect("export"))
                .expect("import")
                .rkey
        };
        let rkeys = vec![import(&mr), import(&readable), 99];
        let [qp, peer] = ends;
        Writes {
            ctx,
            cq,
            qp,
            _peer: peer,
            mr,
            rkeys,
        }
    }

    fn post(&mut self, requests: &[(usize, u64, usize, bool)], spread: bool) -> (Outcome, Vec<u8>) {
        let mut list = WriteList::with_kept(8, KEPT_BYTES);
        for (nth, byte) in list.kept_mut().iter_mut().enumerate() {
            *byte = nth as u8;
        }
        for (nth, &(rkey, offset, len, signaled)) in requests.iter().enumerate() {
            let rkey = self.rkeys[rkey];
            list.push(RemoteAddr { rkey, offset }, KEPT_BYTES - nth, len);
            if signaled {
                list.sign(nth, WrId(100 + nth as u64));
            }
        }
        let result = match spread {
            true => self.qp.post_send(self.ctx.cpu(), list.spread()),
            false => self.qp.post_writes(self.ctx.cpu(), &mut list),
        };
        let outcome = outcome(&self.ctx, result, &mut [&mut self.cq], |_| Vec::new());
        let mut bytes = vec![0; REGION_BYTES];
        self.mr.region().copy_out(0, &mut bytes);
        (outcome, bytes)
    }
}

#[test]
fn short_writes_are_executed_as_ordinary_ones() {
    let seed = drover_testkit::seeds::fresh_seed();
    println!("seed {seed}");
    let mut rng = Rng::new(seed, 0, 0);
    for _ in 0..200 {
        let usual = rng.chance(0.5);
        let requests: Vec<_> = (0..rng.below(12))
            .map(|_| {
                let odd = !usual && rng.chance(0.2);
                let rkey = if odd { rng.below(3) as usize } else { 0 };
                let offset = match odd && rng.chance(0.3) {
                    true => [REGION_BYTES as u64 - 3, u64::MAX, u64::MAX - 7][rng.below(3) as usize],
                    false => rng.below(3000),
                };
                let offset = if rng.chance(0.5) { offset & !7 } else { offset };
                let len = match rng.chance(0.5) {
                    true => 8 * rng.below(17) as usize,
                    false => rng.below(130) as usize,
                };
                (rkey, offset, len, rng.chance(0.2))
            })
            .collect();
        let (mut short, mut ordinary) = (Writes::new(), Writes::new());
        for _ in 0..2 {
            assert_eq!(
                short.post(&requests, false),
                ordinary.post(&requests, true),
                "{requests:?}"
            );
        }
    }
}

/// A list that was found good once must not be believed when its memory is gone, or another context's.
#[test]
fn a_sealed_list_of_recvs_is_checked_again_where_it_matters() {
    let (one, other) = (context(), context());
    let mut qps = [&one, &other].map(|ctx| {
        let cq = ctx.create_cq(64).expect("cq");
        (qp(ctx, &cq, QpKind::Ud), cq)
    });
    let memory = one.alloc(4096, PageWish::Small).expect("memory");
    let mr = one.register(&memory, Access::LOCAL).expect("registration");
    let mut recvs = RecvList::default();
    let (wr_id, sge) = (WrId(1), mr.sge(0, 100));
    recvs.push(RecvWr { wr_id, sge });
    let bad = Err(PostErrorKind::LocalProtection);
    let kind = |result: Result<(), PostError>| result.map_err(|error| error.kind);
    assert_eq!(kind(qps[0].0.post_recv(one.cpu(), &recvs)), Ok(()));
    assert_eq!(
        kind(qps[1].0.post_recv(other.cpu(), &recvs)),
        bad,
        "another context"
    );
    assert_eq!(kind(qps[0].0.post_recv(one.cpu(), &recvs)), Ok(()));
    recvs.push(RecvWr {
        wr_id,
        sge: Sge { len: 5000, ..sge },
    });
    assert_eq!(kind(qps[0].0.post_recv(one.cpu(), &recvs)), bad, "one was added");
    recvs.clear();
    recvs.push(RecvWr { wr_id, sge });
    assert_eq!(kind(qps[0].0.post_recv(one.cpu(), &recvs)), Ok(()));
    drop(mr);
    assert_eq!(
        kind(qps[0].0.post_recv(one.cpu(), &recvs)),
        bad,
        "the memory is gone"
    );
}

/// RECVs were good when they were posted. After a deregistration they are looked at again: no message is written to memory
/// that is gone, and all others arrive.
#[test]
fn posted_recvs_are_checked_again_after_a_deregistration() {
    let ctx = context();
    let cq = ctx.create_cq(64).expect("cq");
    let (mut receiver, mut sender) = (qp(&ctx, &cq, QpKind::Ud), qp(&ctx, &cq, QpKind::Ud));
    let dest = ctx
        .create_ah(&receiver.export().expect("export"))
        .expect("handle");
    let regions = [0; 3].map(|_| ctx.alloc(4096, PageWish::Small).expect("memory"));
    let [kept, gone, unused] = regions
        .each_ref()
        .map(|region| ctx.register(region, Access::LOCAL).expect("registration"));
    let mut recvs = RecvList::default();
    for (number, mr) in [(0, &kept), (1, &kept), (2, &gone)] {
        let sge = mr.sge(number * RECV_BYTES, RECV_BYTES);
        recvs.push(RecvWr {
            wr_id: WrId(number as u64),
            sge,
        });
    }
    receiver.post_recv(ctx.cpu(), &recvs).expect("post");
    let mut receive = |cq: &mut ShmCq| {
        let mut list = DatagramList::with_capacity(1, 64);
        list.push(&dest, Imm(5), 8).fill(7);
        sender.post_datagrams(ctx.cpu(), &mut list).expect("post");
        let mut wcs = [Wc::default(); 4];
        let count = cq.poll(ctx.cpu(), &mut wcs);
        wcs[..count]
            .iter()
            .map(|wc| (wc.wr_id, wc.status))
            .collect::<Vec<_>>()
    };
    let mut cq = cq;
    drop(unused);
    assert_eq!(receive(&mut cq), [(WrId(0), WcStatus::Success)]);
    drop(gone);
    assert_eq!(receive(&mut cq), [(WrId(1), WcStatus::Success)]);
    assert_eq!(receive(&mut cq), [(WrId(2), WcStatus::LocalProtection)]);
    let mut bytes = [1; 4096];
    regions[1].copy_out(0, &mut bytes);
    assert_eq!(bytes, [0; 4096], "nothing was written");
}
