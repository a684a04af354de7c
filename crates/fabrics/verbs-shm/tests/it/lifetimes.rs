//! No leaks of descriptors and mappings over many connections, with and without orderly shutdown.

use crate::common::{context, post_send, qp};
use drover_mem::PageWish;
use drover_testkit::alone::alone;
use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmQp};

/// The path of the test below.
const TEST: &str = "lifetimes::connections_leave_nothing_behind";

/// Open descriptors and mappings of this process.
fn resources() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").expect("proc").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("proc");
    (
        fds,
        maps.lines().filter(|line| line.contains("memfd:drover")).count(),
    )
}

fn send(ctx: &ShmContext, qp: &mut ShmQp, dest: UdDest) {
    let op = SendOp::Send {
        dest: Some(dest),
        imm: None,
    };
    post_send(ctx, qp, op, b"hello").expect("post");
}

/// In a process of its own, because other tests would open descriptors meanwhile.
#[test]
fn connections_leave_nothing_behind() {
    if role().is_some() {
        return client(Channel::of_child());
    }
    alone(TEST, || {
        orderly();
        abandoned();
        hoarded();
        killed();
    });
}

/// Creates all objects of a client and a server for each other, a thousand times.
fn orderly() {
    let (server, client) = (context(), context());
    let mut server_cq = server.create_cq(16).expect("cq");
    let mut server_ud = qp(&server, &server_cq, QpKind::Ud);
    let mut after_warm_up = None;
    for round in 0..1000 {
        let mut cq = client.create_cq(16).expect("cq");
        let mut ud = qp(&client, &cq, QpKind::Ud);
        let options = QpOptions::<Shm>::new(QpKind::Uc, &server_cq, server.caps());
        let mut accepted = server.create_qp(&options).expect("qp");
        let mut connected = client
            .create_qp(&QpOptions {
                send_cq: &cq,
                recv_cq: &cq,
                ..options
            })
            .expect("qp");
        accepted
            .connect(&connected.export().expect("export"))
            .expect("connect");
        connected
            .connect(&accepted.export().expect("export"))
            .expect("connect");
        let memory = server.alloc(4096, PageWish::Small).expect("memory");
        let mr = server
            .register(&memory, Access::REMOTE_WRITE)
            .expect("registration");
        let watch = Watch {
            range: 0..4096,
            bell: server.bell(),
        };
        let remote = client
            .import_region(&mr.export(&[watch]).expect("export"))
            .expect("import");
        let to_server = client
            .create_ah(&server_ud.export().expect("export"))
            .expect("handle");
        let to_client = server.create_ah(&ud.export().expect("export")).expect("handle");
        send(&client, &mut ud, to_server);
        send(&server, &mut server_ud, to_client);
        client.destroy_ah(&to_server);
        server.destroy_ah(&to_client);
        client.forget_region(&remote);
        while cq.poll(client.cpu(), &mut [Wc::default(); 4]) > 0 {}
        server_cq.poll(server.cpu(), &mut [Wc::default(); 4]);
        if round == 100 {
            after_warm_up = Some(resources());
        }
        drop((ud, accepted, connected, mr, memory));
    }
    let (fds, maps) = resources();
    let (fds_before, maps_before) = after_warm_up.expect("round 100 was");
    assert!(
        fds <= fds_before && maps <= maps_before,
        "{fds} fds and {maps} maps, were {fds_before} and {maps_before}"
    );
}

/// Exports that no process can use any more are released; one that a process still holds is kept meanwhile.
fn abandoned() {
    let ctx = context();
    let cq = ctx.create_cq(16).expect("cq");
    let ud = qp(&ctx, &cq, QpKind::Ud);
    let held = ud.export().expect("export");
    let before = resources();
    for _ in 0..1000 {
        ud.export().expect("export");
    }
    let after = resources();
    // Eight lanes are probed per new one.
    assert!(
        after.0 <= before.0 + 8 && after.1 <= before.1 + 8,
        "{before:?} then {after:?}"
    );
    ctx.create_ah(&held).expect("handle");
    assert!(ctx.create_ah(&held).is_err(), "one export serves one sender");
}

/// A client that holds exports without using them can hold as many as the largest server needs. The oldest are revoked,
/// and a later use of them reports that.
fn hoarded() {
    let ctx = context();
    let cq = ctx.create_cq(16).expect("cq");
    let ud = qp(&ctx, &cq, QpKind::Ud);
    let (_, before) = resources();
    let exports: Vec<Export> = (0..400).map(|_| ud.export().expect("export")).collect();
    let (_, after) = resources();
    assert!(after <= before + 257, "{before} then {after}");
    assert!(matches!(ctx.create_ah(&exports[0]), Err(ImportError::PeerGone)));
    for export in &exports[400 - 240..] {
        ctx.create_ah(export).expect("handle");
    }
}

/// Clients are killed while they hold all objects, with a message in flight. There is no new client afterwards: their
/// resources are freed when the server drops its own end and next finds no work.
fn killed() {
    let ctx = context();
    let mut cq = ctx.create_cq(64).expect("cq");
    let ud = qp(&ctx, &cq, QpKind::Ud);
    let before = resources();
    for round in 0..20 {
        let (mut child, mut channel) = spawn(&[TEST, "--exact"], "client");
        channel.send(&ud.export().expect("export")).expect("child");
        let its_ud = channel.receive().expect("child");
        let handle = ctx.create_ah(&its_ud).expect("handle");
        drop(its_ud);
        assert_eq!(channel.receive_text().expect("child"), "connected");
        child.kill().expect("kill");
        child.wait().expect("wait");
        ctx.destroy_ah(&handle);
        drop(channel);
        // One poll takes the message, one finds nothing.
        for _ in 0..2 {
            cq.poll(ctx.cpu(), &mut [Wc::default(); 64]);
        }
        assert_eq!(resources(), before, "after round {round}");
    }
}

fn client(mut channel: Channel) {
    let ctx = context();
    let cq = ctx.create_cq(16).expect("cq");
    let mut ud = qp(&ctx, &cq, QpKind::Ud);
    let Ok(server) = channel.receive() else { return };
    let dest = ctx.create_ah(&server).expect("handle");
    channel.send(&ud.export().expect("export")).expect("parent");
    send(&ctx, &mut ud, dest);
    channel.send_text("connected").expect("parent");
    // Until we are killed.
    let _ = channel.receive_text();
}
