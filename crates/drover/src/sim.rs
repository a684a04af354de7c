//! `drover sim`: real servers and clients in a simulated cluster where things go wrong, and a check of what they did.

use crate::exit::{self, Failure, USAGE};
use crate::figure::jobs;
use drover_bench::{COMMIT, Progress};
use drover_kv::{ResultTransfer, SystemTable};
use drover_swarm::campaign::{self, Finding, Tally};
use drover_swarm::case::Case;
use drover_swarm::outcome::Outcome;
use drover_swarm::subject::{self, Subject, SubjectJob, Trouble};
use drover_systems::System;
use std::ops::Range;
use std::process::ExitCode;

/// Arguments of `sim`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  drover sim --list                              scenarios and kinds of trouble
  drover sim --scenario loss --seed 7            one run; the last line is its trace hash
  drover sim --seeds 2000                        2000 seeds that nobody ran before, on all cores
  drover sim --seed 1 --seeds 2000               seeds 1 to 2000 of the default scenario
  drover sim --system pilaf --seeds 2000         another system, which has scenarios of its own
  drover sim --system jakiro --transfer reply --seeds 2000     with results that the server writes to the clients
  drover sim --seed 7 --without stalls,skew      the same run with less trouble
  drover sim --planted                           whether mistakes put in on purpose are found

Exit status 1: something was found. What was found is shrunk, and the command that shows it again is printed.")]
pub struct Args {
    /// Which system
    #[arg(long, value_name = "NAME", help = system_help())]
    system: Option<String>,
    /// Scenario: which kinds of trouble may happen [default: `default`; with `--planted`: the scenario of each mistake]
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Seed of the run, or the first seed of a campaign [default: 1; for a campaign: drawn at random, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run a campaign of this many seeds [with `--planted`: at most this many per mistake, default 300]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// List scenarios, kinds of trouble, and mistakes that can be planted
    #[arg(long)]
    list: bool,
    /// Leave these kinds of trouble out
    #[arg(long, value_delimiter = ',', value_name = "KIND,..")]
    without: Vec<String>,
    /// Operations per client, instead of what the seed draws
    #[arg(long, value_name = "N")]
    ops: Option<usize>,
    /// Clients, instead of what the seed draws
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// How results come to clients, of a system that knows several ways: auto, fetch (clients READ them) or reply (the
    /// server WRITEs them)
    #[arg(long, value_name = "HOW", default_value = "auto", hide_default_value = true)]
    transfer: ResultTransfer,
    /// Plant this mistake in the system
    #[arg(long, value_name = "MISTAKE")]
    plant: Option<String>,
    /// Plant every mistake in turn, and check that a seed finds it
    #[arg(long)]
    planted: bool,
    /// Threads that run a campaign [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print findings as they were found, without shrinking them
    #[arg(long)]
    no_shrink: bool,
}

fn system_help() -> String {
    format!(
        "Which system: {} [default: {}]",
        System::names(", "),
        System::ALL[0]
    )
}

/// Default number of seeds within which a planted mistake must be found.
const PLANTED_SEEDS: u64 = 300;
/// Maximum number of a campaign's findings that are shrunk.
const SHRUNK_MAX: usize = 5;

/// Runs one seed or, with `--seeds`, many; or checks that planted mistakes are found; or lists what can be run. Exit
/// status 1: a violation was found, or with `--planted` a mistake was not found.
pub fn run<T: SystemTable>(args: &Args) -> ExitCode {
    exit::from_result(sim::<T>(args))
}

fn sim<T: SystemTable>(args: &Args) -> Result<(), Failure> {
    let refuse = |name: &str, why: String| Failure::new(USAGE, format!("--system {name}: {why}"));
    let system = match &args.system {
        None => T::ALL[0],
        Some(name) => T::named(name).ok_or_else(|| refuse(name, format!("expected {}", T::names(" or "))))?,
    };
    if args.transfer != ResultTransfer::Auto && !system.facts().offers.transfer {
        let (name, way) = (system.facts().name, args.transfer.name());
        let why = format!("--transfer {way} does not apply: its results come in one way only");
        return Err(refuse(name, why));
    }
    subject::with(system, Sim(args))
        .unwrap_or_else(|| Err(refuse(system.facts().name, "it cannot be simulated".to_owned())))
}

/// What was typed, to be done with a system.
struct Sim<'a>(&'a Args);

