//! Everything that CI runs, in the order in which it is likely to fail.

use crate::command::{self, cargo};
use crate::steps::Steps;
use crate::{check, fuzz, instructions, loom, setup, syscalls, tests};

/// Options of the whole run.
#[derive(clap::Args)]
pub struct Args {
    /// Only what takes a minute or two: checks and tests.
    #[arg(long)]
    pub quick: bool,
    /// The gates that build much and have not yet been seen to pass on a bare machine, too: instruction counts,
    /// system calls, loom, fuzzers. Each is a command of its own as well.
    #[arg(long)]
    pub full: bool,
}

/// Seconds that each fuzzer gets here; longer hunts are `cargo xtask fuzz`.
const FUZZ_SECONDS: u32 = 5;

/// Runs all steps, failed ones or not: one run tells everything.
pub fn run(steps: &mut Steps, args: &Args) {
    if !args.quick {
        setup::run(steps);
    }
    check::run(steps);
    tests::run(steps);
    if args.quick {
        return;
    }
    steps.run("build release", || {
        command::run(&mut cargo(&["build", "--release", "--quiet"]))
    });
    tests::bench_smoke(steps);
    tests::examples(steps);
    if args.full {
        instructions::run(steps, &instructions::Args { write: false });
        syscalls::run(steps);
        loom::run(steps);
        fuzz::run_all(
            steps,
            &fuzz::Args {
                target: None,
                seconds: FUZZ_SECONDS,
            },
        );
    }
}
