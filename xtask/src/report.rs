//! The report of all figures in Chromium, at the widths of a desk and of a phone: labels are measured, and pictures taken, by
//! `crates/drover/tests/it/report`. No figure is simulated for it.

use crate::command::{cargo, run_tests, target_dir};
use crate::counts::Counts;
use crate::setup;
use crate::steps::{StepResult, Steps};

/// Programs needed here, their packages, and purposes.
const TOOLS: &[setup::Tool] = &[("chromium", "chromium", "shows the report of figures")];

/// One step; the pictures are in `target/report`. The selection is that of the workspace's tests, so that nothing is compiled again.
pub fn run(steps: &mut Steps) {
    steps.run("report", || {
        prepare()?;
        let mut command = cargo(&["nextest", "run", "--workspace", "--lib", "--bins", "--tests"]);
        command
            .args([
                "--run-ignored",
                "only",
                "-E",
                "package(drover) & test(/^report::/)",
            ])
            .env("DROVER_PICTURES", target_dir("report"));
        match run_tests(&mut command)? {
            Counts {
                passed: 0, failed: 0, ..
            } => Err("no test ran".to_owned()),
            // All others were left out, not skipped.
            counts => Ok(Counts { skipped: 0, ..counts }),
        }
    });
}

/// Installs what the step needs while other builds run.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)
}
