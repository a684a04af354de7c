//! Hostile peers: false exports, shared memory contents and rights. There are no panics, and other peers are
//! unaffected.

use crate::common::{context, post_send, qp};
use drover_base::Cpu as _;
use drover_mem::{PageWish, Region};
use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmDevice, ShmOptions, ShmQp};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn post_recv(ctx: &ShmContext, qp: &mut ShmQp, mr: &<Shm as Provider>::Mr) {
    let mut recvs = RecvList::default();
    recvs.push(RecvWr {
        wr_id: WrId(5),
        sge: mr.sge(0, 4096),
    });
    qp.post_recv(ctx.cpu(), &recvs).expect("post");
}

/// Offset of the access byte in a region's export.
const ACCESS_AT: usize = 15;

/// A child claims rights that it was not granted: the kernel refuses the mapping.
#[test]
fn a_read_only_region_cannot_be_mapped_for_writing() {
    if role().is_some() {
        return intruder(Channel::of_child());
    }
    let ctx = context();
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    memory.store_u64(8, 42, Ordering::Release);
    let mr = ctx.register(&memory, Access::REMOTE_READ).expect("registration");
    let name = "hostile::a_read_only_region_cannot_be_mapped_for_writing";
    let (mut child, mut channel) = spawn(&[name, "--exact"], "intruder");
    channel.send(&mr.export(&[]).expect("export")).expect("child");
    assert_eq!(
        channel.receive_text().expect("child"),
        "refused; read 42; write RemoteAccess"
    );
    assert_eq!(memory.load_u64(8, Ordering::Acquire), 42);
    child.wait().expect("child");
}

fn intruder(mut channel: Channel) {
    let ctx = context();
    let export = channel.receive().expect("parent");
    let mut forged = export.clone();
    forged.bytes[ACCESS_AT] = 15;
    let mapped = match ctx.import_region(&forged) {
        Err(_) => "refused",
        Ok(_) => "mapped",
    };
    let raw = Region::from_fd(export.fds[0].try_clone().expect("dup"), 4096, true);
    assert!(raw.is_err(), "mapped by hand");
    let remote = ctx.import_region(&export).expect("import");
    let mut cq = ctx.create_cq(8).expect("cq");
    let (mut a, mut b) = (qp(&ctx, &cq, QpKind::Rc), qp(&ctx, &cq, QpKind::Rc));
    a.connect(&b.export().expect("export")).expect("connect");
    b.connect(&a.export().expect("export")).expect("connect");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
    let mut list = SendList::default();
    list.push(SendWr::read(remote.at(8), mr.sge(0, 8)).signaled(WrId(1)));
    a.post_send(ctx.cpu(), &list).expect("post");
    post_send(
        &ctx,
        &mut a,
        SendOp::Write {
            remote: remote.at(8),
            imm: None,
        },
        &[1; 8],
    )
    .expect("post");
    let mut wcs = [Wc::default(); 4];
    assert_eq!(cq.poll(ctx.cpu(), &mut wcs), 2);
    let word = memory.load_u64(0, Ordering::Relaxed);
    channel
        .send_text(&format!("{mapped}; read {word}; write {:?}", wcs[1].status))
        .expect("parent");
}

