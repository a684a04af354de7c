//! Posting and polling allocate nothing, whatever is posted. A process of its own: it counts every allocation in it.

mod stub;

use drover_mem::{CountingAlloc, PageWish};
use drover_verbs::*;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn post_and_poll_allocate_nothing() {
    let mut options = IbvOptions::default();
    options.library = Some(stub::idle_library());
    let device = IbvDevice::open(options).expect("a device");
    let ctx = device.context().expect("a context");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registered");
    let mut cq = ctx.create_cq(64).expect("a queue");
    let mut srq = ctx.create_srq(64).expect("a queue");
    let mut qp = ctx
        .create_qp(&QpOptions::<Ibv>::new(QpKind::Rc, &cq, ctx.caps()))
        .expect("a queue pair");
    qp.connect(&qp.export().expect("an export")).expect("connected");
    let remote = ctx
        .import_region(&mr.export(&[]).expect("an export"))
        .expect("imported");
    let (mut sends, mut recvs) = (SendList::with_capacity(64, 4096), RecvList::with_capacity(64));
    let mut wcs = [Wc::default(); 40];
    let mut round = || {
        sends.clear();
        recvs.clear();
        for n in 0..16 {
            let (wr_id, remote) = (WrId(n), remote.at(8 * n as usize));
            let payloads = [
                (SendOp::Write { remote, imm: None }, sends.inline(&[7; 32])),
                (SendOp::Read { remote }, Payload::Region(mr.sge(0, 64))),
                (
                    SendOp::Write {
                        remote,
                        imm: Some(Imm(9)),
                    },
                    sends.gather(&[mr.sge(0, 8), mr.sge(64, 8)]),
                ),
            ];
            for (op, payload) in payloads {
                sends.push(SendWr {
                    wr_id,
                    op,
                    payload,
                    signaled: n == 15,
                    fence: false,
                });
            }
            recvs.push(RecvWr {
                wr_id,
                sge: mr.sge(0, 64),
            });
        }
        qp.post_send(ctx.cpu(), &sends).expect("taken");
        qp.post_recv(ctx.cpu(), &recvs).expect("taken");
        srq.post_recv(ctx.cpu(), &recvs).expect("taken");
        assert_eq!(cq.poll(ctx.cpu(), &mut wcs), wcs.len());
    };
    round(); // the lists grow once
    let before = ALLOC.count();
    for _ in 0..1000 {
        round();
    }
    assert_eq!(ALLOC.count() - before, 0, "allocations in 1000 rounds");
}