impl SubjectJob for Sim<'_> {
    type Answer = Result<(), Failure>;

    fn run<S: Subject>(self) -> Result<(), Failure> {
        let args = self.0;
        if args.list {
            list::<S>();
            return Ok(());
        }
        if args.planted {
            return search_planted::<S>(args);
        }
        match args.seeds {
            None => one(args, &case::<S>(args, "default", args.seed.unwrap_or(1))?),
            Some(seeds) => many::<S>(args, seeds),
        }
    }
}

fn list<S: Subject>() {
    println!("scenarios:");
    for scenario in S::SCENARIOS {
        println!("  {:<12} {}", scenario.name, scenario.about);
    }
    let names: Vec<&str> = S::Trouble::ALL.iter().map(|kind| kind.name()).collect();
    println!("kinds of trouble:\n  {}", names.join(" "));
    println!("mistakes to plant:");
    for planted in S::PLANTED {
        println!("  {:<14} {}", planted.name, planted.about);
    }
}

/// The first seed of a campaign: the one that was typed, or one that nobody is likely to have run.
fn first_seed(args: &Args) -> u64 {
    args.seed.unwrap_or_else(campaign::fresh_seed)
}

/// The range of `count` seeds that begins with `first`.
///
/// # Errors
/// `first + count` is over [`u64::MAX`].
pub fn seeds_from(first: u64, count: u64) -> Result<Range<u64>, Failure> {
    let end = first.checked_add(count);
    let beyond = || {
        Failure::new(
            USAGE,
            format!("--seed {first} --seeds {count}: seeds end at {}", u64::MAX - 1),
        )
    };
    Ok(first..end.ok_or_else(beyond)?)
}

/// What was typed, for one seed; `scenario` unless another one was.
fn case<S: Subject>(args: &Args, scenario: &str, seed: u64) -> Result<Case<S>, Failure> {
    let unknown = |what: &str, name: &str| {
        let system = S::NAME;
        Failure::new(
            USAGE,
            format!("{system} has no {what} `{name}`; see drover sim --system {system} --list"),
        )
    };
    let name = args.scenario.as_deref().unwrap_or(scenario);
    let scenario = S::scenario(name).ok_or_else(|| unknown("scenario", name))?;
    let mut case = Case::new(scenario, seed);
    for name in &args.without {
        let kind = S::Trouble::named(name).ok_or_else(|| unknown("kind of trouble", name))?;
        case.kinds.retain(|other| *other != kind);
    }
    if let Some(name) = &args.plant {
        case.planted = Some(S::planted(name).ok_or_else(|| unknown("mistake", name))?);
    }
    (case.ops, case.clients, case.transfer) = (args.ops, args.clients, args.transfer);
    Ok(case)
}

/// The one command that shows a case again.
fn again<S: Subject>(case: &Case<S>) -> String {
    format!(
        "cargo run --release -- sim {}   # at commit {COMMIT}",
        case.arguments()
    )
}

fn one<S: Subject>(args: &Args, case: &Case<S>) -> Result<(), Failure> {
    let kinds: Vec<&str> = case.kinds.iter().map(|kind| kind.name()).collect();
    println!(
        "scenario {}, seed {}: {}",
        case.scenario.name,
        case.seed,
        kinds.join(" ")
    );
    let outcome = match campaign::judge(case) {
        Ok(outcome) => outcome,
        Err(violation) => {
            return Err(Failure::new(1, format!("{violation}\nagain: {}", again(case))));
        }
    };
    outcome.timeline.iter().for_each(|line| println!("  {line}"));
    println!("{}", outcome.summary);
    let failed = complain(args, case, &outcome);
    println!("trace hash  {:016x}", outcome.trace_hash);
    match failed {
        0 => Ok(()),
        count => Err(Failure::new(
            1,
            format!("{count} violations; again: {}", again(case)),
        )),
    }
}

fn complain<S: Subject>(args: &Args, case: &Case<S>, outcome: &Outcome) -> usize {
    for violation in &outcome.violations {
        println!("VIOLATION   {violation}");
    }
    if let Some(violation) = outcome.violations.first()
        && !args.no_shrink
    {
        let finding = Finding {
            case: case.clone(),
            violation: violation.clone(),
        };
        let least = campaign::shrink(&finding);
        println!("smaller     {}", again(&least.case));
    }
    outcome.violations.len()
}