#[test]
fn exports_that_lie_about_sizes_are_refused() {
    let ctx = context();
    let cq = ctx.create_cq(8).expect("cq");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registration");
    let export = mr.export(&[]).expect("export");
    let mut larger = export.clone();
    larger.bytes[7..15].copy_from_slice(&(1u64 << 30).to_le_bytes());
    assert!(matches!(ctx.import_region(&larger), Err(ImportError::Alloc(_))));
    let without = Export {
        fds: Vec::new(),
        ..export.clone()
    };
    assert!(ctx.import_region(&without).is_err());
    let (reader, _writer) = std::io::pipe().expect("pipe");
    let pipe = Export {
        fds: vec![Arc::new(reader.into())],
        ..export
    };
    assert!(ctx.import_region(&pipe).is_err());
    let ud = qp(&ctx, &cq, QpKind::Ud);
    let export = ud.export().expect("export");
    for shift in 0..=255 {
        let mut other = export.clone();
        other.bytes[16] = shift;
        let is_smaller = shift >= 2 && shift < export.bytes[16];
        let made = ctx.create_ah(&other);
        assert!(
            made.is_err() || is_smaller || shift == export.bytes[16],
            "a ring of 2^{shift} lines"
        );
        if let Ok(dest) = made {
            ctx.destroy_ah(&dest);
            break;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A sender overwrites its whole lane; another sender to the same queue pair is served throughout.
    #[test]
    fn a_scribbling_sender_harms_only_itself(
        steps in proptest::collection::vec((0usize..300, any::<u64>(), any::<bool>()), 1..60),
    ) {
        let ctx = context();
        let mut cq = ctx.create_cq(64).expect("cq");
        let mut receiver = qp(&ctx, &cq, QpKind::Ud);
        let mut honest = qp(&ctx, &cq, QpKind::Ud);
        let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
        let hostile = receiver.export().expect("export");
        let size = std::fs::File::from(hostile.fds[0].try_clone().expect("dup")).metadata().expect("stat").len();
        let lane = Region::from_fd(hostile.fds[0].try_clone().expect("dup"), size as usize, true).expect("map");
        let dest = ctx.create_ah(&receiver.export().expect("export")).expect("handle");
        let mut wcs = [Wc::default(); 16];
        for (round, (word, value, as_tag)) in steps.into_iter().enumerate() {
            post_recv(&ctx, &mut receiver, &mr);
            let value = if as_tag { value << 32 | 1 } else { value };
            lane.store_u64(word * 8, value, Ordering::Release);
            let op = SendOp::Send { dest: Some(dest), imm: Some(Imm(round as u32)) };
            let mut served = false;
            // A forged message may take the RECV: the honest one is then lost, as datagrams may be.
            for _ in 0..4 {
                post_send(&ctx, &mut honest, op, b"honest").expect("post");
                let n = cq.poll(ctx.cpu(), &mut wcs);
                served |= wcs[..n].iter().any(|wc| wc.opcode == Opcode::Recv && wc.src_qpn == honest.qpn());
                if served {
                    break;
                }
                post_recv(&ctx, &mut receiver, &mr);
            }
            prop_assert!(served, "round {round}");
            while cq.poll(ctx.cpu(), &mut wcs) > 0 {}
        }
    }

    /// The receiver of a reliable connection overwrites the lane that we send through.
    #[test]
    fn a_scribbling_receiver_harms_only_itself(
        steps in proptest::collection::vec((0usize..300, any::<u64>()), 1..60),
    ) {
        let ctx = context();
        let mut cq = ctx.create_cq(64).expect("cq");
        let (mut a, mut b) = (qp(&ctx, &cq, QpKind::Rc), qp(&ctx, &cq, QpKind::Rc));
        let export = b.export().expect("export");
        let size = std::fs::File::from(export.fds[0].try_clone().expect("dup")).metadata().expect("stat").len();
        let lane = Region::from_fd(export.fds[0].try_clone().expect("dup"), size as usize, true).expect("map");
        a.connect(&export).expect("connect");
        b.connect(&a.export().expect("export")).expect("connect");
        let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
        let mut wcs = [Wc::default(); 64];
        for (word, value) in steps {
            let _ = post_send(&ctx, &mut a, SendOp::Send { dest: None, imm: None }, b"to a liar");
            lane.store_u64(word * 8, value, Ordering::Release);
            let mut recvs = RecvList::default();
            recvs.push(RecvWr { wr_id: WrId(5), sge: mr.sge(0, 64) });
            let _ = b.post_recv(ctx.cpu(), &recvs);
            cq.poll(ctx.cpu(), &mut wcs);
        }
    }
}

/// Where the ring of a lane without RECVs begins.
const RING_AT: usize = 32 * 8;

/// A child writes every number that a queue pair can have into its own lane: it remains who it is, and others are served.
#[test]
fn forged_sender_is_dropped() {
    if role().is_some() {
        return forger(Channel::of_child());
    }
    let ctx = context();
    let mut cq = ctx.create_cq(1024).expect("cq");
    let mut receiver = qp(&ctx, &cq, QpKind::Ud);
    let mut honest = qp(&ctx, &cq, QpKind::Ud);
    let (to_honest, honest_name) = receiver.export_for_sender().expect("export");
    let (to_forger, forger_name) = receiver.export_for_sender().expect("export");
    let (honest_name, forger_name) = (honest_name.expect("a name"), forger_name.expect("a name"));
    assert_ne!(honest_name, forger_name);
    let dest = ctx.create_ah(&to_honest).expect("handle");
    let memory = ctx.alloc(8192, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
    let (mut child, mut channel) = spawn(&["hostile::forged_sender_is_dropped", "--exact"], "forger");
    channel.send(&to_forger).expect("child");
    let (mut from_forger, mut from_honest, mut wcs) = (0, 0, [Wc::default(); 16]);
    let mut take = |ctx: &ShmContext, receiver: &mut ShmQp| {
        let count = cq.poll(ctx.cpu(), &mut wcs);
        for wc in &wcs[..count] {
            if wc.opcode != Opcode::Recv {
                continue;
            }
            post_recv(ctx, receiver, &mr);
            from_forger += u64::from(wc.src_qpn == forger_name);
            from_honest += u64::from(wc.src_qpn == honest_name);
            assert!([forger_name, honest_name].contains(&wc.src_qpn), "{wc:?}");
        }
        (from_forger, from_honest)
    };
    for _ in 0..8 {
        post_recv(&ctx, &mut receiver, &mr);
    }
    let numbers = 1 << 24;
    let mut sent = 0;
    while ctx.stats().dropped_forged_sender < numbers - 1 {
        if sent < 1000 {
            sent += 1;
            let imm = None;
            post_send(
                &ctx,
                &mut honest,
                SendOp::Send {
                    dest: Some(dest),
                    imm,
                },
                b"honest",
            )
            .expect("post");
        }
        take(&ctx, &mut receiver);
        ctx.cpu().refresh();
    }
    take(&ctx, &mut receiver);
    // The first number is the forger's own, as far as anybody knows.
    assert_eq!(take(&ctx, &mut receiver), (1, 1000));
    channel.send_text("done").expect("child");
    child.wait().expect("child");
}

fn forger(mut channel: Channel) {
    let export = channel.receive().expect("parent");
    let ctx = context();
    let dest = ctx.create_ah(&export).expect("handle");
    let file = std::fs::File::from(export.fds[0].try_clone().expect("dup"));
    let size = file.metadata().expect("stat").len();
    let lane = Region::from_fd(file.into(), size as usize, true).expect("map");
    let lines = 1u64 << export.bytes[16];
    for number in 0..1u64 << 24 {
        // The receiver says in word 8 how far it has read.
        while number >= lane.load_u64(64, Ordering::Acquire) + lines {
            std::thread::yield_now();
        }
        let at = RING_AT + (number % lines) as usize * 64;
        lane.store_u64(at + 8, number << 32, Ordering::Relaxed);
        lane.store_u64(at + 16, u64::from(dest.qkey), Ordering::Relaxed);
        lane.store_u64(at, (number / lines + 1) | 8 << 32, Ordering::Release);
    }
    channel.receive_text().expect("parent");
}

/// A server of peers that it does not trust takes no memory of huge pages: the peer could take a page away.
#[test]
fn memory_of_huge_pages_is_refused_where_peers_are_not_trusted() {
    let mut options = ShmOptions::default();
    options.huge_pages_of_peers = false;
    let ctx = ShmDevice::open(options).context().expect("context");
    let own = context();
    let memory = own.alloc(4096, PageWish::Small).expect("memory");
    let mr = own.register(&memory, Access::ALL).expect("registration");
    let export = mr.export(&[]).expect("export");
    ctx.import_region(&export).expect("ordinary pages");
    // Pages need not be there for such a descriptor to be made.
    let flags = MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let Ok(huge) = memfd_create("huge", flags) else {
        return println!("this system has no huge pages at all");
    };
    ftruncate(&huge, 2 << 20).expect("length");
    fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    let forged = Export {
        fds: vec![Arc::new(huge)],
        ..export
    };
    let refused = ctx.import_region(&forged).expect_err("huge pages");
    assert!(refused.to_string().contains("huge pages"), "{refused}");
    let (cq, foreign) = (ctx.create_cq(8).expect("cq"), own.create_cq(8).expect("cq"));
    let (mut here, there) = (qp(&ctx, &cq, QpKind::Rc), qp(&own, &foreign, QpKind::Rc));
    let mut lane = there.export().expect("export");
    lane.fds[0] = forged.fds[0].clone();
    let refused = here.connect(&lane).expect_err("huge pages");
    assert!(refused.to_string().contains("huge pages"), "{refused}");
}

/// Memory of `bytes` with these seals.
fn memory_with(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("peer", flags).expect("memory");
    ftruncate(&fd, bytes).expect("length");
    fcntl_add_seals(&fd, seals).expect("seals");
    fd
}

/// What is no memory, is too short, or could be made shorter later, is refused, wherever a peer passes a descriptor. Memory that is
/// longer than it needs to be is mapped as far as the export says, however long it is.
#[test]
fn descriptors_of_anything_but_sealed_memory_are_refused() {
    let ctx = context();
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registration");
    let export = mr.export(&[]).expect("export");
    let whole = SealFlags::SHRINK | SealFlags::GROW;
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).expect("every system has it"));
    let (reader, _writer) = std::io::pipe().expect("pipe");
    for (what, fd) in [
        ("a directory", file("/")),
        ("a device", file("/dev/zero")),
        ("a pipe", reader.into()),
        ("short memory", memory_with(2048, whole)),
        (
            "memory without seals, which can shrink",
            memory_with(4096, SealFlags::empty()),
        ),
        (
            "memory sealed only against growing",
            memory_with(4096, SealFlags::GROW),
        ),
        (
            "memory sealed against writing",
            memory_with(4096, whole | SealFlags::WRITE),
        ),
    ] {
        let forged = Export {
            fds: vec![Arc::new(fd)],
            ..export.clone()
        };
        let region = ctx.import_region(&forged);
        assert!(region.is_err(), "{what} is taken for a region");
        let (cq, own) = (ctx.create_cq(8).expect("cq"), context());
        let foreign = own.create_cq(8).expect("cq");
        let (mut here, there) = (qp(&ctx, &cq, QpKind::Rc), qp(&own, &foreign, QpKind::Rc));
        let mut lane = there.export().expect("export");
        lane.fds[0] = forged.fds[0].clone();
        assert!(here.connect(&lane).is_err(), "{what} is taken for a lane");
    }
    let huge = Export {
        fds: vec![Arc::new(memory_with(1 << 42, whole))],
        ..export
    };
    ctx.import_region(&huge).expect("its first page suffices");
}
