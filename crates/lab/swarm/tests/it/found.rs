//! What campaigns have found, each as a small case that stays.

use drover_swarm::campaign;
use drover_swarm::case;
use drover_swarm::herd::Herd;
use drover_swarm::subject::Subject;
use drover_swarm::workers::kind::Kind;

type Case = case::Case<Herd>;

/// The seed's sizes with these kinds of trouble.
fn case(seed: u64, kinds: &[Kind]) -> Case {
    let scenario = Herd::scenario("default").expect("in the table");
    Case {
        kinds: kinds.to_vec(),
        ..Case::new(scenario, seed)
    }
}

fn finds_nothing(case: &Case) {
    let outcome = Herd::run(case);
    assert_eq!(outcome.violations, [], "{:?}", case.kinds);
}

/// Workers waited within a step for space in their send queues, and gave up.
#[test]
fn a_full_send_queue() {
    for seed in [7, 12, 25] {
        finds_nothing(&case(seed, &[Kind::ShortQueues]));
    }
}

/// A PUT in the paper's format that was given up while the server stood still was executed again; requests ruled out
/// stayed in their slots and were taken for the next ones there; and after a lost request the server waited for one
/// that had been given up, and answered every later one under a wrong number.
#[test]
fn the_papers_requests_given_up() {
    let kinds = [Kind::Packets, Kind::Stalls, Kind::Pressure, Kind::Paper];
    finds_nothing(&case(17, &kinds));
    finds_nothing(&case(15, &[Kind::Silence, Kind::Paper]));
    finds_nothing(&case(30, &[Kind::Silence, Kind::Paper]));
    let paper = Herd::scenario("paper").expect("in the table");
    for seed in [39, 49, 50] {
        finds_nothing(&Case::new(paper, seed));
    }
}

/// Seeds beyond those that campaigns always played: an executed PUT that executed again, mixed bytes, a foreign value,
/// workers that were idle behind datagrams, requests that overtook each other in the simulated card; a cluster
/// whose acceptor looked more rarely than operations had time (703788599); and a hot key that was evicted because items
/// with one use had been kept before it.
#[test]
fn seeds_that_nobody_had_run() {
    for (name, seeds) in [
        (
            "default",
            &[7020698, 7013576, 7023272, 5001762, 7002323, 588927661, 703788599][..],
        ),
        ("worker", &[9001337]),
        ("silence", &[9002416]),
        ("calm", &[7001513]),
        ("pressure", &[1795675938774]),
    ] {
        let scenario = Herd::scenario(name).expect("in the table");
        for &seed in seeds {
            finds_nothing(&Case::new(scenario, seed));
        }
    }
}

/// The first of these seeds in which `mistake` shows, and that nothing shows without it.
fn shows(mistake: &str, scenario: &str, seeds: std::ops::Range<u64>) {
    let scenario = Herd::scenario(scenario).expect("in the table");
    let planted = Herd::planted(mistake);
    assert!(planted.is_some(), "{mistake} is in the table");
    let with = |seed| Case {
        planted,
        ..Case::new(scenario, seed)
    };
    let found = seeds.clone().find(|&seed| campaign::wrong(&with(seed)).is_some());
    let seed = found.unwrap_or_else(|| panic!("{mistake} does not show in {seeds:?}"));
    finds_nothing(&Case::new(scenario, seed));
}

#[test]
fn long_replies_are_sent_whole() {
    shows("rebuilds", "large", 1..200);
}

#[test]
fn late_messages_arrive_whole() {
    shows("splits-late", "packet", 1..200);
}

#[test]
fn no_worker_is_idle_behind_datagrams() {
    shows("idles", "backlog", 1..200);
}

#[test]
fn a_restarted_worker_knows_what_it_did() {
    shows("believes-slots", "restart", 1..300);
}
