//! Misuses a server: its memory must stay within bounds, other clients must be served, and no resources be left behind.
//! Each check is proven by a server, or an abuser, that it must catch.

use super::server::{Kind, Server};
use super::{folder, versus};
use crate::command;
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (the build of profile `campaign`), or the path of another build
    #[arg(long, default_value = "drover")]
    pub server: String,
    /// Only this scenario
    #[arg(long)]
    pub only: Option<String>,
    /// Run a small part of each, as in CI
    #[arg(long)]
    pub short: bool,
    /// Seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Args {
    /// Options of CI: half a minute.
    pub fn short() -> Args {
        Args {
            server: "drover".to_owned(),
            only: None,
            short: true,
            seed: 1,
        }
    }
}

/// A scenario and the numbers of workers to run it with.
const CASES: &[(&str, &[u32])] = &[
    ("idle", &[1, 2]),
    ("slow", &[1, 2]),
    ("garbage", &[2]),
    ("flood", &[1, 2]),
    ("readers", &[1, 2]),
    ("kill", &[2]),
];

/// A run that must fail.
struct Canary {
    scenario: &'static str,
    /// Flags of the server: a limit differs, or is absent.
    flags: &'static [&'static str],
    /// Flags of the abuser.
    more: &'static [&'static str],
    /// Text that the failure must contain.
    said: &'static str,
    /// Whether the whole scenario is needed.
    whole: bool,
}

const CANARIES: &[Canary] = &[
    Canary {
        scenario: "idle",
        flags: &["-c", "500"],
        more: &[],
        said: "an idle connection",
        whole: false,
    },
    Canary {
        scenario: "idle",
        flags: &[],
        more: &["--canary", "leak"],
        said: "descriptors, not",
        whole: false,
    },
    Canary {
        scenario: "kill",
        flags: &[],
        more: &["--canary", "stop"],
        said: "others are",
        whole: false,
    },
    Canary {
        scenario: "flood",
        flags: &["-M"],
        more: &[],
        // Whichever client hits it first: the flood, or others.
        said: "out of memory",
        whole: false,
    },
    // Uses more memory than the bound allows.
    Canary {
        scenario: "flood",
        flags: &["-m", "512"],
        more: &[],
        said: "its memory is",
        whole: true,
    },
];

/// Time limit of a canary, seconds.
const CANARY_PATIENCE: &str = "5";
/// `-m` of the servers.
const MEMORY_MIB: &str = "64";

/// Runs all scenarios, then the canaries.
pub fn run(steps: &mut Steps, args: &Args) {
    let wanted = |scenario: &str| args.only.as_deref().is_none_or(|only| only == scenario);
    for &(scenario, workers) in CASES.iter().filter(|(scenario, _)| wanted(scenario)) {
        // In CI only with as many workers as there are cores.
        let workers = if args.short {
            &workers[workers.len() - 1..]
        } else {
            workers
        };
        for &workers in workers {
            steps.run(&format!("abuse {scenario}, {workers} worker(s)"), || {
                let said = abuse(args, scenario, workers, &[], &[], args.short)?;
                println!("{said}");
                Ok(Counts::ONE)
            });
        }
    }
    let canaries = CANARIES.iter().filter(|canary| wanted(canary.scenario));
    for canary in canaries {
        let words = [canary.flags, canary.more].concat().join(" ");
        steps.run(&format!("abuse {} is noticed: {words}", canary.scenario), || {
            noticed(args, canary)
        });
    }
}

/// Checks that the scenario fails for the expected reason.
fn noticed(args: &Args, canary: &Canary) -> StepResult {
    let more = [canary.more, &["--patience", CANARY_PATIENCE]].concat();
    match abuse(args, canary.scenario, 1, canary.flags, &more, !canary.whole) {
        Ok(said) => Err(format!("not noticed: {said}")),
        Err(why) if why.contains(canary.said) => {
            println!("noticed: {}", why.trim());
            Ok(Counts::ONE)
        }
        Err(why) => Err(format!("noticed as something else: {why}")),
    }
}

/// Runs one scenario against a new server. Returns its summary.
///
/// # Errors
/// The check that failed.
fn abuse(
    args: &Args,
    scenario: &str,
    workers: u32,
    flags: &[&str],
    more: &[&str],
    short: bool,
) -> Result<String, String> {
    let workers = workers.to_string();
    let mut all = vec!["-t", &workers];
    all.extend(flags);
    if !flags.contains(&"-m") {
        all.extend(["-m", MEMORY_MIB]);
    }
    if !flags.contains(&"-c") {
        all.extend(["-c", "12000"]);
    }
    let log = folder().join(format!("abuse-{scenario}-server.txt"));
    let server = Server::start(&Kind::named(&args.server)?, &all, &log)?;
    let mut versus = versus()?;
    versus.arg("abuse").arg(scenario).args(more);
    versus.args([
        "--server",
        &server.address().to_string(),
        "--pid",
        &server.pid().to_string(),
    ]);
    versus.args([
        "--memory-mib",
        MEMORY_MIB,
        "--workers",
        &workers,
        "--seed",
        &args.seed.to_string(),
    ]);
    if short {
        versus.arg("--short");
    }
    command::show(&versus);
    let out = versus.output().map_err(|error| format!("versus: {error}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
    }
}
