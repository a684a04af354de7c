//! A member whose core is held, because a keeper does not have yet what it changed: it takes no request, and nothing that it executed is
//! known outside. The tests are its co-actor, and so hold and release it.

use crate::server::elsewhere::{Member, all_modes};
use crate::server::fake::{Fake, World, hello, options};
use drover_base::Progress;
use drover_kv_herd::control::{FrontEnd, Hello, Message, Resync};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{ClientLimits, Mistake, ServerOptions};

/// A member with a complete copy at another one, and its server.
struct Bed {
    member: Member,
    world: World,
}

impl Bed {
    fn new(options: ServerOptions, mistake: Option<Mistake>) -> Bed {
        let mut member = Member::new();
        let world = World::with(&member.options(options), mistake);
        member.gate_shard();
        Bed { member, world }
    }

    fn release(&mut self) {
        self.member.served.release(0);
        self.world.settle();
    }

    fn release_void(&mut self) {
        self.member.served.release_void(0);
        self.world.settle();
    }

    fn is_held(&self) -> bool {
        self.member.served.is_held(0)
    }

    fn clients(&self) -> usize {
        self.world.workers[0].stats().clients
    }
}

/// Answers while a PUT and a GET are held, and after the hold.
fn answers_of_a_held_batch(options: ServerOptions, mistake: Option<Mistake>) -> (usize, usize) {
    let mut bed = Bed::new(options, mistake);
    let mut fake = bed.world.connect();
    fake.send(SlotOp::Put, b"k", b"value");
    fake.send(SlotOp::Get, b"k", b"");
    bed.world.settle();
    assert!(bed.is_held());
    let during = fake.replies().len();
    let mut after = 0;
    // One for a worker that has taken both requests, more for others.
    while bed.is_held() {
        bed.release();
        let replies = fake.replies();
        let statuses = replies.iter().map(|reply| reply.status);
        assert!(statuses.into_iter().all(|status| status == Status::Ok));
        after += replies.len();
    }
    (during, after)
}

#[test]
fn no_reply_leaves_before_the_release_and_all_do_after_it() {
    for options in all_modes() {
        let mode = options.mode;
        assert_eq!(answers_of_a_held_batch(options, None), (0, 2), "{mode:?}");
    }
}

#[test]
fn flaw_posts_while_held_is_caught() {
    let (during, _) = answers_of_a_held_batch(options(), Some(Mistake::PostsWhileHeld));
    assert_eq!(during, 2);
}

#[test]
fn flaw_forgets_held_is_caught() {
    assert_eq!(
        answers_of_a_held_batch(options(), Some(Mistake::ForgetsHeld)),
        (0, 0)
    );
}

#[test]
fn a_batch_that_changes_nothing_is_not_held() {
    for options in all_modes() {
        let mut bed = Bed::new(options, None);
        let mut fake = bed.world.connect();
        assert_eq!(fake.get(&mut bed.world, b"k"), None);
        assert!(!bed.is_held());
    }
}

#[test]
fn a_held_worker_takes_no_request_and_may_sleep() {
    for options in all_modes() {
        let mut bed = Bed::new(options, None);
        let mut fake = bed.world.connect();
        // By its co-actor, which has changed something for a client of its own.
        bed.member.served.hold(0);
        fake.send(SlotOp::Get, b"k", b"");
        let rounds = bed.member.served.rounds();
        assert!(matches!(bed.world.step(0), Progress::Idle { .. }));
        assert!(
            bed.member.served.has_passed(&rounds),
            "barriers do not wait for the release"
        );
        assert_eq!(bed.world.counters().operations.gets, 0);
        bed.release();
        assert_eq!(fake.replies().len(), 1);
    }
}

#[test]
fn a_held_worker_receives_no_datagram() {
    let datagrams = ServerOptions {
        clients: ClientLimits {
            datagram_recvs: 256,
            ..options().clients
        },
        ..options()
    };
    let mut bed = Bed::new(datagrams, None);
    let mut fake = bed.world.connect_as(Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    });
    fake.send(SlotOp::Put, b"k", b"1");
    bed.world.settle();
    fake.send(SlotOp::Put, b"k", b"2");
    bed.world.settle();
    assert_eq!(bed.world.counters().operations.puts, 1);
    bed.release();
    assert_eq!(fake.replies().len(), 1);
    bed.release();
    assert_eq!(fake.replies().len(), 1);
}

#[test]
fn a_held_update_that_is_sent_again_is_executed_once() {
    for options in all_modes() {
        let mut bed = Bed::new(options, None);
        let mut fake = bed.world.connect();
        let sent = fake.send(SlotOp::Put, b"k", b"value");
        bed.world.settle();
        fake.again(&sent, 1);
        bed.world.settle();
        assert!(fake.replies().is_empty());
        bed.release();
        assert_eq!(
            fake.replies().len(),
            2,
            "the reply, and the same for the second attempt"
        );
        assert_eq!(bed.world.counters().operations.puts, 1);
    }
}

