//! Wake-ups cost one system call per sleep, and none while all contexts are awake.

use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmDevice};

#[test]
fn one_request_to_a_sleeper_is_one_wake_up() {
    let device = ShmDevice::default();
    let (server, client) = (
        device.context().expect("context"),
        device.context().expect("context"),
    );
    let memory = server.alloc(4096, PageWish::Small).expect("memory");
    let mr = server
        .register(&memory, Access::REMOTE_WRITE)
        .expect("registration");
    let watch = Watch {
        range: 0..2048,
        bell: server.bell(),
    };
    let remote = client
        .import_region(&mr.export(&[watch]).expect("export"))
        .expect("import");
    let server_cq = server.create_cq(8).expect("cq");
    let cq = client.create_cq(8).expect("cq");
    let mut theirs = server
        .create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &server_cq, server.caps()))
        .expect("qp");
    let mut ours = client
        .create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &cq, client.caps()))
        .expect("qp");
    theirs.connect(&ours.export().expect("export")).expect("connect");
    ours.connect(&theirs.export().expect("export")).expect("connect");
    let mut list = SendList::default();
    let mut write = |offset: usize, count: usize| {
        list.clear();
        for _ in 0..count {
            let payload = list.inline(&[1; 8]);
            list.push(SendWr::write(remote.at(offset), payload));
        }
        ours.post_send(client.cpu(), &list).expect("post");
        client.stats().wakes_sent
    };
    assert_eq!(write(0, 3), 0, "nobody sleeps");
    server.arm();
    assert_eq!(write(2048, 1), 0, "nobody watches there");
    assert_eq!(write(0, 3), 1, "a list wakes once");
    assert_eq!(write(8, 1), 1, "a sleep is woken once");
    let deadline = server.cpu().refresh() + Ns::from_s(10);
    server.park(deadline);
    assert!(
        server.cpu().refresh() < deadline,
        "the wake before the wait was lost"
    );
    assert_eq!(write(0, 1), 1, "awake again");
    server.arm();
    server.disarm();
    assert_eq!(write(0, 1), 1, "disarmed");
    server.arm();
    server.arm();
    assert_eq!(write(0, 1), 2, "another sleep, another wake");
}

#[test]
fn a_sleep_ends_at_its_deadline() {
    let ctx = ShmDevice::default().context().expect("context");
    let start = ctx.cpu().refresh();
    ctx.arm();
    ctx.park(start + Ns::from_us(100));
    assert!(ctx.cpu().refresh() >= start + Ns::from_us(100));
    ctx.arm();
    ctx.park(start);
}
