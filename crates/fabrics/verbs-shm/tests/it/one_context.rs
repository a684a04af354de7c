//! The verbs, within one context.

use drover_base::Cpu;
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmCq, ShmDevice, ShmOptions, ShmQp};
use std::sync::atomic::Ordering;

fn context() -> ShmContext {
    ShmDevice::default().context().expect("context")
}

fn pair(ctx: &ShmContext, cq: &ShmCq, kind: QpKind) -> (ShmQp, ShmQp) {
    let options = QpOptions::<Shm>::new(kind, cq, ctx.caps());
    let mut a = ctx.create_qp(&options).expect("qp");
    let mut b = ctx.create_qp(&options).expect("qp");
    if kind != QpKind::Ud {
        a.connect(&b.export().expect("export")).expect("connect");
        b.connect(&a.export().expect("export")).expect("connect");
    }
    (a, b)
}

fn wr(op: SendOp, payload: Payload) -> SendWr {
    SendWr::new(op, payload).signaled(WrId(7))
}

fn poll_one(ctx: &ShmContext, cq: &mut ShmCq) -> Option<Wc> {
    let mut wcs = [Wc::default(); 1];
    (cq.poll(ctx.cpu(), &mut wcs) == 1).then_some(wcs[0])
}

/// Servers draw secrets from the streams of several contexts of a device.
#[test]
fn contexts_of_a_device_draw_different_numbers_and_a_seed_repeats_them() {
    let draw = || {
        let mut options = ShmOptions::default();
        options.seed = 7;
        let device = ShmDevice::open(options);
        [(); 3].map(|()| device.context().expect("context").cpu().random())
    };
    let [a, b, c] = draw();
    assert!(a != b && b != c && c != a);
    assert_eq!(draw(), [a, b, c]);
}

#[test]
fn datagrams_arrive_behind_the_gap_and_without_a_recv_are_lost() {
    let ctx = context();
    let mut cq = ctx.create_cq(16).expect("cq");
    let (mut a, mut b) = pair(&ctx, &cq, QpKind::Ud);
    let dest = ctx.create_ah(&b.export().expect("export")).expect("handle");
    let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
    let mut list = SendList::default();
    let op = SendOp::Send {
        dest: Some(dest),
        imm: Some(Imm(9)),
    };
    for text in ["lost", "kept"] {
        list.clear();
        let payload = list.inline(text.as_bytes());
        list.push(SendWr {
            signaled: false,
            ..wr(op, payload)
        });
        a.post_send(ctx.cpu(), &list).expect("post");
        let mut recvs = RecvList::default();
        recvs.push(RecvWr {
            wr_id: WrId(3),
            sge: mr.sge(64, 1000),
        });
        if text == "lost" {
            b.post_recv(ctx.cpu(), &recvs).expect("post");
            assert_eq!(poll_one(&ctx, &mut cq), None);
        }
    }
    let wc = poll_one(&ctx, &mut cq).expect("a datagram");
    assert_eq!(
        (wc.wr_id, wc.status, wc.byte_len, wc.imm),
        (WrId(3), WcStatus::Success, 44, Some(Imm(9)))
    );
    assert_eq!((wc.qpn, wc.src_qpn), (b.qpn(), a.qpn()));
    let mut text = [0; 4];
    memory.copy_out(64 + 40, &mut text);
    assert_eq!(&text, b"kept");
    assert_eq!(ctx.stats().dropped_no_recv, 1);
}

#[test]
fn one_sided_verbs_of_a_reliable_connection() {
    let ctx = context();
    let mut cq = ctx.create_cq(16).expect("cq");
    let (mut a, _b) = pair(&ctx, &cq, QpKind::Rc);
    let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registration");
    let remote = ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let mut list = SendList::default();
    let payload = list.inline(&5u64.to_ne_bytes());
    list.push(wr(
        SendOp::Write {
            remote: remote.at(128),
            imm: None,
        },
        payload,
    ));
    list.push(wr(
        SendOp::FetchAdd {
            remote: remote.at(128),
            add: 2,
        },
        Payload::Region(mr.sge(0, 8)),
    ));
    let swap = SendOp::CompareSwap {
        remote: remote.at(128),
        compare: 7,
        swap: 70,
    };
    list.push(wr(swap, Payload::Region(mr.sge(8, 8))));
    list.push(wr(
        SendOp::Read {
            remote: remote.at(128),
        },
        Payload::Region(mr.sge(16, 8)),
    ));
    a.post_send(ctx.cpu(), &list).expect("post");
    let codes: Vec<_> = std::iter::from_fn(|| poll_one(&ctx, &mut cq))
        .map(|wc| (wc.opcode, wc.status))
        .collect();
    let ok = WcStatus::Success;
    assert_eq!(
        codes,
        [
            (Opcode::Write, ok),
            (Opcode::FetchAdd, ok),
            (Opcode::CompareSwap, ok),
            (Opcode::Read, ok)
        ]
    );
    let word = |at| memory.load_u64(at, Ordering::Relaxed);
    assert_eq!([word(0), word(8), word(16), word(128)], [5, 7, 70, 70]);
}

