//! Sessions begin, break, and begin again.

use crate::client::bed::{Bed, Ended, get, lossy, put};
use crate::client::fake::{FakeServer, Fate};
use drover_base::Ns;
use drover_kv::SetupError;
use drover_kv::{KvClient, Refusal, SubmitError};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::{ErrorCode, Format, FrontEnd, Message};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_verbs::Export;

#[test]
fn operations_submitted_before_the_session_wait_for_it() {
    let mut bed = Bed::raw(4, 2, ClientOptions::default(), lossy(), |_| {});
    bed.submit(put(b"k", b"1"));
    bed.submit(put(b"k", b"2"));
    let read = bed.submit(get(b"k"));
    assert!(!bed.client.is_ready());
    bed.settle();
    assert_eq!(bed.ended[&read], Ended::Value(b"2".to_vec()));
}

#[test]
fn what_waits_is_bounded() {
    let options = ClientOptions {
        waiting_max: 3,
        ..ClientOptions::default()
    };
    let mut bed = Bed::raw(4, 1, options, lossy(), |_| {});
    for i in 0..3u8 {
        bed.submit(get(&[i]));
    }
    assert_eq!(bed.try_submit(get(b"x")), Err(SubmitError::WindowFull));
    bed.settle();
}

/// Only writes whose request was posted are in doubt; reads and what waited go to the next session.
#[test]
fn only_posted_writes_are_indeterminate_after_a_loss() {
    let mut bed = Bed::new();
    bed.run(put(b"c", b"old"));
    bed.server.script = Box::new(|_| Fate::LoseReply);
    let posted = bed.submit(put(b"a", b"1"));
    let read = bed.submit(get(b"c"));
    let waits = bed.submit(put(b"a", b"2"));
    bed.step();
    bed.server.kill();
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    assert_eq!(bed.ended[&posted], Ended::Indeterminate);
    assert_eq!(bed.ended[&read], Ended::Value(b"old".to_vec()));
    assert_eq!(bed.ended[&waits], Ended::Stored);
    assert_eq!(bed.server.executions(b"a", SlotOp::Put), 2);
    assert_eq!(bed.client.stats().reconnects, 1);
}

#[test]
fn order_on_a_key_survives_a_loss() {
    let mut bed = Bed::new();
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    let first = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"1"));
    let second = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"2"));
    let third = bed.submit(get(b"k"));
    bed.step();
    bed.server.kill();
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    assert_eq!(bed.ended[&first], Ended::NotFound);
    assert_eq!(bed.ended[&second], Ended::Value(b"1".to_vec()));
    assert_eq!(bed.ended[&third], Ended::Value(b"2".to_vec()));
}

#[test]
fn a_server_that_is_away_is_found_again() {
    let mut bed = Bed::new();
    bed.run(put(b"k", b"v"));
    let door = bed.server.door();
    door.shut(true);
    bed.server.kill();
    let read = bed.submit(get(b"k"));
    bed.pass(Ns::from_s(2));
    assert!(matches!(bed.client.take_error(), Some(SetupError::Dial(_))));
    assert!(!bed.client.is_ready());
    door.shut(false);
    bed.settle();
    assert_eq!(bed.ended[&read], Ended::Value(b"v".to_vec()));
}

#[test]
fn operations_end_although_no_server_comes() {
    let mut bed = Bed::new();
    bed.server.door().shut(true);
    bed.server.kill();
    bed.pass(Ns::from_ms(5));
    let tokens = [bed.submit(get(b"k")), bed.submit(put(b"k", b"v"))];
    bed.settle();
    for token in tokens {
        assert_eq!(
            bed.ended[&token],
            Ended::Refused(Refusal::Unavailable),
            "it was never sent"
        );
    }
    assert_eq!(bed.client.stats().indeterminate, 0);
}

#[test]
fn a_wrong_partition_means_a_new_session() {
    let mut bed = Bed::with(4, 1, ClientOptions::default(), |_| {});
    let mut first = true;
    bed.server.script = Box::new(move |_| match std::mem::take(&mut first) {
        true => Fate::Say(Status::WrongPartition),
        false => Fate::Serve,
    });
    let tokens = [bed.submit(put(b"a", b"1")), bed.submit(put(b"b", b"2"))];
    bed.step();
    bed.server.map.partition_count = 4;
    bed.settle();
    assert!(tokens.iter().all(|token| bed.ended[token] == Ended::Stored));
    assert_eq!(bed.client.partition_count(), Some(4));
    assert_eq!(
        bed.client.stats().indeterminate,
        0,
        "the session was left when nothing was under way"
    );
}

