//! What campaigns have found, each as a small case that stays.

use drover_swarm::kind::Kind;
use drover_swarm::run::{Case, run};
use drover_swarm::scenario::Scenario;

/// The seed's sizes with these kinds of trouble.
fn case(seed: u64, kinds: &[Kind]) -> Case {
    let scenario = Scenario::named("default").expect("in the table");
    Case {
        kinds: kinds.to_vec(),
        ..Case::new(scenario, seed)
    }
}

fn finds_nothing(case: &Case) {
    let outcome = run(case);
    assert_eq!(outcome.violations, [], "{:?}", case.kinds);
}

/// Workers waited within a step for room in their send queues, and gave up.
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
    let paper = Scenario::named("paper").expect("in the table");
    for seed in [39, 49, 50] {
        finds_nothing(&Case::new(paper, seed));
    }
}
