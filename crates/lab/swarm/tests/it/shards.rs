//! Services of shards: a few seeds that find nothing, traces that repeat, mistakes that are found, and what campaigns
//! have found, each as a small case that stays.

use drover_kv::ResultTransfer;
use drover_swarm::campaign;
use drover_swarm::case::Case;
use drover_swarm::shards;
use drover_swarm::shards::kind::Kind;
use drover_swarm::subject::{self, Subject, SubjectJob, Trouble};
use drover_systems::System;
use std::sync::atomic::AtomicU64;

/// Does `job` with the system of this name.
fn with<J: SubjectJob>(system: &str, job: J) -> J::Answer {
    let system = System::named(system).expect("in the table");
    subject::with(system, job).expect("it can be simulated")
}

/// What `seeds` make of a scenario finds nothing.
struct FindNothing<'a> {
    scenario: &'a str,
    seeds: Vec<u64>,
    transfer: ResultTransfer,
}

fn find_nothing(system: &str, scenario: &str, seeds: impl IntoIterator<Item = u64>) {
    find_nothing_by(ResultTransfer::Auto, system, scenario, seeds);
}

/// As [`find_nothing`], with results that come to clients in this way.
fn find_nothing_by(
    transfer: ResultTransfer,
    system: &str,
    scenario: &str,
    seeds: impl IntoIterator<Item = u64>,
) {
    let seeds = seeds.into_iter().collect();
    let job = FindNothing {
        scenario,
        seeds,
        transfer,
    };
    with(system, job);
}

impl SubjectJob for FindNothing<'_> {
    type Answer = ();

    fn run<S: Subject>(self) {
        let scenario = S::scenario(self.scenario).expect("in the table");
        let cases: Vec<Case<S>> = self
            .seeds
            .into_iter()
            .map(|seed| Case {
                transfer: self.transfer,
                ..Case::new(scenario, seed)
            })
            .collect();
        let tally = campaign::search(&cases, 2, false, &AtomicU64::new(0), |_| {});
        let found: Vec<String> = tally
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.case.arguments(), finding.violation))
            .collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        assert!(tally.operations > 0 && tally.judged > 0, "{tally:?}");
    }
}

/// The mistake is found in the scenario of the table, and nothing without it.
struct FindPlanted<'a>(&'a str);

impl SubjectJob for FindPlanted<'_> {
    type Answer = ();

    fn run<S: Subject>(self) {
        let mistake = self.0;
        let planted = S::planted(mistake).expect("in the table");
        let scenario = S::scenario(planted.scenario).expect("in the table");
        let with = |seed| Case {
            planted: Some(planted),
            ..Case::<S>::new(scenario, seed)
        };
        // The rarest, `no-seq` of RDMA-Memcached, shows in one of 79 seeds: in none of 400 once in 160 changes of what seeds draw.
        let found = (1..=400).find(|&seed| campaign::wrong(&with(seed)).is_some());
        let seed = found.unwrap_or_else(|| panic!("{mistake} shows in none of four hundred seeds"));
        find_nothing(S::NAME, planted.scenario, [seed]);
    }
}

/// Every scenario, small: the same seed gives the same trace, another seed another one.
struct Repeats;

impl SubjectJob for Repeats {
    type Answer = ();

    fn run<S: Subject>(self) {
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
}

#[test]
fn a_few_seeds_find_nothing_in_pilaf() {
    find_nothing("pilaf", "default", 1..21);
}

#[test]
fn a_few_seeds_find_nothing_in_farm() {
    find_nothing("farm", "default", 1..21);
}

#[test]
fn a_few_seeds_find_nothing_in_jakiro() {
    find_nothing("jakiro", "default", 1..21);
    find_nothing("jakiro", "slow", 1..21);
    for transfer in [ResultTransfer::Fetch, ResultTransfer::Reply] {
        find_nothing_by(transfer, "jakiro", "default", 1..11);
    }
}

/// A case that is shown again has its results come as they did.
#[test]
fn a_case_repeats_how_results_travel() {
    struct Arguments;

    impl SubjectJob for Arguments {
        type Answer = String;

        fn run<S: Subject>(self) -> String {
            let case: Case<S> = Case {
                transfer: ResultTransfer::Reply,
                ..Case::new(&S::SCENARIOS[0], 7)
            };
            case.arguments()
        }
    }

    let arguments = with("jakiro", Arguments);
    assert_eq!(
        arguments,
        "--system jakiro --scenario default --seed 7 --transfer reply"
    );
}

#[test]
fn a_few_seeds_find_nothing_in_server_reply() {
    find_nothing("server-reply", "default", 1..21);
    find_nothing("server-reply-faithful", "default", 1..11);
}

#[test]
fn a_few_seeds_find_nothing_in_rdma_memcached() {
    find_nothing("rdma-memcached", "default", 1..21);
    find_nothing("rdma-memcached", "large", 1..11);
}

#[test]
fn traces_of_shards_repeat() {
    with("pilaf", Repeats);
    with("farm", Repeats);
    with("jakiro", Repeats);
    with("rdma-memcached", Repeats);
    with("race", Repeats);
}

#[test]
fn a_miss_that_is_trusted_is_found_in_pilaf() {
    with("pilaf", FindPlanted("trusts-misses"));
}

#[test]
fn a_miss_that_is_trusted_is_found_in_farm() {
    with("farm", FindPlanted("trusts-misses"));
}

/// What makes results of Jakiro and ServerReply right is needed.
#[test]
fn missing_protections_are_found_in_jakiro_and_server_reply() {
    for mistake in [
        "no-seq",
        "no-crc",
        "no-recheck",
        "push-into-landing",
        "execute-twice",
    ] {
        with("jakiro", FindPlanted(mistake));
    }
    for mistake in ["no-seq", "no-crc", "execute-twice"] {
        with("server-reply", FindPlanted(mistake));
    }
}

/// Connections break while several updates of a client are under way, and nothing else goes wrong: every update is answered,
/// some after they came again, and none is executed twice.
struct OutliveConnections;

impl SubjectJob for OutliveConnections {
    type Answer = ();

