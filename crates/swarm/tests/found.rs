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
