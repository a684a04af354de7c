//! Campaigns of simulated clusters, by `drover sim` in a build with all assertions that is nearly as fast as a release.

use crate::campaign;
use crate::command::{self, root};
use crate::counts::Counts;
use crate::steps::{Steps, Work};
use crate::systems;
use std::process::Command;

/// Options of a campaign.
#[derive(clap::Args)]
pub struct Args {
    /// System to simulate.
    #[arg(long, default_value = "herd")]
    pub system: String,
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
/// The same of every system but the default one ...
const FRESH_OF_OTHERS_IN_CI: &[&str] = &["--seeds", "200"];
/// ... and of race, whose seeds take several times as long: about 0.2 s of a core each.
const FRESH_OF_RACE_IN_CI: &[&str] = &["--seeds", "100"];

/// Runs a campaign.
pub fn run(steps: &mut Steps, args: &Args) {
    if args.planted {
        let name = format!("sim {} planted", args.system);
        steps.run(&name, || drover_sim(&args.system, &["--planted".into()]));
        return;
    }
    let scenarios = match args.scenario.as_str() {
        "all" => {
            let built = steps.run("sim build", || drover_sim(&args.system, &["--list".into()]));
            if built {
                campaign::list(&args.system)
            } else {
                return;
            }
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
        steps.run(&format!("sim {} {scenario}", args.system), || {
            let mut arguments = vec![
                format!("--scenario={scenario}"),
                format!("--seeds={}", args.seeds),
            ];
            arguments.extend(args.seed.map(|seed| format!("--seed={seed}")));
            drover_sim(&args.system, &arguments)
        });
    }
}

/// CI's seeds, a single-core work each.
pub fn smoke<'a>() -> Vec<Work<'a>> {
    let systems = match systems::names() {
        Ok(systems) => systems,
        Err(why) => return vec![("sim systems".to_owned(), Box::new(move || Err(why)))],
    };
    let mut works: Vec<Work<'a>> = Vec::new();
    for (index, system) in systems.into_iter().enumerate() {
        let fresh = match (index, system.as_str()) {
            (0, _) => FRESH_IN_CI,
            (_, "race") => FRESH_OF_RACE_IN_CI,
            _ => FRESH_OF_OTHERS_IN_CI,
        };
        for (name, arguments) in [
            ("fixed", FIXED_IN_CI),
            ("fresh", fresh),
            ("planted", &["--planted"][..]),
        ] {
            let (name, system) = (format!("sim {system} {name}"), system.clone());
            let work = move || {
                let mut sim = Command::new(command::drover_path());
                sim.args(["sim", "--system", &system])
                    .args(arguments)
                    .current_dir(root());
                command::run(&mut sim).map(|_| Counts::ONE)
            };
            works.push((name, Box::new(work)));
        }
    }
    works
}

fn drover_sim(system: &str, arguments: &[String]) -> crate::steps::StepResult {
    command::build_drover()?;
    let mut sim = Command::new(command::drover_path());
    sim.args(["sim", "--system", system])
        .args(arguments)
        .current_dir(root());
    command::run(&mut sim).map(|_| Counts::ONE)
}