/// Mappings of dead servers are memory of the machine that nobody gets back.
#[test]
fn what_a_session_imported_goes_with_it() {
    for front_end in [FrontEnd::Slots, FrontEnd::Datagrams] {
        let options = ClientOptions {
            front_end,
            ..ClientOptions::default()
        };
        let mut bed = Bed::with(4, 2, options, |server| {
            server.datagrams = front_end == FrontEnd::Datagrams
        });
        let held = |bed: &Bed| bed.client.context().imports_held();
        let idle = held(&bed);
        assert!(idle > 0, "{front_end:?}");
        bed.run(put(b"long", &[7; 5000]));
        let busy = held(&bed);
        assert!(busy > idle, "{front_end:?}: bulk memory");
        for _ in 0..5 {
            bed.server.kill();
            bed.run(put(b"long", &[7; 5000]));
            assert_eq!(held(&bed), busy, "{front_end:?}");
        }
        bed.client.close(&mut |_| {});
        assert_eq!(held(&bed), 0, "{front_end:?}");
    }
}

/// The region was already mapped when the handshake broke off.
#[test]
fn what_half_a_handshake_imported_goes_with_it() {
    let unconnectable = |server: &mut FakeServer| {
        server.bend = Box::new(|welcome| welcome.slots.uc = Export::default());
    };
    let options = ClientOptions::default();
    let mut bed = Bed::raw(4, 1, options, lossy(), unconnectable);
    for _ in 0..3 {
        bed.until(|bed| bed.client.take_error().is_some());
    }
    assert_eq!(bed.client.context().imports_held(), 0);
}

#[test]
fn a_goodbye_is_a_loss() {
    let mut bed = Bed::new();
    bed.server.send(&Message::Bye);
    bed.pass(Ns::from_ms(5));
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.client.stats().reconnects, 1);
}

#[test]
fn a_refusal_is_passed_on() {
    for (code, is_final) in [(ErrorCode::Auth, true), (ErrorCode::TooManyClients, false)] {
        let mut bed = Bed::raw(4, 1, ClientOptions::default(), lossy(), |server| {
            server.refuse = Some(code);
        });
        let mut refused = None;
        bed.until(|bed| {
            refused = refused.take().or_else(|| bed.client.take_error());
            refused.is_some()
        });
        let refused = refused.expect("an error");
        assert!(refused.to_string().contains("go away"));
        assert_eq!(refused.is_final(), is_final);
        bed.server.refuse = None;
        assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    }
}

/// No slots left: the same client comes again at once with datagrams, and asks for slots in its next session.
#[test]
fn a_client_without_slots_sends_datagrams() {
    let full = |server: &mut FakeServer| {
        server.refuse = Some(ErrorCode::NoSlots);
        server.datagrams = true;
    };
    let mut bed = Bed::with(4, 2, ClientOptions::default(), full);
    assert!(bed.client.take_error().is_none(), "nothing worth telling");
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"v".to_vec()));
    bed.server.kill();
    (bed.server.refuse, bed.server.datagrams) = (None, false);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"v".to_vec()));
}

/// Format P has no datagrams: its client waits for slots.
#[test]
fn a_paper_client_waits_for_slots() {
    let options = ClientOptions::default();
    let full = |server: &mut FakeServer| server.refuse = Some(ErrorCode::NoSlots);
    let mut bed = Bed::of_format(4, 1, options, lossy(), Format::P, full);
    let mut refused = None;
    bed.until(|bed| {
        refused = refused.take().or_else(|| bed.client.take_error());
        refused.is_some()
    });
    assert!(refused.is_some_and(|error| !error.is_final()));
    bed.server.refuse = None;
    bed.until(|bed| bed.client.is_ready());
}

#[test]
fn a_closed_client_ends_everything() {
    let mut bed = Bed::new();
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    bed.submit(put(b"a", b"1"));
    bed.submit(put(b"a", b"2"));
    bed.submit(get(b"b"));
    bed.poll();
    let mut ended = Vec::new();
    bed.client.close(&mut |completion| ended.push(completion.token));
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3]);
    assert_eq!(bed.client.in_flight(), 0);
    assert_eq!(bed.try_submit(get(b"b")), Err(SubmitError::Closed));
    assert_eq!(bed.client.next_timer(), Ns::MAX);
}

#[test]
fn the_servers_counters_can_be_asked_for() {
    let mut bed = Bed::new();
    bed.client.ask_server_stats();
    bed.until(|bed| {
        bed.client
            .take_server_stats()
            .is_some_and(|text| text == "keys 1\n")
    });
}
