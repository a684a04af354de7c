//! Races between a client that changes a mode and a server that looks at it, and what deadlines do.

use super::NoRecheck;
use super::pair::{NERVOUS, Pair, Verb};
use crate::CallError;
use crate::fetch::{Guarded, Guards, Mode};
use drover_base::Ns;

/// The client has given up READing just before the result was published, and the mode is on its way while the server
/// looks at it.
fn mode_under_way<G: Guards>() -> Pair<G> {
    let mut pair = Pair::<G>::with(NERVOUS);
    pair.begin_until(0, b"request", Ns::from_ms(1));
    pair.execute();
    pair.complete();
    // The READ finds nothing.
    pair.execute();
    pair.complete();
    assert_eq!(pair.caller.mode(0, 1), Mode::Reply);
    assert!(
        matches!(pair.wire.front(), Some(Verb::Mode(_))),
        "{:?}",
        pair.wire
    );
    assert!(pair.take(0).is_some());
    let request = pair.request.clone();
    pair.publish(0, &request, Ns(0));
    assert_eq!((pair.callee.stats().parked, pair.pushes.len()), (1, 0));
    // Nothing happens for as long as the mode does not come.
    for _ in 0..10 {
        pair.now += Ns::from_us(5);
        pair.look_again();
        assert!(pair.pushes.is_empty());
    }
    pair.execute();
    pair
}

/// Steps of 100 ns until the call ends; how long that took.
fn time_to_end<G: Guards>(pair: &mut Pair<G>) -> Ns {
    let released = pair.now;
    while pair.ended.is_empty() {
        pair.now += Ns(100);
        pair.look_again();
        while !pair.pushes.is_empty() {
            pair.land();
        }
        pair.poll(0);
        pair.expire();
    }
    pair.now - released
}

#[test]
fn rfp_a_mode_that_comes_after_the_result_is_seen_within_microseconds() {
    let mut pair = mode_under_way::<Guarded>();
    let took = time_to_end(&mut pair);
    assert_eq!(pair.ended, [(0, Ok(b"request".to_vec()))]);
    assert!(took <= Ns::from_us(10), "{took}");
    assert_eq!(pair.callee.stats().late_pushes, 1);
    // The canary: both wait until the deadline.
    let mut pair = mode_under_way::<NoRecheck>();
    let took = time_to_end(&mut pair);
    assert_eq!(pair.ended, [(0, Err(CallError::Timeout))]);
    assert!(took > Ns::from_us(900), "{took}");
}

/// The second call begins in mode reply, which was WRITTEN before its request.
fn mode_and_next_request(in_order: bool) -> Pair<NoRecheck> {
    let mut pair = Pair::<NoRecheck>::with(NERVOUS);
    pair.begin(0, b"one");
    pair.execute();
    pair.complete();
    assert!(pair.take(0).is_some());
    pair.execute();
    pair.complete();
    let Some(mode @ Verb::Mode(_)) = pair.wire.pop_front() else {
        panic!("the READ found nothing, so the mode changes");
    };
    // The result is pushed whatever the mode on the wire does, so that the next call can begin before the mode lands.
    let Verb::Mode(change) = mode else {
        unreachable!("matched above")
    };
    pair.memory.inbound.copy_in(change.offset, &[1]);
    pair.publish(0, b"one", Ns::from_us(9));
    pair.memory.inbound.copy_in(change.offset, &[0]);
    pair.land();
    assert!(pair.poll(0));
    pair.begin_until(0, b"two", Ns::from_ms(1));
    let request = pair.wire.pop_back().expect("a request");
    let verbs = if in_order {
        [mode, request]
    } else {
        [request, mode]
    };
    pair.execute_one(verbs[0]);
    if in_order {
        pair.execute_one(verbs[1]);
    }
    assert!(pair.take(0).is_some());
    pair.publish(0, b"two", Ns(0));
    if !in_order {
        pair.execute_one(verbs[1]);
    }
    pair.complete();
    pair.ended.clear();
    time_to_end(&mut pair);
    pair
}

/// Mode and request travel on one queue pair, so a call that begins in mode reply is pushed at once, even by a server that
/// looks only once.
#[test]
fn rfp_a_mode_lands_before_the_next_request() {
    let pair = mode_and_next_request(true);
    assert_eq!(pair.ended, [(0, Ok(b"two".to_vec()))]);
    let pair = mode_and_next_request(false);
    assert_eq!(pair.ended, [(0, Err(CallError::Timeout))], "the canary");
}

/// A place whose call passed its deadline is in use until the result has come: the server still executes the request in
/// its slot.
#[test]
fn rfp_a_place_is_free_after_a_timeout_when_its_result_has_come() {
    let mut pair = Pair::<Guarded>::with(NERVOUS);
    pair.begin_until(0, b"slow", Ns::from_us(50));
    pair.execute();
    pair.complete();
    assert!(pair.take(0).is_some());
    pair.execute();
    pair.complete();
    pair.now = Ns::from_us(49);
    pair.expire();
    assert!(pair.ended.is_empty());
    pair.now = Ns::from_us(50);
    pair.expire();
    assert_eq!(pair.ended.pop(), Some((0, Err(CallError::Timeout))));
    pair.expire();
    assert!(pair.ended.is_empty() && !pair.caller.is_free(0));
    pair.publish(0, b"slow", Ns::from_us(50));
    while !pair.caller.is_free(0) {
        pair.now += Ns(100);
        while !pair.wire.is_empty() {
            pair.execute();
        }
        pair.look_again();
        if !pair.pushes.is_empty() {
            pair.land();
        }
        pair.poll(0);
    }
    assert!(pair.ended.is_empty(), "it was reported once");
    assert_eq!(pair.call(0, b"next"), Ok(b"next".to_vec()));
    assert_eq!(pair.caller.stats().timeouts, 1);
}

#[test]
fn rfp_calls_of_a_lost_connection_may_have_been_executed() {
    let mut pair = Pair::<Guarded>::with(NERVOUS);
    pair.begin(0, b"one");
    pair.begin_until(1, b"two", Ns(1));
    pair.now = Ns(1);
    pair.expire();
    let mut lost = Vec::new();
    pair.caller.lose(|place| lost.push(place));
    assert_eq!((lost, pair.ended), (vec![0], vec![(1, Err(CallError::Timeout))]));
}
