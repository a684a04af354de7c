//! The tests: clean seeds, and planted mistakes that must be found.

use super::check::Broken;
use super::{Counts, Flaw, run};
use drover_testkit::seeds::Seeds;

/// Plays fresh seeds, none of which may break a rule. With 2 `replicas` there are copies.
fn are_clean(replicas: u8) {
    let seeds = Seeds::new(50, 1_950);
    println!("{seeds}");
    let mut counts = Counts::default();
    seeds.each(|seed| match run(seed, replicas, None) {
        Ok(of_run) => counts.add(of_run),
        Err(broken) => panic!("seed {seed}: {broken:?}"),
    });
    println!("{counts:?}");
    if !seeds.is_repetition() {
        let Counts {
            operations,
            elsewhere,
            forwarded,
            handed_over,
            lost,
            pauses,
            crashes,
            suppressed,
            promoted,
            completed_copies,
            restarted_copies,
        } = counts;
        let of_copies = [promoted, completed_copies, restarted_copies];
        let all = [
            operations,
            elsewhere,
            forwarded,
            handed_over,
            lost,
            pauses,
            crashes,
            suppressed,
        ];
        let mut all = all.iter().chain(of_copies.iter().filter(|_| replicas > 1));
        assert!(
            all.all(|count| *count > 0),
            "something never happened: {counts:?}"
        );
    }
}

#[test]
fn no_seed_breaks_a_rule() {
    are_clean(1);
}

#[test]
fn no_seed_breaks_a_rule_with_copies() {
    are_clean(2);
}

#[test]
fn a_seed_determines_the_run() {
    Seeds::new(0, 20).each(|seed| {
        let counts = || format!("{:?}", run(seed, 2, None));
        assert_eq!(counts(), counts());
    });
}

/// Most seeds that a planted mistake may survive.
const FOUND_WITHIN: u64 = 200;

/// Plays fresh seeds until one breaks the rule that the mistake is about.
fn is_found(flaw: Flaw, rule: fn(&Broken) -> bool) {
    is_found_with(1, flaw, rule);
}

fn is_found_with(replicas: u8, flaw: Flaw, rule: fn(&Broken) -> bool) {
    let seeds = Seeds::new(0, FOUND_WITHIN);
    println!("{seeds}");
    let (mut played, mut found) = (0, None);
    seeds.each(|seed| {
        if found.is_none() {
            played += 1;
            found = run(seed, replicas, Some(flaw)).err().filter(rule).map(|_| seed);
        }
    });
    match found {
        Some(seed) => println!("{flaw:?} is found by seed {seed}, number {played}"),
        None => assert!(seeds.is_repetition(), "{flaw:?} is not found by {played} seeds"),
    }
}

/// Something stale was read, or something acknowledged was lost.
fn in_history(broken: &Broken) -> bool {
    matches!(broken, Broken::NotLinearizable { .. })
}

#[test]
fn a_member_that_checks_no_epoch_is_found() {
    is_found(Flaw::NoEpochCheck, in_history);
}

#[test]
fn a_lease_that_is_not_honoured_is_found() {
    is_found(Flaw::LeaseNotHonoured, in_history);
}

#[test]
fn a_hand_over_without_a_barrier_is_found() {
    is_found(Flaw::NoBarrier, in_history);
}

#[test]
fn a_member_that_forwards_twice_is_found() {
    is_found(Flaw::ForwardsTwice, |broken| {
        matches!(broken, Broken::ForwardedTwice { .. })
    });
}

#[test]
fn items_that_outlive_their_tenure_are_found() {
    is_found(Flaw::KeepsOldItems, in_history);
}

#[test]
fn serving_on_without_a_registry_is_found() {
    is_found(Flaw::ServesOn, in_history);
}

#[test]
fn clocks_that_are_too_slow_for_a_lease_are_found() {
    is_found(Flaw::SlowClocks, in_history);
}

#[test]
fn replies_before_the_keeper_has_what_they_say_are_found() {
    is_found_with(2, Flaw::RepliesEarly, in_history);
}

#[test]
fn an_incomplete_copy_that_is_promoted_is_found() {
    is_found_with(2, Flaw::CompletesUnfilled, in_history);
}

#[test]
fn replies_without_keeper_or_new_map_are_found() {
    is_found_with(2, Flaw::ReleasesUncommitted, in_history);
}

#[test]
fn a_keeper_that_takes_an_older_tenure_is_found() {
    is_found_with(2, Flaw::TakesOldTenures, in_history);
}

#[test]
fn a_keeper_that_takes_an_older_message_is_found() {
    is_found_with(2, Flaw::TakesOldNumbers, in_history);
}
