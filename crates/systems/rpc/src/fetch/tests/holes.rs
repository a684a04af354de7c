//! What the paper leaves open: results, requests and pushes that are not what they seem.

use super::pair::{Completion, NERVOUS, Pair, Verb, layout};
use super::{NoSequence, NoSum, NoSumNoOwnArea, NoZero};
use crate::CallError;
use crate::fetch::{CallerOptions, Choice, Format, Guarded, Guards, SwitchOptions, Transfer};
use drover_base::{Ns, Rng};
use proptest::prelude::*;

/// No mode ever changes.
const CALM: SwitchOptions = SwitchOptions {
    slow_reads: u32::MAX,
    slow_calls: u32::MAX,
    push_time: Ns::from_us(7),
    fast_calls: u32::MAX,
    dwell: Ns::ZERO,
};

#[test]
fn rfp_calls_of_all_sizes_come_back_in_both_formats() {
    for format in [Format::V1, Format::Paper] {
        for transfer in [Transfer::Fetch, Transfer::Reply, Transfer::Auto] {
            let options = CallerOptions {
                transfer,
                first_bytes: 64,
                ..CallerOptions::default()
            };
            let mut pair = Pair::<Guarded>::new(layout(format), options);
            for size in (0..=200).rev().chain(0..=200) {
                let request: Vec<u8> = (0..size).map(|byte| byte as u8 ^ 1).collect();
                let place = size % 2;
                assert_eq!(pair.call(place, &request), Ok(request), "{format:?} {transfer:?}");
            }
        }
    }
}

/// The client READs before the server has taken its second call: what the first call's result does.
fn second_call<G: Guards>() -> Vec<u8> {
    let mut pair = Pair::<G>::with(CALM);
    assert_eq!(pair.call(0, b"first"), Ok(b"first".to_vec()));
    pair.begin(0, b"second");
    pair.finish(0, 2, Ns(0)).expect("a result")
}

#[test]
fn rfp_a_stale_result_is_not_taken() {
    assert_eq!(second_call::<Guarded>(), b"second");
    assert_eq!(second_call::<NoSequence>(), b"first", "the canary");
}

/// A request of ones was taken; the next one is shorter, and its first line arrives before its second. The ones were all
/// over the slot. What the server takes when only the first line is there, and in the end.
fn half_a_request<G: Guards>(format: Format) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut pair = Pair::<G>::of(format, CALM);
    let ones = vec![1; 200];
    assert_eq!(pair.call(0, &ones), Ok(ones));
    let request: Vec<u8> = (0..100).map(|byte| byte + 2).collect();
    pair.begin(0, &request);
    let Some(Verb::Request { len, .. }) = pair.wire.pop_front() else {
        panic!("a request is posted first");
    };
    let mut bytes = vec![0; len];
    pair.memory.requests.copy_out(0, &mut bytes);
    pair.memory.inbound.copy_in(0, &bytes[..64]);
    let half = pair.take(0).map(|_| pair.request.clone());
    pair.memory.inbound.copy_in(64, &bytes[64..]);
    pair.now += Ns::from_us(10);
    let whole = pair.take(0).map(|_| pair.request.clone());
    (half, whole.inspect(|whole| assert_eq!(*whole, request)))
}

#[test]
fn rfp_a_stale_tail_completes_no_request() {
    for format in [Format::V1, Format::Paper] {
        let (half, whole) = half_a_request::<Guarded>(format);
        assert!(half.is_none() && whole.is_some(), "{format:?}");
    }
    // Ours zeroes little and has a checksum; the paper's has only zeros.
    assert!(half_a_request::<NoSum>(Format::V1).0.is_some(), "the canary");
    assert!(half_a_request::<NoZero>(Format::Paper).0.is_some(), "the canary");
    // With a checksum, not even zeros are needed to find that out.
    assert!(half_a_request::<NoZero>(Format::V1).0.is_none());
}

/// Lines of a result are READ in any order while it is published. Returns how many results were wrong, and how often
/// a checksum was.
fn torn_reads<G: Guards>(seed: u64) -> (u32, u64) {
    let mut rng = Rng::new(seed, 0, 0);
    let mut pair = Pair::<G>::with(CALM);
    let mut wrong = 0;
    for call in 0..100u8 {
        let request = vec![call; 180];
        pair.begin(0, &request);
        pair.execute();
        pair.complete();
        assert!(pair.take(0).is_some());
        let Some(Verb::Read { offset, len, .. }) = pair.wire.pop_front() else {
            panic!("a READ follows the request");
        };
        let before = rng.next_u64();
        let (results, landing) = (pair.memory.results.clone(), pair.memory.landing.clone());
        let read = |early: bool| {
            for line in (0..(offset + len).div_ceil(64)).filter(|line| (before >> line & 1 == 1) == early) {
                results.copy_to(line * 64, &landing, line * 64, 64);
            }
        };
        read(true);
        pair.publish(0, &request, Ns(0));
        read(false);
        pair.completions.push_back(Completion::Read(0));
        pair.complete();
        let result = pair.ended.pop().map(|(_, result)| result);
        let result = result.unwrap_or_else(|| pair.finish(0, 1, Ns(0)));
        wrong += u32::from(result != Ok(request));
    }
    (wrong, pair.caller.stats().sum_rejects)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rfp_a_torn_read_is_repeated(seed in any::<u64>()) {
        let (wrong, rejects) = torn_reads::<Guarded>(seed);
        prop_assert!(wrong == 0 && rejects > 0, "{} wrong, {} rejects", wrong, rejects);
        let (wrong, _) = torn_reads::<NoSum>(seed);
        prop_assert!(wrong > 0, "the canary");
    }
}

