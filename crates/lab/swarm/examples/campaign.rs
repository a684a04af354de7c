//! A campaign in one thread, in a program that has nothing but the simulator in it: what `cargo xtask coverage`
//! instruments. `drover sim` is the command for people.
//!
//! ```text
//! campaign                            the names of all scenarios
//! campaign SCENARIO FIRST_SEED SEEDS  runs them; what is found is printed, and is no failure here
//! ```
#![forbid(unsafe_code)]

use drover_swarm::campaign::search;
use drover_swarm::run::Case;
use drover_swarm::scenario::{self, Scenario};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).filter_map(|n| n.parse().ok()).collect();
    let scenario = arguments.first().and_then(|name| Scenario::named(name));
    match (scenario, &numbers[..]) {
        (Some(scenario), &[first, seeds]) => run(scenario, first, seeds),
        (None, []) if arguments.is_empty() => {
            scenario::ALL
                .iter()
                .for_each(|scenario| println!("{}", scenario.name));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: campaign [SCENARIO FIRST_SEED SEEDS]");
            ExitCode::from(2)
        }
    }
}

fn run(scenario: &'static Scenario, first: u64, seeds: u64) -> ExitCode {
    let cases: Vec<Case> = (first..first + seeds)
        .map(|seed| Case::new(scenario, seed))
        .collect();
    if let [case] = &cases[..] {
        println!("{}: {:?}", case.arguments(), case.kinds);
    }
    let tally = search(&cases, 1, false, &AtomicU64::new(0), |finding| {
        println!("found: {}: {}", finding.case.arguments(), finding.violation);
    });
    println!(
        "{}: {} runs, {} operations, {} found something",
        scenario.name,
        tally.cases,
        tally.operations,
        tally.findings.len()
    );
    ExitCode::SUCCESS
}
