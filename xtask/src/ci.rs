//! Everything that CI runs, in the order in which it is likely to fail.
//!
//! On two cores, from a bare clone, it takes about 45 minutes, more than it should, and more than half of it compiling. What
//! takes longer has a command of its own: `miri`, `kill -N 200`, `pause --rounds 100`, `fuzz --seconds 600`.

use crate::command::{self, cargo};
use crate::counts::Counts;
use crate::memcached::{abuse, clients, differ, suite};
use crate::steps::{StepResult, Steps};
use crate::{bench, check, fuzz, guest, instructions, loom, package, setup, sim, syscalls, tests};

/// Options of the whole run.
#[derive(clap::Args)]
pub struct Args {
    /// Only checks and tests: no release build, and nothing that needs one or a build of its own.
    #[arg(long)]
    pub quick: bool,
}

/// Seconds that each fuzzer gets here; longer hunts are `cargo xtask fuzz`.
const FUZZ_SECONDS: u32 = 3;

/// Runs all steps, failed ones or not: one run tells everything.
pub fn run(steps: &mut Steps, args: &Args) {
    if !args.quick {
        setup::run(steps);
    }
    check::run(steps);
    tests::run(steps);
    package::man(steps);
    if args.quick {
        return;
    }
    syscalls::run(steps);
    tests::examples(steps);
    loom::run(steps);
    steps.run_together("builds", &[build_release, fuzz::build, prepare_others]);
    bench::smoke(steps);
    suite::run(steps, &suite::Args::all_that_applies());
    abuse::run(steps, &abuse::Args::short());
    clients::rounds(steps, &clients::Args::default());
    differ::run(steps, &differ::Args::default());
    sim::smoke(steps);
    guest::run(steps, &guest::Args::default());
    instructions::run(steps, &instructions::Args::default());
    fuzz::run_all(
        steps,
        &fuzz::Args {
            target: None,
            seconds: FUZZ_SECONDS,
            seed: None,
        },
    );
}

/// What later steps run, one after the other: two of them cannot install packages at once.
fn prepare_others() -> StepResult {
    guest::prepare()?;
    clients::prepare()?;
    suite::prepare().map(|_| Counts::default())
}

/// What is shipped, and what counts its instructions.
fn build_release() -> StepResult {
    command::run(&mut cargo(&["build", "--release", "--quiet"]))?;
    instructions::build()
}
