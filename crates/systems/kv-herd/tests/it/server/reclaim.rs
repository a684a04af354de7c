//! Tests 7 and 8: clients that die, ids that are used again, workers that begin again.

use crate::server::fake::{Fake, World, hello, key_of, options, receive, send};
use drover_base::{Actor, Cpu, Rng};
use drover_control::ControlStream;
use drover_kv_herd::control::{ErrorCode, FrontEnd, Hello, Message};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{ClientLimits, Mistake, ServerOptions};
use drover_verbs::{Context, WcStatus};

#[test]
fn a_dead_clients_late_write_does_not_execute() {
    let mut world = World::new(&options());
    let mut dead = world.connect();
    let late = dead.next(SlotOp::Put, b"k", b"late", 0);
    let id = dead.welcome.client_id;
    dead.hang_up(&mut world);
    assert_eq!(world.workers[0].stats().clients, 0);
    let mut heir = world.connect();
    assert_eq!((heir.welcome.client_id, heir.welcome.generation), (id, 1));
    // The dead client's queue pair has no peer any more: its WRITE is lost, as UC loses things: silently.
    let (partition, slot, request) = late;
    dead.write(partition, slot, &request);
    world.settle();
    assert_eq!(heir.get(&mut world, b"k"), None);
    assert!(dead.replies().is_empty());
    assert_eq!(world.counters().operations.puts, 0);
}

#[test]
fn requests_that_stood_when_the_client_died_do_not_outlive_it() {
    let mut world = World::new(&options());
    let mut dead = world.connect();
    dead.send(SlotOp::Put, b"k", b"v");
    dead.stream.close();
    // The acceptor hears of it first, the worker then has both: the request and the order to forget.
    world.settle();
    let mut heir = world.connect();
    assert!(heir.replies().is_empty(), "no reply to the dead reaches the heir");
    heir.put(&mut world, b"k", b"mine");
    assert_eq!(heir.get(&mut world, b"k"), Some(b"mine".to_vec()));
}

/// Clients come and go at random points of handshake and traffic; nothing is left behind.
#[test]
fn clients_die_at_random_points() {
    let mut world = World::new(&ServerOptions {
        partition_count: 2,
        clients: ClientLimits {
            count_max: 8,
            ..options().clients
        },
        ..options()
    });
    let mut rng = Rng::new(1, 0, 0);
    let mut steady = world.connect();
    for round in 0..200u32 {
        let mut fake = world.connect();
        for i in 0..rng.below(8) {
            fake.send(SlotOp::Put, &i.to_le_bytes(), b"v");
            for _ in 0..rng.below(3) {
                world.step(rng.below(2) as usize);
            }
            fake.replies();
        }
        if rng.chance(0.5) {
            fake.send_control(&Message::BulkOpen {
                chunk_count: 1,
                short_count: 1,
            });
        }
        drop(fake);
        if rng.chance(0.3) {
            continue; // several deaths at once
        }
        world.settle();
        steady.put(&mut world, &round.to_le_bytes(), b"alive");
    }
    world.settle();
    assert_eq!(world.acceptor.session_count(), 1);
    assert!(world.workers.iter().all(|worker| worker.stats().clients == 1));
}

/// Steps the acceptor alone: the workers have heard of nothing yet.
fn step_acceptor(world: &mut World) {
    let ctx = world.acceptor.context();
    for _ in 0..5 {
        ctx.cpu().refresh();
        world.acceptor.step(ctx.cpu());
    }
}

