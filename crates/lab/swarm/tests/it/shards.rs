//! Services of shards: a few seeds that find nothing, traces that repeat, mistakes that are found, and what campaigns
//! have found, each as a small case that stays.

use drover_kv_farm::Farm;
use drover_kv_pilaf::Pilaf;
use drover_swarm::campaign;
use drover_swarm::case::Case;
use drover_swarm::shards::kind::Kind;
use drover_swarm::subject::Subject;
use std::sync::atomic::AtomicU64;

/// What `seeds` make of a scenario finds nothing.
fn find_nothing<S: Subject>(scenario: &str, seeds: impl IntoIterator<Item = u64>) {
    let scenario = S::scenario(scenario).expect("in the table");
    let cases: Vec<Case<S>> = seeds.into_iter().map(|seed| Case::new(scenario, seed)).collect();
    let tally = campaign::search(&cases, 2, false, &AtomicU64::new(0), |_| {});
    let found: Vec<String> = tally
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.case.arguments(), finding.violation))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(tally.operations > 0 && tally.judged > 0, "{tally:?}");
}

/// The mistake is found in the scenario of the table, and nothing without it.
fn find_planted<S: Subject>(mistake: &str) {
    let planted = S::planted(mistake).expect("in the table");
    let scenario = S::scenario(planted.scenario).expect("in the table");
    let with = |seed| Case {
        planted: Some(planted),
        ..Case::<S>::new(scenario, seed)
    };
    let found = (1..100).find(|&seed| campaign::wrong(&with(seed)).is_some());
    let seed = found.unwrap_or_else(|| panic!("{mistake} shows in none of a hundred seeds"));
    find_nothing::<S>(planted.scenario, [seed]);
}

/// Every scenario, small: the same seed gives the same trace, another seed another one.
fn repeats<S: Subject>() {
    for scenario in S::SCENARIOS {
        let small = |seed| {
            let outcome = S::run(&Case {
                ops: Some(25),
                clients: Some(2),
                ..Case::<S>::new(scenario, seed)
            });
            assert_eq!(outcome.violations, [], "{} {seed}", scenario.name);
            (outcome.trace_hash, outcome.summary, outcome.timeline)
        };
        let once = small(1);
        assert_eq!(once, small(1), "{}", scenario.name);
        assert_ne!(once.0, small(2).0, "{}", scenario.name);
    }
}

#[test]
fn a_few_seeds_find_nothing_in_pilaf() {
    find_nothing::<Pilaf>("default", 1..21);
}

#[test]
fn a_few_seeds_find_nothing_in_farm() {
    find_nothing::<Farm>("default", 1..21);
}

#[test]
fn traces_of_shards_repeat() {
    repeats::<Pilaf>();
    repeats::<Farm>();
}

#[test]
fn a_miss_that_is_trusted_is_found_in_pilaf() {
    find_planted::<Pilaf>("trusts-misses");
}

#[test]
fn a_miss_that_is_trusted_is_found_in_farm() {
    find_planted::<Farm>("trusts-misses");
}

/// A value longer than the service takes was submitted before there was any session to say so, and copied over the end of
/// the memory for values.
#[test]
fn a_value_too_long_is_refused_though_it_was_submitted_before_the_session() {
    find_nothing::<Pilaf>("large", [53]);
    find_nothing::<Farm>("large", [53]);
}

/// A cache may evict long before its memory is full, because values have many lengths: then it has to say so.
#[test]
fn what_a_cache_counts_as_evicted_may_be_missed() {
    find_nothing::<Pilaf>("default", [279661575]);
}

/// A reader with an early clock asked the server about a long value, was told where it is, took it for expired again, and so on.
#[test]
fn what_the_server_says_is_alive_is_taken() {
    find_nothing::<Pilaf>("default", [279660024, 279659981]);
}

/// Readers took the time of the handshake for the server's, rounded down: they found items of which others had been told that
/// they had expired.
#[test]
fn no_reader_finds_what_has_expired() {
    let expires = |case: &Case<Farm>| case.kinds.contains(&Kind::Expiry);
    let scenario = Farm::scenario("default").expect("in the table");
    for seed in [47, 53, 56] {
        assert!(expires(&Case::new(scenario, seed)));
    }
    find_nothing::<Farm>("default", [47, 53, 56]);
    find_nothing::<Pilaf>("default", [38, 47, 53]);
}