#[test]
fn a_send_waits_for_its_recv_and_later_requests_wait_behind_it() {
    let ctx = context();
    let mut cq = ctx.create_cq(16).expect("cq");
    let (mut a, mut b) = pair(&ctx, &cq, QpKind::Rc);
    let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registration");
    let remote = ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let mut list = SendList::default();
    let big: Vec<u8> = (0..900u32).map(|i| i as u8).collect();
    let payload = list.inline(&big);
    list.push(wr(
        SendOp::Send {
            dest: None,
            imm: None,
        },
        payload,
    ));
    let payload = list.inline(&1u64.to_ne_bytes());
    list.push(wr(
        SendOp::Write {
            remote: remote.at(0),
            imm: Some(Imm(4)),
        },
        payload,
    ));
    a.post_send(ctx.cpu(), &list).expect("post");
    assert_eq!(poll_one(&ctx, &mut cq), None);
    assert_eq!(memory.load_u64(0, Ordering::Relaxed), 0);
    let mut recvs = RecvList::default();
    recvs.push(RecvWr {
        wr_id: WrId(1),
        sge: mr.sge(1024, 1024),
    });
    recvs.push(RecvWr {
        wr_id: WrId(2),
        sge: mr.sge(2048, 0),
    });
    b.post_recv(ctx.cpu(), &recvs).expect("post");
    let mut seen: Vec<_> = std::iter::from_fn(|| poll_one(&ctx, &mut cq))
        .map(|wc| (wc.opcode, wc.byte_len))
        .collect();
    seen.sort_by_key(|(opcode, _)| *opcode as u8);
    assert_eq!(
        seen,
        [
            (Opcode::Send, 0),
            (Opcode::Write, 8),
            (Opcode::Recv, 900),
            (Opcode::RecvWriteImm, 8)
        ]
    );
    let mut out = vec![0; 900];
    memory.copy_out(1024, &mut out);
    assert_eq!(out, big);
}

/// The capability equals the limit of the smallest queue pair.
#[test]
fn the_longest_send_is_as_long_as_the_capabilities_say() {
    let ctx = context();
    let mut cq = ctx.create_cq(16).expect("cq");
    let longest = ctx.caps().send_bytes_max;
    let smallest = QpOptions {
        recv_depth: 1,
        ..QpOptions::<Shm>::new(QpKind::Rc, &cq, ctx.caps())
    };
    let mut a = ctx.create_qp(&smallest).expect("qp");
    let mut b = ctx.create_qp(&smallest).expect("qp");
    a.connect(&b.export().expect("export")).expect("connect");
    b.connect(&a.export().expect("export")).expect("connect");
    let memory = ctx.alloc(4 * longest, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
    memory.copy_in(longest - 1, b"!");
    let mut recvs = RecvList::default();
    recvs.push(RecvWr {
        wr_id: WrId(1),
        sge: mr.sge(2 * longest, longest),
    });
    b.post_recv(ctx.cpu(), &recvs).expect("post");
    let op = SendOp::Send {
        dest: None,
        imm: None,
    };
    let mut send = |len| {
        let mut list = SendList::default();
        list.push(wr(op, Payload::Region(mr.sge(0, len))));
        a.post_send(ctx.cpu(), &list).map_err(|error| error.kind)
    };
    assert_eq!(send(longest + 1), Err(PostErrorKind::MessageTooLong));
    assert_eq!(send(longest), Ok(()));
    let arrived = std::iter::repeat_with(|| poll_one(&ctx, &mut cq))
        .take(10)
        .flatten();
    let arrived: Vec<Wc> = arrived.filter(|wc| wc.opcode == Opcode::Recv).collect();
    assert_eq!(arrived.len(), 1);
    assert_eq!(
        (arrived[0].status, arrived[0].byte_len as usize),
        (WcStatus::Success, longest)
    );
    let mut last = [0];
    memory.copy_out(3 * longest - 1, &mut last);
    assert_eq!(&last, b"!");
}
