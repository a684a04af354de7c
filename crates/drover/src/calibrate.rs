//! `drover calibrate`: fits the simulator's profiles to calibration rows and reports the remaining errors.
//!
//! Held-out rows are not available here: the fit and its rows are in `drover-figures`, which does not depend on them.

use crate::exit::{self, Failure, USAGE};
use crate::figure::{cannot_write, jobs, nobody_watches, profiles};
use drover_figures::calibrate::{Fit, Target, evaluate, fit, groups, stages, targets};
use drover_figures::run::{Profiles, RunOptions};
use drover_figures::sim::Simulated;
use drover_verbs_sim::profile::Profile;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

/// Arguments of `calibrate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  drover calibrate --check                       errors of all current profiles, by figure
  drover calibrate apt --out .                   fits apt and writes ./apt.toml
  drover figure all --profile apt.toml --out d   every figure with the fitted profile")]
pub struct Args {
    /// Profiles to fit [default: all that have calibration rows]
    profiles: Vec<String>,
    /// Only report how well the profiles fit
    #[arg(long)]
    check: bool,
    /// Directory for the fitted profiles, NAME.toml
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Start with this file instead of the built-in profile of the same name; may be given several times
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Use long runs while fitting, too
    #[arg(long)]
    thorough: bool,
    /// Threads that run points [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Fits the chosen profiles, writes them to files and reports how well they fit; with `--check` only reports.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(calibrate(args))
}

fn calibrate(args: &Args) -> Result<(), Failure> {
    let mut profiles = profiles(&args.from)?;
    let chosen = chosen(&args.profiles)?;
    let counter = nobody_watches();
    for name in chosen {
        let rows = targets(&name);
        if !args.check {
            fit_one(args, &name, rows.clone(), &mut profiles, &counter);
            let path = args.out.join(format!("{name}.toml"));
            std::fs::create_dir_all(&args.out)
                .and_then(|()| std::fs::write(&path, profiles.named(&name).to_toml()))
                .map_err(|error| cannot_write(&path, &error))?;
            println!("wrote {}", path.display());
        }
        say_errors(args, &name, &rows, &profiles, &counter);
    }
    Ok(())
}

/// The requested profiles; profiles without rows are refused.
fn chosen(asked: &[String]) -> Result<Vec<String>, Failure> {
    let with_rows: Vec<&str> = Profile::names()
        .into_iter()
        .filter(|name| !stages(name).is_empty())
        .collect();
    if asked.is_empty() {
        return Ok(with_rows.iter().map(|name| name.to_string()).collect());
    }
    match asked.iter().find(|name| !with_rows.contains(&name.as_str())) {
        None => Ok(asked.to_vec()),
        Some(name) => {
            let text = format!(
                "no calibration row speaks of `{name}`; there are {}",
                with_rows.join(", ")
            );
            Err(Failure::new(USAGE, text))
        }
    }
}

fn options(args: &Args, quick: bool) -> RunOptions {
    RunOptions {
        seeds: 1,
        first_seed: 1,
        quick,
        jobs: args.jobs.unwrap_or_else(jobs),
    }
}

fn fit_one(args: &Args, name: &str, rows: Vec<Target>, profiles: &mut Profiles, counter: &AtomicU64) {
    println!("{name}: fitting; root mean squared error in percent, before and after each stage");
    let mut work = Fit {
        make: &Simulated::default(),
        profiles: profiles.clone(),
        name,
        targets: rows,
        options: options(args, !args.thorough),
        progress: counter,
    };
    fit(&mut work, &stages(name), |stage, before, after| {
        println!(
            "  {:<32} {:>7.1} {:>7.1}",
            stage.name,
            before.sqrt(),
            after.sqrt()
        );
    });
    profiles.replace(work.profile().clone());
}

fn say_errors(args: &Args, name: &str, rows: &[Target], profiles: &Profiles, counter: &AtomicU64) {
    let found = evaluate(
        &Simulated::default(),
        rows,
        profiles,
        &options(args, false),
        counter,
    );
    println!("{name}, hash {}", profiles.named(name).hash());
    println!(
        "  {:<24} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "rows", "count", "median", "mean", "max", "in 10 %", "in 20 %"
    );
    for group in groups(rows, &found) {
        let errors = group.errors;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        println!(
            "  {:<24} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
            group.name,
            errors.count,
            percent(errors.median),
            percent(errors.mean),
            percent(errors.max),
            errors.within_10,
            errors.within_20
        );
    }
}