/// Whether an id is given out again before every worker has let go of it.
fn id_is_reused_at_once(options: &ServerOptions, mistake: Option<Mistake>) -> bool {
    let mut world = World::with(options, mistake);
    let mut dead = world.connect();
    dead.stream.close();
    step_acceptor(&mut world);
    let (mut stream, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    send(&mut stream, &Message::Hello(hello()));
    step_acceptor(&mut world);
    match receive(&dead.ctx, &mut stream) {
        Some(Message::Welcome(welcome)) => welcome.client_id == dead.welcome.client_id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_id_is_not_used_again_before_the_workers_let_go() {
    assert!(!id_is_reused_at_once(&options(), None));
}

/// Workers may still be exporting their queue pairs for a client that has left: their answers are not another client's.
#[test]
fn an_id_is_not_used_again_before_the_workers_have_answered() {
    let mut world = World::new(&ServerOptions {
        partition_count: 2,
        clients: ClientLimits {
            count_max: 1,
            datagram_recvs: 64,
            ..options().clients
        },
        ..options()
    });
    let datagrams = || Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    };
    let (mut early, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    send(&mut early, &Message::Hello(datagrams()));
    step_acceptor(&mut world);
    drop(early);
    step_acceptor(&mut world);
    assert_eq!(
        world.acceptor.session_count(),
        1,
        "the workers are not done with it"
    );
    let refused = Fake::connect(&mut world, datagrams()).err();
    assert!(
        matches!(
            refused,
            Some(Message::Error {
                code: ErrorCode::TooManyClients,
                ..
            })
        ),
        "{refused:?}"
    );
    let mut next = world.connect_as(datagrams());
    for partition in 0..2 {
        let key = key_of(&next, partition, 1);
        next.put(&mut world, &key, b"v");
    }
}

#[test]
#[should_panic(expected = "client id 0 is given out while its session is Leaving")]
fn flaw_reuses_ids_at_once_is_caught() {
    id_is_reused_at_once(&options(), Some(Mistake::ReusesIdsAtOnce));
}

/// A worker begins again while requests stand in its slots: one it had executed, one it had not seen.
fn restart_with_leftovers(options: &ServerOptions, mistake: Option<Mistake>) -> (Vec<Status>, bool) {
    let mut world = World::with(options, mistake);
    let mut fake = world.connect();
    let seen = fake.send(SlotOp::Put, b"a", b"1");
    world.settle();
    fake.replies();
    let unseen = fake.send(SlotOp::Put, b"b", b"2");
    world.workers[0].restart().expect("restart");
    world.settle();
    let executed = !fake.replies().is_empty();
    fake.again(&seen, 1);
    fake.again(&unseen, 1);
    world.settle();
    let statuses = fake.replies().iter().map(|reply| reply.status).collect();
    if mistake.is_none() {
        let (partition, slot, request) = &unseen;
        let resynced = fake.resync(&mut world, *partition, *slot, request.commit.seq(), 2);
        assert_eq!(
            (resynced.executed, resynced.status),
            (true, Status::StaleEpoch as u8),
            "nobody knows"
        );
        assert_eq!(fake.get(&mut world, b"a"), None, "the cache is empty");
        fake.put(&mut world, b"a", b"3");
        assert_eq!(fake.get(&mut world, b"a"), Some(b"3".to_vec()));
    }
    (statuses, executed)
}

#[test]
fn leftovers_of_a_restarted_worker_never_execute() {
    let (statuses, executed) = restart_with_leftovers(&options(), None);
    assert_eq!(statuses, [Status::StaleEpoch, Status::StaleEpoch]);
    assert!(!executed);
}

#[test]
fn flaw_executes_leftovers_is_caught() {
    let (_, executed) = restart_with_leftovers(&options(), Some(Mistake::ExecutesLeftovers));
    assert!(executed);
}

/// Slot 0 has seen two PUTs of `k`; then somebody else wrote. A late copy of the first PUT lands, the worker restarts, and
/// the second PUT is sent again. Returns the answer to it, and what `k` is afterwards.
fn restart_behind_a_late_write(mistake: Option<Mistake>) -> (Vec<Status>, Option<Vec<u8>>) {
    let mut world = World::with(&options(), mistake);
    let (mut one, mut two) = (world.connect(), world.connect());
    let first = one.send(SlotOp::Put, b"k", b"first");
    one.reply(&mut world);
    (0..3).for_each(|_| drop(one.call(&mut world, SlotOp::Nop, b"k", b"")));
    let second = one.send(SlotOp::Put, b"k", b"second");
    assert_eq!((first.1, second.1), (0, 0), "the same slot");
    one.reply(&mut world);
    one.again(&first, 1); // the network delivers it now; the worker has not looked
    world.workers[0].restart().expect("restart");
    two.put(&mut world, b"k", b"newest");
    one.again(&second, 1);
    world.settle();
    let statuses = one.replies().iter().map(|reply| reply.status).collect();
    (statuses, two.get(&mut world, b"k"))
}

#[test]
fn a_late_write_before_a_restart_brings_no_request_back() {
    let (statuses, value) = restart_behind_a_late_write(None);
    assert_eq!(statuses, [Status::StaleEpoch]);
    assert_eq!(value.as_deref(), Some(&b"newest"[..]));
}

#[test]
fn flaw_restart_believes_slots_is_caught() {
    let (statuses, value) = restart_behind_a_late_write(Some(Mistake::RestartBelievesSlots));
    assert_eq!(statuses, [Status::Ok]);
    assert_eq!(value.as_deref(), Some(&b"second"[..]));
}

/// A request is ruled out, the worker restarts, and the request arrives: its client has sent it anew long ago.
fn ruled_out_and_restarted(mistake: Option<Mistake>) -> Option<Vec<u8>> {
    let mut world = World::with(&options(), mistake);
    let mut fake = world.connect();
    let late = fake.next(SlotOp::Put, b"k", b"late", 0);
    let seq = late.2.commit.seq();
    assert!(!fake.resync(&mut world, late.0, late.1, seq, 1).executed);
    world.workers[0].restart().expect("restart");
    fake.put(&mut world, b"k", b"anew");
    fake.again(&late, 1);
    world.settle();
    fake.replies();
    fake.get(&mut world, b"k")
}

#[test]
fn what_was_ruled_out_stays_so_after_a_restart() {
    assert_eq!(ruled_out_and_restarted(None).as_deref(), Some(&b"anew"[..]));
    let mistake = Some(Mistake::RestartBelievesSlots);
    assert_eq!(ruled_out_and_restarted(mistake).as_deref(), Some(&b"late"[..]));
}

/// A lost request is still awaited after a restart: nothing that was not taken is forgotten.
#[test]
fn a_request_that_arrives_after_a_restart_executes() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let lost = fake.next(SlotOp::Put, b"a", b"1", 0);
    fake.send(SlotOp::Put, b"b", b"2");
    world.workers[0].restart().expect("restart");
    world.settle();
    assert!(fake.replies().is_empty(), "what stood in a slot does not execute");
    fake.again(&lost, 1);
    world.settle();
    assert_eq!(fake.replies()[0].status, Status::Ok);
    assert_eq!(fake.get(&mut world, b"a"), Some(b"1".to_vec()));
    assert_eq!(fake.get(&mut world, b"b"), None);
}

#[test]
fn a_server_that_stops_says_goodbye() {
    let mut world = World::new(&options());
    let mut fake = world.connect_as(Hello { window: 2, ..hello() });
    fake.put(&mut world, b"k", b"v");
    world.acceptor.stop();
    world.settle();
    assert!(matches!(fake.receive(), Some(Message::Bye)));
    assert!(fake.receive().is_none() && fake.stream.is_closed());
    assert!(world.acceptor.is_stopped());
    assert!(world.workers[0].is_stopped());
    let (partition, slot, request) = fake.next(SlotOp::Put, b"k", b"w", 0);
    let status = fake.write_at(fake.map.slot_offset(partition, slot), &request.body);
    assert!(matches!(
        status,
        Ok(WcStatus::Success) | Ok(WcStatus::RemoteAccess)
    ));
}
