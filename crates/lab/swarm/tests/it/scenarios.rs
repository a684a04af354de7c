//! Every scenario, small: it finds nothing, the same seed gives the same trace, another seed another one.

use drover_mem::{PageWish, Region};
use drover_swarm::case;
use drover_swarm::herd::Herd;
use drover_swarm::outcome::Outcome;
use drover_swarm::scenario::Scenario;
use drover_swarm::subject::Subject;
use drover_swarm::workers::kind::Kind;
use std::process::Command;

type Case = case::Case<Herd>;

fn small(scenario: &'static Scenario<Kind>, seed: u64) -> Outcome {
    let case = Case {
        ops: Some(25),
        clients: Some(2),
        ..Case::new(scenario, seed)
    };
    let outcome = Herd::run(&case);
    assert_eq!(outcome.violations, [], "{}", case.arguments());
    outcome
}

#[test]
fn the_same_seed_the_same_trace_and_another_seed_another() {
    for scenario in Herd::SCENARIOS {
        let (once, again, other) = (small(scenario, 1), small(scenario, 1), small(scenario, 2));
        assert_eq!(once.trace_hash, again.trace_hash, "{}", scenario.name);
        assert_eq!(once.summary, again.summary, "{}", scenario.name);
        assert_eq!(once.timeline, again.timeline, "{}", scenario.name);
        assert_ne!(once.trace_hash, other.trace_hash, "{}", scenario.name);
    }
}

/// A run in which workers restart: they give their partitions' memory back and map other memory in its place.
fn restarts() -> u64 {
    let case = Case::new(Herd::scenario("default").expect("in the table"), 12345);
    let outcome = Herd::run(&case);
    let begins_again = |line: &&String| line.contains("begins again");
    assert!(
        outcome.timeline.iter().filter(begins_again).count() > 1,
        "{:?}",
        outcome.timeline
    );
    outcome.trace_hash
}

/// Which addresses the memory of a restarted worker gets depends on the gaps that others leave.
#[test]
fn a_trace_does_not_depend_on_addresses() {
    let mut others: Vec<Region> = Vec::new();
    let hash = restarts();
    for round in 0..4 {
        let sizes = [1, 3, 16, 256, 257, 1024].map(|pages| pages * 4096 * (1 + round % 2));
        others.extend(sizes.map(|bytes| Region::private(bytes, PageWish::HugeIfAny).expect("memory")));
        let mut index = 0;
        others.retain(|_| {
            index += 1;
            index % (2 + round) != 0
        });
        assert_eq!(restarts(), hash, "round {round}");
    }
}

/// The system places the memory of every process elsewhere.
#[test]
fn a_trace_is_the_same_in_any_process() {
    let test = "scenarios::a_trace_is_the_same_in_any_process";
    let child = "DROVER_TRACE_OF_A_CHILD";
    if std::env::var_os(child).is_some() {
        println!("trace={:016x}", restarts());
        return;
    }
    let hash = format!("trace={:016x}", restarts());
    for _ in 0..3 {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args([test, "--exact", "--nocapture"]).env(child, "1");
        let output = command.output().expect("a child process");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&hash), "{hash} here, and in a child\n{said}");
    }
}

/// Threads change nothing: a cluster knows of no other cluster.
#[test]
fn a_trace_is_the_same_on_any_thread() {
    let scenario = Herd::scenario("default").expect("in the table");
    let here = small(scenario, 3).trace_hash;
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || small(scenario, 3).trace_hash))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("it finds nothing"), here);
    }
}