fn many<S: Subject>(args: &Args, seeds: u64) -> Result<(), Failure> {
    let range = seeds_from(first_seed(args), seeds)?;
    let scenario = args.scenario.as_deref().unwrap_or("default");
    println!(
        "scenario {scenario}, seeds {} to {}",
        range.start,
        range.start + seeds.saturating_sub(1)
    );
    let cases: Vec<Case<S>> = range
        .map(|seed| case(args, scenario, seed))
        .collect::<Result<_, _>>()?;
    let (tally, seconds) = campaign(args, &format!("scenario {scenario}"), &cases, false);
    println!(
        "{} seeds of scenario {scenario}: {} operations ({} indeterminate), {} faults of messages, {} events",
        tally.cases, tally.operations, tally.unknown, tally.message_faults, tally.events
    );
    println!(
        "{seconds:.1} s, {:.1} seeds/s, {:.2} M events/s; {} keys judged, {} keys overlapped too much to be judged",
        tally.cases as f64 / seconds,
        tally.events as f64 / seconds / 1e6,
        tally.judged,
        tally.unjudged
    );
    for finding in tally.findings.iter().take(SHRUNK_MAX) {
        let least = if args.no_shrink {
            finding.clone()
        } else {
            campaign::shrink(finding)
        };
        println!("smaller:    {}", again(&least.case));
    }
    match tally.findings.len() {
        0 => {
            println!("no violation");
            Ok(())
        }
        count => Err(Failure::new(1, format!("violations in {count} seeds"))),
    }
}

/// Every mistake must be found, and nothing where there is none.
fn search_planted<S: Subject>(args: &Args) -> Result<(), Failure> {
    let seeds = args.seeds.unwrap_or(PLANTED_SEEDS);
    let range = seeds_from(first_seed(args), seeds)?;
    println!("mistakes, each in up to {seeds} seeds from {} on", range.start);
    let mut missed = Vec::new();
    for planted in S::PLANTED {
        let cases = range.clone().map(|seed| {
            let case = case::<S>(args, planted.scenario, seed)?;
            Ok(Case {
                planted: Some(planted),
                ..case
            })
        });
        let cases: Vec<Case<S>> = cases.collect::<Result<_, Failure>>()?;
        let (tally, seconds) = campaign(args, planted.name, &cases, true);
        match tally.findings.first() {
            None => missed.push(planted.name),
            Some(finding) => println!(
                "{:<14} found at seed {} of scenario {} by `{}` ({seconds:.1} s): {}",
                planted.name,
                finding.case.seed,
                finding.case.scenario.name,
                finding.violation.rule,
                planted.about
            ),
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(
            1,
            format!("not found within {seeds} seeds: {}", missed.join(", ")),
        )),
    }
}

/// Runs cases with a progress bar; tells findings as they come. Returns the seconds it took, too.
fn campaign<S: Subject>(args: &Args, title: &str, cases: &[Case<S>], stop_early: bool) -> (Tally<S>, f64) {
    // Panics are findings, and told as such.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let progress = Progress::new(true);
    let counter = progress.phase(title.to_owned(), cases.len() as u64);
    let begun = clock();
    let tell = |finding: &Finding<S>| {
        if !stop_early {
            eprintln!(
                "seed {}: {}\n  again: {}",
                finding.case.seed,
                finding.violation,
                again(&finding.case)
            );
        }
    };
    let tally = campaign::search(cases, args.jobs.unwrap_or_else(jobs), stop_early, &counter, tell);
    drop(progress);
    std::panic::set_hook(usual);
    (tally, clock() - begun)
}

/// Seconds since the first call.
#[allow(
    clippy::disallowed_methods,
    reason = "a campaign says how long it took; nothing in it depends on that"
)]
fn clock() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_would_overflow_are_refused() {
        assert_eq!(seeds_from(7, 3).expect("seeds"), 7..10);
        let refused = seeds_from(u64::MAX, 1).expect_err("beyond the last seed");
        assert_eq!(refused.code, USAGE);
    }
}
