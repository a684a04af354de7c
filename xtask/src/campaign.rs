//! `cargo xtask campaign`: every scenario of every system in turn, with fresh seeds, until the time is over. A file
//! records the seeds run, one JSON object per line, as evidence of the campaigns.

use crate::command::{self, root};
use crate::counts::Counts;
use crate::seed;
use crate::steps::{StepResult, Steps};
use crate::systems;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Options of a campaign.
#[derive(clap::Args)]
pub struct Args {
    /// Duration of the campaign.
    #[arg(long, default_value_t = 30)]
    pub minutes: u64,
    /// File to append the record to.
    #[arg(long, default_value = "results/campaign.jsonl")]
    pub file: PathBuf,
}

/// Seeds of a scenario per turn: a few seconds.
const SEEDS: u64 = 250;

/// Runs the campaign.
pub fn run(steps: &mut Steps, args: &Args) {
    let built = steps.run("campaign build", command::build_drover);
    if built {
        steps.run("campaign", || play(args));
    }
}

fn play(args: &Args) -> StepResult {
    let path = root().join(&args.file);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    let commit = command::output(
        Command::new("git")
            .args(["describe", "--always", "--dirty"])
            .current_dir(root()),
    )?;
    let mut rest = scenarios()?.into_iter().cycle();
    let (end, mut found, mut seeds) = (Duration::from_secs(60 * args.minutes), Vec::new(), 0);
    let begun = now();
    while now().saturating_sub(begun) < end {
        let Some((system, scenario)) = rest.next() else {
            return Err("there are no scenarios".to_string());
        };
        let slice = Slice {
            system,
            scenario,
            first: seed::fresh(),
        };
        let is_clean = slice.play()?;
        write_down(&mut file, &slice, commit.trim(), is_clean).map_err(failed)?;
        seeds += SEEDS;
        if !is_clean {
            found.push(slice);
        }
    }
    println!("{seeds} seeds; written down in {}", path.display());
    match found.is_empty() {
        true => Ok(Counts::ONE),
        false => {
            let again: Vec<String> = found.iter().map(Slice::again).collect();
            Err(format!("violations; again:\n{}", again.join("\n")))
        }
    }
}

/// All pairs of a system and a scenario of it.
fn scenarios() -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for system in systems::names()? {
        for scenario in list(&system)? {
            all.push((system.clone(), scenario));
        }
    }
    Ok(all)
}

/// The scenarios of a system, as listed by `drover sim --list`.
pub fn list(system: &str) -> Result<Vec<String>, String> {
    let text = command::output(drover().args(["sim", "--system", system, "--list"]))?;
    // The lines between `scenarios:` and the next title begin with two spaces and a name.
    let lines = text.lines().skip(1).take_while(|line| line.starts_with("  "));
    Ok(lines
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect())
}

fn drover() -> Command {
    Command::new(command::drover_path())
}

/// A range of seeds of a scenario.
struct Slice {
    system: String,
    scenario: String,
    first: u64,
}

impl Slice {
    fn arguments(&self) -> [String; 4] {
        [
            format!("--system={}", self.system),
            format!("--scenario={}", self.scenario),
            format!("--seed={}", self.first),
            format!("--seeds={SEEDS}"),
        ]
    }

    fn again(&self) -> String {
        format!("cargo run --release -- sim {}", self.arguments().join(" "))
    }

    /// Runs the seeds; returns whether all passed.
    fn play(&self) -> Result<bool, String> {
        let mut command = drover();
        command.arg("sim").args(self.arguments()).arg("--no-shrink");
        let status = command
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("drover sim: {error}"))?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(format!("{} ended with {status}", self.again())),
        }
    }
}

fn write_down(file: &mut File, slice: &Slice, commit: &str, is_clean: bool) -> std::io::Result<()> {
    let result = if is_clean { "clean" } else { "violations" };
    writeln!(
        file,
        "{{\"system\":\"{}\",\"scenario\":\"{}\",\"first\":{},\"seeds\":{SEEDS},\"commit\":\"{commit}\",\"result\":\"{result}\"}}",
        slice.system, slice.scenario, slice.first
    )
}

/// Monotonic time: only differences count.
fn now() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "a campaign ends after so many minutes")]
    START.get_or_init(Instant::now).elapsed()
}
