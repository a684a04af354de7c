//! Campaigns of simulated rooms, by `drover sim` in a build that is nearly as fast as a release and keeps every
//! assertion.

use crate::command::{self, cargo};
use crate::counts::Counts;
use crate::steps::Steps;

/// Options of a campaign.
#[derive(clap::Args)]
pub struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 2_000)]
    pub seeds: u64,
    /// Which scenario, or `all`: each of them.
    #[arg(long, default_value = "default")]
    pub scenario: String,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Instead: whether mistakes put in on purpose are found.
    #[arg(long)]
    pub planted: bool,
}

/// What CI runs: few seeds, always the same.
const SEEDS_IN_CI: &str = "50";

/// A campaign.
pub fn run(steps: &mut Steps, args: &Args) {
    if args.planted {
        steps.run("sim planted", || drover_sim(&["--planted".into()]));
        return;
    }
    for scenario in scenarios(&args.scenario) {
        steps.run(&format!("sim {scenario}"), || {
            drover_sim(&[
                format!("--scenario={scenario}"),
                format!("--seed={}", args.seed),
                format!("--seeds={}", args.seeds),
            ])
        });
    }
}

/// The fixed few seeds of CI, with the release that it has built anyway, and the mistakes.
pub fn smoke(steps: &mut Steps) {
    steps.run("sim", || {
        command::run(&mut cargo(&[
            "run",
            "--release",
            "--quiet",
            "--",
            "sim",
            "--seeds",
            SEEDS_IN_CI,
        ]))
        .map(|_| Counts::ONE)
    });
    steps.run("sim planted", || {
        command::run(&mut cargo(&[
            "run",
            "--release",
            "--quiet",
            "--",
            "sim",
            "--planted",
        ]))
        .map(|_| Counts::ONE)
    });
}

fn scenarios(wanted: &str) -> Vec<String> {
    if wanted != "all" {
        return vec![wanted.to_string()];
    }
    let mut list = campaign();
    let text = command::output(list.arg("--list")).unwrap_or_default();
    // The lines between `scenarios:` and the next title, which begin with two blanks and a name.
    let lines = text.lines().skip(1).take_while(|line| line.starts_with("  "));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect()
}

fn campaign() -> std::process::Command {
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
    command::run(campaign().args(arguments)).map(|_| Counts::ONE)
}