/// A push is under way for 100 us while the client, whose call it is, has fetched the result: as if the mode had
/// travelled on another queue pair. The client's next call has its result pushed. Returns what it gets.
fn after_a_late_push<G: Guards>() -> (Vec<u8>, u64) {
    let mut pair = Pair::<G>::with(NERVOUS);
    // The mode changes to reply, and back.
    pair.begin(0, b"one");
    assert_eq!(pair.finish(0, 3, Ns(0)), Ok(b"one".to_vec()));
    assert_eq!(pair.caller.stats().switches, [1, 1]);
    // The server has not seen the way back.
    let mode = pair.caller.layout().mode_offset(0, 1);
    pair.memory.inbound.copy_in(mode, &[1]);
    pair.begin(0, b"two");
    assert_eq!(pair.finish_but_land(0), b"two");
    let late = pair.pushes.pop_front().expect("the server has pushed, too");
    pair.callee.pushed(0);
    pair.memory.inbound.copy_in(mode, &[0]);
    pair.now += Ns::from_us(100);
    // Now it waits for a push again, and the old one lands. Its READ finds nothing, so that only the push can be stale.
    pair.memory.results.zero(0, 8);
    pair.begin(0, b"three");
    pair.execute();
    pair.complete();
    pair.execute();
    pair.complete();
    pair.execute();
    pair.land_one(late.0, &late.1);
    pair.poll(0);
    let result = match pair.ended.pop() {
        Some((_, result)) => result,
        None => pair.finish(0, 1, Ns(0)),
    };
    (result.expect("a result"), pair.caller.stats().late_pushes)
}

impl<G: Guards> Pair<G> {
    /// A call that the server answers at once, whose push stays under way while the client fetches.
    fn finish_but_land(&mut self, place: usize) -> Vec<u8> {
        self.execute();
        self.complete();
        assert!(self.echo(place, Ns(0)));
        self.execute();
        self.complete();
        self.ended.pop().expect("it is there").1.expect("a result")
    }
}

#[test]
fn rfp_a_late_push_is_dropped() {
    assert_eq!(after_a_late_push::<Guarded>(), (b"three".to_vec(), 1));
    assert_eq!(after_a_late_push::<NoSequence>().0, b"two", "the canary");
}

/// A pushed result fills a line, so that its tail is in the next one, where a byte of an older result passes for it: the
/// client takes the result, and then its tail lands. What the next call gets.
fn after_a_late_tail<G: Guards>() -> Vec<u8> {
    let options = CallerOptions {
        transfer: Transfer::Reply,
        ..CallerOptions::default()
    };
    let mut pair = Pair::<G>::new(layout(Format::V1), options);
    let ones = vec![1; 100];
    assert_eq!(pair.call(0, &ones), Ok(ones));
    let result = vec![2; 48];
    pair.begin(0, &result);
    pair.execute();
    pair.complete();
    assert!(pair.echo(0, Ns(0)));
    let (push, bytes) = pair.pushes.pop_front().expect("a push under way");
    pair.land_one(push, &bytes[..64]);
    assert!(pair.poll(0), "it is whole but for the tail");
    assert_eq!(pair.ended.pop(), Some((0, Ok(result))));
    pair.land_one(push, &bytes);
    pair.callee.pushed(0);
    pair.begin(0, b"next");
    pair.finish(0, 1, Ns(0)).expect("a result")
}

#[test]
fn rfp_a_late_tail_completes_no_result_again() {
    assert_eq!(after_a_late_tail::<Guarded>(), b"next");
    assert_eq!(after_a_late_tail::<NoSequence>(), [2; 48], "the canary");
}