/// Whether a client learns, while its update is held, what became of it; and after the release.
fn resynced(options: ServerOptions, mistake: Option<Mistake>) -> [bool; 2] {
    let mut bed = Bed::new(options, mistake);
    let mut fake = bed.world.connect();
    let (partition, slot, request) = fake.send(SlotOp::Put, b"k", b"value");
    bed.world.settle();
    fake.send_control(&Message::Resync(Resync {
        partition: partition as u16,
        slot: slot as u16,
        seq: request.commit.seq(),
        r: 1,
    }));
    bed.world.settle();
    let is_executed = |fake: &mut Fake| match fake.receive() {
        Some(Message::Resynced(answer)) => answer.executed,
        other => {
            assert!(other.is_none(), "{other:?}");
            false
        }
    };
    let during = is_executed(&mut fake);
    bed.release();
    [during, is_executed(&mut fake)]
}

#[test]
fn what_became_of_a_held_request_is_told_after_the_release() {
    for options in all_modes() {
        assert_eq!(resynced(options, None), [false, true]);
    }
}

#[test]
fn flaw_resyncs_while_held_is_caught() {
    assert_eq!(
        resynced(options(), Some(Mistake::ResyncsWhileHeld)),
        [true, false]
    );
}

#[test]
fn clients_come_and_go_while_replies_are_held() {
    for options in all_modes() {
        let mut bed = Bed::new(options, None);
        let (mut goes, mut stays) = (bed.world.connect(), bed.world.connect());
        goes.send(SlotOp::Put, b"k", b"1");
        bed.world.settle();
        stays.send(SlotOp::Put, b"k", b"2");
        let id = goes.welcome.client_id;
        goes.hang_up(&mut bed.world);
        assert_eq!(bed.clients(), 1);
        let mut heir = bed.world.connect();
        assert_eq!(heir.welcome.client_id, id);
        while bed.is_held() {
            bed.release();
        }
        assert_eq!(stays.replies().len(), 1);
        assert!(heir.replies().is_empty(), "it has asked for nothing");
        assert_eq!(heir.get(&mut bed.world, b"k"), Some(b"2".to_vec()));
    }
}

#[test]
fn a_held_worker_reports_and_stops() {
    for options in all_modes() {
        let mut bed = Bed::new(options, None);
        let mut fake = bed.world.connect();
        fake.send(SlotOp::Put, b"k", b"value");
        bed.world.settle();
        bed.world.acceptor.stop();
        bed.world.settle();
        assert!(bed.world.workers[0].is_stopped());
        assert!(bed.is_held());
    }
}

/// A client with a held update, which becomes void, and one without. Returns how many replies the first gets, now and when it sends its
/// update again, and which clients are left.
fn after_a_void(options: ServerOptions, mistake: Option<Mistake>) -> ([usize; 2], usize) {
    let mut bed = Bed::new(options, mistake);
    let (mut loses, mut stays) = (bed.world.connect(), bed.world.connect());
    let sent = loses.send(SlotOp::Put, b"k", b"value");
    bed.world.settle();
    bed.member.give_to(1);
    bed.release_void();
    let now = loses.replies().len();
    loses.again(&sent, 1);
    bed.world.settle();
    let again = loses.replies().len();
    let reply = stays.call(&mut bed.world, SlotOp::Get, b"k", b"");
    assert!(bed.member.is_elsewhere(&reply), "{reply:?}");
    ([now, again], bed.clients())
}

#[test]
fn void_replies_never_leave_and_their_clients_are_dropped() {
    for options in all_modes() {
        let mode = options.mode;
        assert_eq!(after_a_void(options, None), ([0, 0], 1), "{mode:?}");
    }
}

#[test]
fn flaw_posts_void_is_caught() {
    let ([now, _], _) = after_a_void(options(), Some(Mistake::PostsVoid));
    assert_eq!(now, 1);
}

#[test]
fn flaw_keeps_void_clients_is_caught() {
    let ([now, again], _) = after_a_void(options(), Some(Mistake::KeepsVoidClients));
    assert_eq!((now, again), (0, 1));
}

#[test]
fn a_dropped_clients_channel_is_closed_and_it_may_come_again() {
    let mut bed = Bed::new(options(), None);
    let mut fake = bed.world.connect();
    fake.send(SlotOp::Put, b"k", b"value");
    bed.world.settle();
    bed.release_void();
    assert!(
        fake.stream.recv(bed.world.device.now()).is_err(),
        "the channel has ended"
    );
    assert_eq!(bed.world.acceptor.session_count(), 0);
    let mut again = bed.world.connect();
    assert_eq!(again.get(&mut bed.world, b"k"), Some(b"value".to_vec()));
}

#[test]
fn a_void_without_held_replies_drops_nobody() {
    let mut bed = Bed::new(options(), None);
    let mut fake = bed.world.connect();
    bed.member.served.hold(0);
    bed.world.settle();
    bed.release_void();
    assert_eq!(fake.get(&mut bed.world, b"k"), None);
}

#[test]
fn a_worker_that_begins_again_holds_nothing() {
    let mut bed = Bed::new(options(), None);
    let mut fake = bed.world.connect();
    let sent = fake.send(SlotOp::Put, b"k", b"value");
    bed.world.settle();
    bed.world.workers[0].restart().expect("memory");
    bed.release();
    assert!(fake.replies().is_empty());
    fake.again(&sent, 1);
    assert_eq!(fake.reply(&mut bed.world).status, Status::StaleEpoch);
}
