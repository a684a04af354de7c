//! All steps of CI, likely failures first.
//!
//! `docs/ci.md` says what each step proves and how long it takes. Longer checks are commands of their own: `miri`, `kill
//! -N 200`, `pause --rounds 100`, `fuzz --seconds 600`.

use crate::counts::Counts;
use crate::memcached::{abuse, clients, differ, hitrate, suite, transcripts};
use crate::steps::{StepResult, Steps};
use crate::{
    bench, check, fuzz, guest, instructions, loom, package, python, report, setup, sim, syscalls, tests,
};

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
    steps.run_together("builds", &[instructions::build, fuzz::build, prepare_others]);
    // The guest runs beside the rest, because most of its time it waits for repeated packets, and nobody waits for it.
    steps.run_beside(
        |steps| guest::run(steps, &guest::Args::default()),
        |steps| {
            package::installed::run(steps);
            package::header::run(steps, &package::header::Args::default());
            python::run(steps);
            report::run(steps);
            bench::smoke(steps);
            suite::run_of_ci(steps);
            abuse::run(steps, &abuse::Args::short());
            clients::rounds(steps, &clients::Args::default());
            hitrate::run(steps, &hitrate::Args::of_ci());
            single_core(steps);
        },
    );
}

/// What needs one core each, together: the longest first.
fn single_core(steps: &mut Steps) {
    let (differ, over_pool, fuzz) = (
        differ::Args::default(),
        differ::Args::of_ci_over_pool(),
        fuzz::Args {
            target: None,
            seconds: FUZZ_SECONDS,
            seed: None,
        },
    );
    let mut works = differ::works(&differ);
    works.extend(differ::works(&over_pool));
    works.push(transcripts::work());
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
    package::installed::prepare()?;
    package::header::prepare()?;
    python::prepare()?;
    report::prepare()?;
    suite::prepare().map(|_| Counts::default())
}