/// A late push of the first call lands between the two READs of the second call's long result.
fn push_between_two_reads<G: Guards>() -> (bool, bool) {
    let mut pair = Pair::<G>::with(CALM);
    let (first, second) = (vec![1; 200], vec![2; 600]);
    pair.begin(0, &first);
    pair.execute();
    pair.complete();
    assert!(pair.take(0).is_some());
    let mode = pair.caller.layout().mode_offset(0, 1);
    pair.memory.inbound.copy_in(mode, &[1]);
    pair.publish(0, &first, Ns(0));
    pair.memory.inbound.copy_in(mode, &[0]);
    pair.execute();
    pair.complete();
    let is_first = pair.ended.pop() == Some((0, Ok(first)));
    let (late, bytes) = pair.pushes.pop_front().expect("pushed and fetched");
    pair.callee.pushed(0);
    pair.begin(0, b"long");
    pair.execute();
    pair.complete();
    assert!(pair.take(0).is_some());
    pair.publish(0, &second, Ns(0));
    pair.execute();
    pair.complete();
    pair.land_one(late, &bytes);
    pair.execute();
    pair.complete();
    (is_first, pair.ended.pop() == Some((0, Ok(second))))
}

#[test]
fn rfp_a_late_push_lands_beside_the_results_that_are_fetched() {
    assert_eq!(push_between_two_reads::<Guarded>(), (true, true));
    assert_eq!(push_between_two_reads::<NoSum>(), (true, true));
    let (_, is_whole) = push_between_two_reads::<NoSumNoOwnArea>();
    assert!(!is_whole, "the canary");
}

#[test]
fn rfp_a_second_read_follows_if_and_only_if_there_is_more() {
    let options = CallerOptions {
        first_bytes: 64,
        ..CallerOptions::default()
    };
    let mut pair = Pair::<Guarded>::new(layout(Format::V1), options);
    for size in 0..=200 {
        let before = *pair.caller.stats();
        assert_eq!(pair.call(0, &vec![7; size]), Ok(vec![7; size]));
        let after = *pair.caller.stats();
        assert_eq!(
            after.second_reads - before.second_reads,
            u64::from(size > 64),
            "{size} bytes"
        );
        assert_eq!(after.first_reads - before.first_reads, 1);
    }
}

/// A first READ longer than the slot would leave the server's memory.
#[test]
fn rfp_a_first_read_ends_with_the_slot() {
    let options = CallerOptions {
        first_bytes: 1 << 20,
        ..CallerOptions::default()
    };
    let mut pair = Pair::<Guarded>::new(layout(Format::V1), options);
    for change in [false, true] {
        if change {
            let choice = Choice {
                slow_reads: 5,
                first_bytes: 1 << 20,
            };
            pair.caller.set_choice(1, choice);
        }
        pair.begin(1, b"last place");
        pair.execute();
        pair.complete();
        let Some(Verb::Read { offset, len, .. }) = pair.wire.front().copied() else {
            panic!("a READ follows the request");
        };
        assert!(offset + len <= pair.caller.layout().result_stride());
        assert_eq!(pair.finish(1, 1, Ns(0)), Ok(b"last place".to_vec()));
    }
}

#[test]
fn rfp_what_is_too_long_is_said_with_its_length() {
    for transfer in [Transfer::Fetch, Transfer::Reply] {
        let options = CallerOptions {
            transfer,
            ..CallerOptions::default()
        };
        let mut pair = Pair::<Guarded>::new(layout(Format::V1), options);
        let requests = pair.memory.requests.clone();
        let refused = pair
            .caller
            .begin(0, 0, &[&[0; 150], &[0; 51]], Ns::MAX, &requests);
        let (bytes, bytes_max) = (201, 200);
        assert_eq!(refused, Err(CallError::TooLarge { bytes, bytes_max }));
        pair.begin(0, b"how long?");
        pair.execute();
        pair.complete();
        assert!(pair.take(0).is_some());
        pair.publish(0, &[0; 1001], Ns(0));
        let (bytes, bytes_max) = (1001, 1000);
        let result = pair.finish(0, 1, Ns(0));
        assert_eq!(result, Err(CallError::TooLarge { bytes, bytes_max }));
        assert_eq!(pair.call(0, b"on"), Ok(b"on".to_vec()), "the place goes on");
    }
}

#[test]
fn rfp_a_result_that_stays_malformed_ends_the_call() {
    let mut pair = Pair::<Guarded>::with(CALM);
    pair.begin(0, b"request");
    pair.execute();
    pair.complete();
    assert!(pair.echo(0, Ns(0)));
    pair.memory.results.copy_in(20, b"!");
    assert_eq!(pair.finish(0, 1, Ns(0)), Err(CallError::Corrupt));
    assert_eq!(pair.call(0, b"on"), Ok(b"on".to_vec()), "the place goes on");
}

/// The sequence number of a place wraps past 0, and with the paper's header its parity still alternates.
#[test]
fn rfp_sequence_numbers_wrap() {
    for format in [Format::V1, Format::Paper] {
        let mut pair = Pair::<Guarded>::of(format, CALM);
        for call in 0..140_000u32 {
            let request = call.to_le_bytes();
            assert_eq!(pair.call(0, &request).as_deref(), Ok(&request[..]), "{format:?}");
        }
    }
}
