//! Runs the fuzzers of `fuzz/` on the stable toolchain: libFuzzer needs only the compiler's coverage pass.
//!
//! The canary is a target that a working fuzzer must crash: a fuzzer that cannot fail proves nothing.

use crate::command::{output, root, run, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps, Work};
use std::path::PathBuf;
use std::process::Command;

/// Options of the fuzzers.
#[derive(clap::Args)]
pub struct Args {
    /// Only this target.
    pub target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 30)]
    pub seconds: u32,
    /// libFuzzer's seed; without it a fresh one, which is printed
    #[arg(long)]
    pub seed: Option<u32>,
}

/// The target that must crash.
const CANARY: &str = "canary";
/// Compiler flags for libFuzzer's coverage.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=yes";

/// Builds the program with all fuzzers.
pub fn build() -> StepResult {
    let flags = FLAGS.split_whitespace().collect::<Vec<_>>().join(" ");
    run(Command::new("cargo")
        .args(["build", "--release", "--target", TRIPLE])
        .current_dir(root().join("fuzz"))
        .env("CARGO_TARGET_DIR", target_dir("fuzz"))
        .env("RUSTFLAGS", flags))
}

/// Builds the fuzzers, runs the canary and the targets.
pub fn run_all(steps: &mut Steps, args: &Args) {
    if !steps.run("fuzz build", build) {
        return;
    }
    match works(args) {
        Ok(works) => steps.run_on_all_cores(works),
        Err(why) => drop(steps.run("fuzz targets", || Err(why))),
    }
}

/// The canary and the targets, a single-core work each. The program must have been [built](build).
///
/// # Errors
/// The program does not name its targets.
pub fn works<'a>(args: &Args) -> Result<Vec<Work<'a>>, String> {
    let canary = || match fuzz(CANARY, &["-runs=2000000", "-max_total_time=60", "-seed=1"]) {
        Ok(()) => Err("the fuzzer did not find the planted crash".to_string()),
        Err(_) => Ok(Counts::ONE),
    };
    let mut works: Vec<Work<'a>> = vec![("fuzz canary".to_string(), Box::new(canary))];
    let seconds = format!("-max_total_time={}", args.seconds);
    let seed = args.seed.map_or_else(crate::seed::fresh, u64::from).max(1); // 0 would let libFuzzer choose
    println!("fuzz: --seed {seed}");
    let seed = format!("-seed={seed}");
    let wanted = targets()?
        .into_iter()
        .filter(|name| args.target.as_ref().is_none_or(|wanted| wanted == name));
    works.extend(wanted.map(|name| -> Work<'a> {
        let (seconds, seed) = (seconds.clone(), seed.clone());
        (
            format!("fuzz {name}"),
            Box::new(move || {
                let options = [&*seconds, &*seed, "-timeout=5", "-verbosity=0"];
                fuzz(&name, &options).map(|()| Counts::ONE)
            }),
        )
    }));
    Ok(works)
}

/// The instrumented build names its target, so that build scripts and macros stay uninstrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

fn program() -> PathBuf {
    target_dir("fuzz")
        .join(TRIPLE)
        .join("release")
        .join("drover-fuzz")
}

/// Names of all targets except the canary.
fn targets() -> Result<Vec<String>, String> {
    let text = output(
        Command::new(program())
            .env("DROVER_FUZZ_TARGET", "list")
            .arg("-runs=0"),
    )?;
    Ok(text
        .lines()
        .filter(|name| *name != CANARY)
        .map(str::to_string)
        .collect())
}

/// Runs one target from its corpus; new inputs go to a scratch folder, so that the tree stays unchanged.
fn fuzz(name: &str, options: &[&str]) -> Result<(), String> {
    let scratch = target_dir("fuzz").join("new").join(name);
    let crashes = target_dir("fuzz").join("crashes").join(name);
    for folder in [&scratch, &crashes] {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let corpus = root().join("fuzz/corpus").join(name);
    let mut command = Command::new(program());
    command.env("DROVER_FUZZ_TARGET", name).args(options);
    command
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg(scratch)
        .arg(corpus);
    run(&mut command)
        .map(|_| ())
        .map_err(|why| format!("{why}; the input is in {}", crashes.display()))
}
