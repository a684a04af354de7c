//! All steps of CI, likely failures first.
//!
//! On two cores, from a bare clone, it takes about 45 minutes, more than half of it compiling; that is more than it
//! should take. Longer checks are commands of their own: `miri`, `kill -N 200`, `pause --rounds 100`, `fuzz --seconds
//! 600`.

use crate::command;
use crate::counts::Counts;
use crate::memcached::{abuse, clients, differ, suite};
use crate::steps::{StepResult, Steps};
use crate::{bench, check, fuzz, guest, instructions, loom, package, setup, sim, syscalls, tests};

/// Options of CI.
#[derive(clap::Args)]
pub struct Args {
    /// Only checks and tests: no release build, and nothing that needs one or a separate build.
    #[arg(long)]
    pub quick: bool,
}

/// Seconds per fuzzer in CI; `cargo xtask fuzz` runs longer.
const FUZZ_SECONDS: u32 = 3;

/// Runs all steps, even after a failure: one run shows all failures.
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
    steps.run_together("builds", &[build_programs, fuzz::build, prepare_others]);
    bench::smoke(steps);
    suite::run(steps, &suite::Args::all_that_applies());
    abuse::run(steps, &abuse::Args::short());
    clients::rounds(steps, &clients::Args::default());
    single_core(steps);
    guest::run(steps, &guest::Args::default());
}

/// What needs one core each, together: the longest first.
fn single_core(steps: &mut Steps) {
    let (differ, fuzz) = (
        differ::Args::default(),
        fuzz::Args {
            target: None,
            seconds: FUZZ_SECONDS,
            seed: None,
        },
    );
    let mut works = differ::works(&differ);
    works.push(instructions::all());
    works.extend(sim::smoke());
    match fuzz::works(&fuzz) {
        Ok(targets) => works.extend(targets),
        Err(why) => drop(steps.run("fuzz targets", || Err(why))),
    }
    steps.run_on_all_cores(works);
}

/// Prepares later steps, one after the other, because package installations cannot run concurrently.
fn prepare_others() -> StepResult {
    guest::prepare()?;
    clients::prepare()?;
    suite::prepare().map(|_| Counts::default())
}

/// Builds what later steps run: `drover`, and the programs whose instructions are counted, the only ones with the
/// release profile.
fn build_programs() -> StepResult {
    command::build_drover()?;
    instructions::build()
}
