//! Sleeping workers: woken by a request, once, and never asleep while one waits.

use crate::server::fake::{World, hello, options};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv_herd::control::{FrontEnd, Hello};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{ClientLimits, Mistake, ServeMode, ServerOptions};
use drover_verbs::Context;

/// Announces sleep, looks once more, sleeps: what a run loop does. Returns whether something ended the sleep.
fn sleep(world: &mut World, deadline: Ns) -> bool {
    let ctx = world.workers[0].context();
    ctx.arm();
    if world.workers[0].step(ctx.cpu()) == Progress::Busy {
        ctx.disarm();
        return true;
    }
    ctx.park(deadline);
    ctx.cpu().now() < deadline
}

#[test]
fn a_request_wakes_a_sleeping_worker() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let ctx = world.workers[0].context();
    for _ in 0..5 {
        let deadline = ctx.cpu().now() + Ns::from_s(1);
        assert!(!sleep(&mut world, deadline), "nothing to wake up for");
        ctx.arm();
        assert!(matches!(world.workers[0].step(ctx.cpu()), Progress::Idle { .. }));
        fake.send(SlotOp::Put, b"k", b"v");
        let deadline = ctx.cpu().now() + Ns::from_s(1);
        ctx.park(deadline);
        assert!(ctx.cpu().now() < deadline, "the bell was rung");
        assert_eq!(world.step(0), Progress::Busy);
        assert_eq!(fake.replies()[0].status, Status::Ok);
        assert!(
            matches!(world.step(0), Progress::Idle { .. }),
            "one wake-up, one batch"
        );
    }
}

#[test]
fn a_request_between_the_last_look_and_the_announcement_is_seen() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    assert!(matches!(world.step(0), Progress::Idle { .. }));
    fake.send(SlotOp::Put, b"k", b"v");
    let deadline = world.device.now() + Ns::from_s(1);
    assert!(sleep(&mut world, deadline));
    assert_eq!(fake.replies().len(), 1);
}

#[test]
fn each_partition_sleeps_by_itself() {
    let mut world = World::new(&ServerOptions {
        partition_count: 2,
        ..options()
    });
    let mut fake = world.connect();
    let key = crate::server::fake::key_of(&fake, 1, 0);
    let contexts = [world.workers[0].context(), world.workers[1].context()];
    contexts.iter().for_each(|ctx| ctx.arm());
    assert!((0..2).all(|w| matches!(world.step(w), Progress::Idle { .. })));
    fake.send(SlotOp::Put, &key, b"v");
    let deadline = world.device.now() + Ns::from_s(1);
    contexts[1].park(deadline);
    assert!(contexts[1].cpu().now() < deadline, "the owner wakes");
    contexts[0].park(deadline);
    assert!(contexts[0].cpu().now() >= deadline, "the other one does not");
}

#[test]
fn the_control_thread_wakes_a_sleeping_worker() {
    let mut world = World::new(&options());
    let ctx = world.workers[0].context();
    ctx.arm();
    let _ = world.step(0);
    world.acceptor.stop();
    let acceptor = world.acceptor.context();
    acceptor.cpu().refresh();
    world.acceptor.step(acceptor.cpu());
    let deadline = ctx.cpu().now() + Ns::from_s(1);
    ctx.park(deadline);
    assert!(ctx.cpu().now() < deadline);
    assert_eq!(world.step(0), Progress::Busy);
    assert!(world.workers[0].is_stopped());
}

/// Behind many copies of a datagram that was answered long ago stands a new one. Returns the replies by the time the
/// worker says that it is idle.
fn replies_behind_stale_datagrams(mode: ServeMode, mistake: Option<Mistake>) -> usize {
    let datagrams = ServerOptions {
        clients: ClientLimits {
            datagram_recvs: 256,
            ..options().clients
        },
        mode,
        ..options()
    };
    let mut world = World::with(&datagrams, mistake);
    let mut fake = world.connect_as(Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    });
    let old = fake.send(SlotOp::Put, b"k", b"v");
    fake.reply(&mut world);
    (0..60).for_each(|_| fake.again(&old, 0));
    fake.send(SlotOp::Get, b"k", b"");
    while world.step(0) == Progress::Busy {}
    fake.replies().len()
}

/// The receive queue is not empty as long as the last look at it found something, whatever that was.
#[test]
fn a_worker_is_not_idle_while_datagrams_wait() {
    let batch = ServeMode::Batch { batch: 4 };
    for mode in [
        batch,
        ServeMode::Pipeline { drain: true },
        ServeMode::Pipeline { drain: false },
    ] {
        assert_eq!(replies_behind_stale_datagrams(mode, None), 1, "{mode:?}");
    }
    let mistake = Some(Mistake::IdlesBehindDatagrams);
    assert_eq!(replies_behind_stale_datagrams(batch, mistake), 0);
}
