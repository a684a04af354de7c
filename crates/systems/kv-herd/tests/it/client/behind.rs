//! Where no WRITE is lost, operations on one key are posted one behind the other.

use crate::client::bed::{Bed, Ended, delete, get, put};
use crate::client::fake::Fate;
use drover_base::Ns;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::layout::Status;
use drover_verbs_suite::loopback::LoopbackOptions;

fn lossless() -> Bed {
    let fabric = LoopbackOptions::default();
    assert!(fabric.caps.writes.lossless);
    let mut bed = Bed::raw(8, 1, ClientOptions::default(), fabric, |server| {
        server.in_turn = true
    });
    bed.until(|bed| bed.client.is_ready());
    bed
}

#[test]
fn nothing_waits_for_a_write_and_all_keep_their_order() {
    let mut bed = lossless();
    bed.submit(put(b"k", b"1"));
    bed.submit(put(b"k", b"2"));
    bed.submit(delete(b"k"));
    bed.submit(put(b"k", b"3"));
    let first = bed.submit(get(b"k"));
    let second = bed.submit(get(b"k"));
    bed.step();
    assert_eq!(bed.server.seen.len(), 6, "all are on their way at once");
    bed.settle();
    for read in [first, second] {
        assert_eq!(bed.ended[&read], Ended::Value(b"3".to_vec()));
    }
    assert_eq!(bed.client.stats().conflicts, 0);
}

/// The GET might have to fetch its value afterwards, and find the newer one: the server is told, and refuses what
/// would bring that about.
#[test]
fn what_is_behind_a_get_has_a_condition() {
    let mut bed = lossless();
    bed.submit(put(b"k", b"1"));
    let first = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"2"));
    let second = bed.submit(get(b"k"));
    bed.submit(put(b"other", b"x"));
    bed.step();
    let conditional: Vec<bool> = bed
        .server
        .seen
        .iter()
        .map(|seen| seen.commit.is_conditional())
        .collect();
    assert_eq!(
        conditional,
        [false, false, true, true, false],
        "all on their way at once"
    );
    bed.settle();
    assert_eq!(bed.ended[&first], Ended::Value(b"1".to_vec()));
    assert_eq!(bed.ended[&second], Ended::Value(b"2".to_vec()));
    assert_eq!(bed.client.stats().conflicts, 0);
}

/// The server refuses all that was behind a GET; whatever comes meanwhile waits behind that; then all are sent in their
/// order, and without a condition.
#[test]
fn what_was_refused_keeps_its_order() {
    let mut bed = lossless();
    bed.server.script = Box::new(|seen| match seen.commit.is_conditional() {
        true => Fate::Say(Status::Retry),
        false => Fate::Serve,
    });
    bed.submit(put(b"k", b"1"));
    let first = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"2"));
    let second = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"3"));
    bed.step();
    assert_eq!(bed.server.seen.len(), 5);
    bed.until(|bed| bed.client.stats().resubmits > 0);
    let third = bed.submit(get(b"k"));
    bed.settle();
    for (read, value) in [(first, b"1"), (second, b"2"), (third, b"3")] {
        assert_eq!(bed.ended[&read], Ended::Value(value.to_vec()));
    }
}

/// Refusals may be heard in any order.
#[test]
fn what_was_refused_keeps_its_order_whichever_is_heard_first() {
    let mut bed = lossless();
    bed.server.script = Box::new(|seen| match seen.commit.is_conditional() {
        true => Fate::HoldSaying(Status::Retry),
        false => Fate::Serve,
    });
    let first = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"2"));
    let second = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"3"));
    bed.step();
    bed.server.release_reversed();
    bed.settle();
    assert_eq!(bed.ended[&first], Ended::NotFound);
    assert_eq!(bed.ended[&second], Ended::Value(b"2".to_vec()));
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"3".to_vec()));
}

/// A bulk transfer begins at once and not in the lane's turn.
#[test]
fn a_value_too_long_for_a_slot_waits() {
    let mut bed = lossless();
    let long = vec![7; 5000];
    bed.submit(put(b"k", b"short"));
    bed.submit(put(b"k", &long));
    let read = bed.submit(get(b"k"));
    assert_eq!(bed.client.stats().conflicts, 2, "the PUT, and the GET behind it");
    bed.settle();
    assert_eq!(bed.ended[&read], Ended::Value(long));
}

/// A worker that does not run answers late. Nothing is lost, so nothing is sent again.
#[test]
fn what_is_answered_late_is_not_sent_again() {
    let mut bed = lossless();
    bed.server.script = Box::new(|_| Fate::Hold);
    let tokens: Vec<u64> = (0..4u8).map(|key| bed.submit(put(&[key], b"v"))).collect();
    bed.pass(Ns::from_ms(200));
    bed.server.release(false);
    bed.settle();
    assert_eq!(bed.client.stats().retransmits, 0);
    assert!(tokens.iter().all(|token| bed.ended[token] == Ended::Stored));
}

/// But a request whose reply is missing behind that of a later one is sent again soon.
#[test]
fn what_was_overtaken_is_sent_again_soon() {
    let mut bed = lossless();
    let mut first = true;
    bed.server.script = Box::new(move |_| match std::mem::take(&mut first) {
        true => Fate::LoseReply,
        false => Fate::Serve,
    });
    let lost = bed.submit(put(b"a", b"v"));
    let next = bed.submit(put(b"b", b"v"));
    bed.until(|bed| bed.ended.contains_key(&next));
    bed.pass(Ns::from_ms(5));
    assert_eq!(bed.client.stats().retransmits, 1);
    assert_eq!(bed.ended[&lost], Ended::Stored);
}

/// What was sent twice may be executed when the second copy arrives: nothing is posted behind it.
#[test]
fn nothing_is_posted_behind_what_was_sent_again() {
    let mut bed = lossless();
    bed.server.script = Box::new(|seen| match seen.commit == seen.commit.with_attempt(0) {
        true => Fate::LoseRequest,
        false => Fate::Hold,
    });
    bed.submit(put(b"k", b"1"));
    bed.until(|bed| bed.client.stats().retransmits > 0);
    let read = bed.submit(get(b"k"));
    assert_eq!(bed.client.stats().conflicts, 1);
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.server.release(false);
    bed.settle();
    assert_eq!(bed.ended[&read], Ended::Value(b"1".to_vec()));
}

/// A server that is stuck until requests are given up: the last is ruled out first, so that none takes effect before
/// one that has to be sent anew.
#[test]
fn what_is_given_up_takes_effect_in_order_after_all() {
    let mut bed = lossless();
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    for value in [b"1", b"2", b"3"] {
        bed.submit(put(b"k", value));
    }
    bed.submit(put(b"other", b"x"));
    bed.until(|bed| !bed.server.resyncs.is_empty());
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    let asked: Vec<u16> = bed.server.resyncs.iter().map(|resync| resync.slot).collect();
    assert_eq!(asked[..3], [2, 1, 0]);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"3".to_vec()));
}
