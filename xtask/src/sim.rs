//! Campaigns of simulated clusters, by `drover sim` in a build with all assertions that is nearly as fast as a release.

use crate::campaign;
use crate::command::{self, cargo};
use crate::counts::Counts;
use crate::steps::Steps;

/// Options of a campaign.
#[derive(clap::Args)]
pub struct Args {
    /// Number of seeds.
    #[arg(long, default_value_t = 2_000)]
    pub seeds: u64,
    /// Scenario to run, or `all`.
    #[arg(long, default_value = "default")]
    pub scenario: String,
    /// The first seed; random, and printed, unless given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Instead, check that planted mistakes are found.
    #[arg(long)]
    pub planted: bool,
}

/// Fixed seeds of CI, in addition to many fresh ones.
const FIXED_IN_CI: &[&str] = &["--seed", "1", "--seeds", "50"];
const FRESH_IN_CI: &[&str] = &["--seeds", "1000"];

/// Runs a campaign.
pub fn run(steps: &mut Steps, args: &Args) {
    if args.planted {
        steps.run("sim planted", || drover_sim(&["--planted".into()]));
        return;
    }
    let scenarios = match args.scenario.as_str() {
        "all" => {
            let built = steps.run("sim build", || drover_sim(&["--list".into()]));
            if built { campaign::list("herd") } else { return }
        }
        one => Ok(vec![one.to_string()]),
    };
    let scenarios = match scenarios {
        Ok(scenarios) => scenarios,
        Err(why) => {
            steps.run("sim scenarios", || Err(why));
            return;
        }
    };
    for scenario in scenarios {
        steps.run(&format!("sim {scenario}"), || {
            let mut arguments = vec![
                format!("--scenario={scenario}"),
                format!("--seeds={}", args.seeds),
            ];
            arguments.extend(args.seed.map(|seed| format!("--seed={seed}")));
            drover_sim(&arguments)
        });
    }
}

/// Runs CI's seeds, with the release that CI has built.
pub fn smoke(steps: &mut Steps) {
    for (name, arguments) in [
        ("sim fixed", FIXED_IN_CI),
        ("sim fresh", FRESH_IN_CI),
        ("sim planted", &["--planted"][..]),
    ] {
        steps.run(name, || {
            let mut sim = cargo(&["run", "--release", "--quiet", "--", "sim"]);
            command::run(sim.args(arguments)).map(|_| Counts::ONE)
        });
    }
}

fn drover() -> std::process::Command {
    cargo(&[
        "run",
        "--profile",
        "campaign",
        "--quiet",
        "-p",
        "drover",
        "--",
        "sim",
    ])
}

fn drover_sim(arguments: &[String]) -> crate::steps::StepResult {
    command::run(drover().args(arguments)).map(|_| Counts::ONE)
}