    fn run<S: Subject>(self) {
        let scenario = S::scenario("break").expect("in the table");
        let breaks = S::Trouble::named("breaks").expect("a kind of trouble");
        let (mut updates, mut repeated) = (0, 0);
        for seed in 1..41 {
            let outcome = S::run(&Case {
                kinds: vec![breaks],
                ..Case::<S>::new(scenario, seed)
            });
            assert_eq!(outcome.violations, [], "{} {seed}", S::NAME);
            assert_eq!(outcome.summary.unknown, 0, "{} {seed}", S::NAME);
            let counted = |name| {
                let mut counted = outcome.summary.counted.iter();
                counted
                    .find(|(other, _)| *other == name)
                    .map_or(0, |(_, count)| *count)
            };
            updates += counted("puts") + counted("deletes");
            repeated += counted("updates_repeated");
        }
        println!("{}: {repeated} of {updates} updates came again", S::NAME);
        assert!(repeated >= 10, "{}: only {repeated} updates came again", S::NAME);
    }
}

#[test]
fn updates_outlive_connections() {
    for system in [
        "pilaf",
        "farm",
        "jakiro",
        "server-reply",
        "server-reply-faithful",
        "rdma-memcached",
    ] {
        with(system, OutliveConnections);
    }
}

/// What clients READ in place must stay.
#[test]
fn missing_protections_are_found_in_rdma_memcached() {
    for mistake in ["no-seq", "no-crc", "free-while-read", "execute-twice"] {
        with("rdma-memcached", FindPlanted(mistake));
    }
}

/// A value longer than the service takes was submitted before there was any session to say so, and copied over the end of
/// the memory for values.
#[test]
fn a_value_too_long_is_refused_though_it_was_submitted_before_the_session() {
    find_nothing("pilaf", "large", [53]);
    find_nothing("farm", "large", [53]);
}

/// A cache may evict long before its memory is full, because values have many lengths: then it has to say so.
#[test]
fn what_a_cache_counts_as_evicted_may_be_missed() {
    find_nothing("pilaf", "default", [279661575]);
}

/// A reader with an early clock asked the server about a long value, was told where it is, took it for expired again, and so on.
#[test]
fn what_the_server_says_is_alive_is_taken() {
    find_nothing("pilaf", "default", [279660024, 279659981]);
}

/// Readers took the time of the handshake for the server's, rounded down: they found items of which others had been told that
/// they had expired.
#[test]
fn no_reader_finds_what_has_expired() {
    for seed in [47, 53, 56] {
        assert!(shards::scenario::ALL[0].kinds(seed).contains(&Kind::Expiry));
    }
    find_nothing("farm", "default", [47, 53, 56]);
    find_nothing("pilaf", "default", [38, 47, 53]);
}

/// The simulated card let a CAS overtake torn WRITEs of its own queue pair: chunks were on a node's stack before their entries said so.
#[test]
fn atomics_come_behind_torn_writes() {
    find_nothing("race", "default", [1_795_778_681, 1_795_778_695]);
}

#[test]
fn a_few_seeds_find_nothing_in_race() {
    find_nothing("race", "default", 1..6);
    find_nothing("race", "death", 1..6);
}

/// What makes updates with conditions, and what dead processes leave, right is needed.
#[test]
fn missing_protections_are_found_in_race() {
    for mistake in ["ignored-condition", "left-split"] {
        with("race", FindPlanted(mistake));
    }
}

/// Only in systems that read torn words are there any.
#[test]
fn words_are_torn_where_a_system_allows_it() {
    let has_torn_words = |seed: &u64| shards::scenario::ALL[0].kinds(*seed).contains(&Kind::TornWords);
    let seeds: Vec<u64> = (1..).filter(has_torn_words).take(4).collect();
    find_nothing("race", "default", seeds.clone());
    find_nothing("farm", "default", seeds);
}

/// A client asked for memory that dead ones still had, and was told at its deadline that there is no service.
#[test]
fn a_node_that_waits_for_memory_of_the_dead_is_full() {
    find_nothing("race", "default", [14]);
}

/// A node stopped while clients tried to come in, again and again: each attempt took a place on the others, which only a
/// client that is in could have freed.
#[test]
fn attempts_to_enter_take_no_places() {
    find_nothing("race", "default", [30]);
}

/// Clocks of clients differ: what one of them had called expired, another one found.
#[test]
fn expired_items_do_not_come_back() {
    find_nothing("race", "default", [700_244]);
}
