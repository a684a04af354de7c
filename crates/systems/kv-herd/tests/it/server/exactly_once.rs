//! Losses: what a client sends again is executed once, and what was given up never.

use crate::server::fake::{World, options};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{Mistake, ServeMode, ServerOptions};

/// Two clients write; the first one's reply is lost and it asks again. Its value must not come back.
fn last_value_after_a_lost_reply(options: &ServerOptions, mistake: Option<Mistake>) -> Vec<u8> {
    let mut world = World::with(options, mistake);
    let (mut one, mut two) = (world.connect(), world.connect());
    let sent = one.send(SlotOp::Put, b"k", b"old");
    world.settle();
    one.replies();
    two.put(&mut world, b"k", b"new");
    one.again(&sent, 1);
    assert_eq!(one.reply(&mut world).status, Status::Ok, "the stored status");
    one.get(&mut world, b"k").expect("stored")
}

#[test]
fn a_retransmitted_put_is_not_executed_again() {
    assert_eq!(last_value_after_a_lost_reply(&options(), None), b"new");
    let pipeline = ServerOptions {
        mode: ServeMode::Pipeline { drain: true },
        ..options()
    };
    assert_eq!(last_value_after_a_lost_reply(&pipeline, None), b"new");
}

#[test]
fn flaw_executes_twice_is_caught() {
    assert_eq!(
        last_value_after_a_lost_reply(&options(), Some(Mistake::ExecutesTwice)),
        b"old"
    );
}

#[test]
fn a_retransmitted_delete_says_what_it_said() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"v");
    let sent = fake.send(SlotOp::Delete, b"k", b"");
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    for attempt in 1..8 {
        fake.again(&sent, attempt);
        assert_eq!(fake.reply(&mut world).status, Status::Ok, "not NotFound");
    }
    assert_eq!(world.counters().operations.deletes, 1);
    assert_eq!(world.counters().irregular.retransmits, 7);
}

#[test]
fn a_retransmitted_get_reads_again() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"v");
    let sent = fake.send(SlotOp::Get, b"k", b"");
    assert_eq!(fake.reply(&mut world).payload, b"v");
    fake.again(&sent, 1);
    let reply = fake.reply(&mut world);
    assert_eq!((reply.status, reply.payload), (Status::Ok, b"v".to_vec()));
}

#[test]
fn the_same_write_twice_is_one_request() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let sent = fake.send(SlotOp::Put, b"k", b"v");
    fake.again(&sent, 0);
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    fake.again(&sent, 0);
    world.settle();
    assert!(fake.replies().is_empty());
}

#[test]
fn an_older_request_that_comes_late_is_history() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let old = fake.send(SlotOp::Put, b"k", b"old");
    fake.reply(&mut world);
    for _ in 0..4 {
        fake.put(&mut world, b"k", b"new");
    }
    fake.again(&old, 1);
    world.settle();
    assert!(fake.replies().is_empty());
    assert_eq!(fake.get(&mut world, b"k"), Some(b"new".to_vec()));
    assert_eq!(world.counters().irregular.ignored, 1);
}

/// Gives up position 1 of 0..=3 after `executed` or before; says whether the late WRITE still had an effect.
fn late_write_after_resync(
    options: &ServerOptions,
    mistake: Option<Mistake>,
    executed: bool,
) -> (bool, u8, bool) {
    let mut world = World::with(options, mistake);
    let mut fake = world.connect();
    fake.put(&mut world, b"a", b"0");
    let (partition, slot, request) = fake.next(SlotOp::Put, b"k", b"late", 0);
    if executed {
        fake.write(partition, slot, &request);
        world.settle();
        fake.replies();
    }
    let resynced = fake.resync(&mut world, partition, slot, request.commit.seq(), 2);
    assert_eq!(resynced.last_seq, request.commit.seq());
    fake.put(&mut world, b"b", b"2"); // position 2: the server waits for nothing before it
    fake.again(&(partition, slot, request), 3);
    world.settle();
    fake.replies();
    let came = fake.get(&mut world, b"k").is_some();
    (resynced.executed, resynced.status, came)
}

#[test]
fn resync_gives_a_definite_answer() {
    assert_eq!(
        late_write_after_resync(&options(), None, true),
        (true, Status::Ok as u8, true)
    );
    let (executed, _, came) = late_write_after_resync(&options(), None, false);
    assert_eq!((executed, came), (false, false), "ruled out for ever");
}

#[test]
fn flaw_forgets_resync_is_caught() {
    let (executed, _, came) = late_write_after_resync(&options(), Some(Mistake::ForgetsResync), false);
    assert_eq!((executed, came), (false, true));
}

#[test]
fn resync_of_nonsense_changes_nothing() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"v");
    let resynced = fake.resync(&mut world, 0, 77, 1, 0);
    assert!(!resynced.executed);
    fake.put(&mut world, b"k", b"w");
    // Everything is ruled out; the next seq counts from there, as the client was told.
    let far = fake.resync(&mut world, 0, 0, 100, 400);
    assert_eq!(far.last_seq, 100);
    let request = fake.request(SlotOp::Get, 101, b"k", b"", 0);
    fake.write(0, 0, &request);
    assert_eq!(fake.reply(&mut world).payload, b"w");
}
