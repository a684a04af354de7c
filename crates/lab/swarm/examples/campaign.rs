//! A campaign in one thread, in a program that has nothing but the simulator in it: what `cargo xtask coverage`
//! instruments. `drover sim` is the command for people.
//!
//! ```text
//! campaign                                       the names of all scenarios
//! campaign SCENARIO FIRST_SEED SEEDS (MISTAKE)   runs them, with a mistake if one is named; what is found is printed, and
//!                                                is no failure here
//! campaign SYSTEM ...                            the same of another system than HERD
//! ```
#![forbid(unsafe_code)]

use drover_swarm::campaign::search;
use drover_swarm::case::Case;
use drover_swarm::scenario::Scenario;
use drover_swarm::subject::{self, Planted, Subject, SubjectJob};
use drover_systems::System;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.first().and_then(|name| System::named(name));
    if named.is_some() {
        arguments.remove(0);
    }
    let system = named.unwrap_or(System::ALL[0]);
    subject::with(system, Campaign { arguments }).expect("a system of our table can be simulated")
}

/// What was asked for.
struct Campaign {
    arguments: Vec<String>,
}

impl SubjectJob for Campaign {
    type Answer = ExitCode;

    fn run<S: Subject>(self) -> ExitCode {
        let numbers = self.arguments.iter().skip(1).filter_map(|n| n.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        let scenario = self.arguments.first().and_then(|name| S::scenario(name));
        match (scenario, &numbers[..]) {
            (Some(scenario), &[first, seeds]) => {
                let planted = self.arguments.get(3).and_then(|name| S::planted(name));
                play::<S>(scenario, first, seeds, planted)
            }
            (None, []) if self.arguments.is_empty() => {
                S::SCENARIOS
                    .iter()
                    .for_each(|scenario| println!("{}", scenario.name));
                ExitCode::SUCCESS
            }
            _ => {
                eprintln!("usage: campaign [SYSTEM] [SCENARIO FIRST_SEED SEEDS [MISTAKE]]");
                ExitCode::from(2)
            }
        }
    }
}

fn play<S: Subject>(
    scenario: &'static Scenario<S::Trouble>,
    first: u64,
    seeds: u64,
    planted: Option<&'static Planted<S::Mistake>>,
) -> ExitCode {
    let cases: Vec<Case<S>> = (first..first + seeds)
        .map(|seed| Case {
            planted,
            ..Case::new(scenario, seed)
        })
        .collect();
    if let [case] = &cases[..] {
        println!("{}: {:?}", case.arguments(), case.kinds);
        let outcome = S::run(case);
        outcome.timeline.iter().for_each(|line| println!("  {line}"));
        println!("{}\ntrace hash  {:016x}", outcome.summary, outcome.trace_hash);
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
