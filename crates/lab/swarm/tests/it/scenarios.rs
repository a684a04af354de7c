//! Every scenario, small: it finds nothing, the same seed gives the same trace, another seed another one.

use drover_swarm::run::{Case, Outcome, run};
use drover_swarm::scenario::{self, Scenario};
use drover_testkit::alone::alone;

fn small(scenario: &'static Scenario, seed: u64) -> Outcome {
    let case = Case {
        ops: Some(25),
        clients: Some(2),
        ..Case::new(scenario, seed)
    };
    let outcome = run(&case);
    assert_eq!(outcome.violations, [], "{}", case.arguments());
    outcome
}

/// In a process of its own, because traces still depend on addresses in one case. A server that restarts maps new memory. If it gets the
/// address of the old memory, the simulated cache of its core takes the new lines for the old ones. Other threads that map memory
/// meanwhile decide whether it does.
#[test]
fn the_same_seed_the_same_trace_and_another_seed_another() {
    let test = "scenarios::the_same_seed_the_same_trace_and_another_seed_another";
    alone(test, || {
        for scenario in scenario::ALL {
            let (once, again, other) = (small(scenario, 1), small(scenario, 1), small(scenario, 2));
            assert_eq!(once.trace_hash, again.trace_hash, "{}", scenario.name);
            assert_eq!(once.summary, again.summary, "{}", scenario.name);
            assert_eq!(once.timeline, again.timeline, "{}", scenario.name);
            assert_ne!(once.trace_hash, other.trace_hash, "{}", scenario.name);
        }
    });
}

/// Threads change nothing: a cluster knows of no other cluster.
#[test]
fn a_trace_is_the_same_on_any_thread() {
    let scenario = Scenario::named("default").expect("in the table");
    let here = small(scenario, 3).trace_hash;
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || small(scenario, 3).trace_hash))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("it finds nothing"), here);
    }
}
