//! The report of all figures in Chromium, at the widths of a desk and of a phone: labels are measured, and pictures taken, by
//! `crates/drover/tests/it/report`. No figure is simulated for it.

use crate::command::target_dir;
use crate::setup;
use crate::steps::{StepResult, Steps};
use crate::tests;

/// Programs needed here, their packages, and purposes.
const TOOLS: &[setup::Tool] = &[("chromium", "chromium", "shows the report of figures")];

/// One step; the pictures are in `target/report`.
pub fn run(steps: &mut Steps) {
    steps.run("report", || {
        prepare()?;
        let pictures = target_dir("report");
        let environment = [("DROVER_PICTURES", pictures.as_os_str())];
        tests::chosen("package(drover) & test(/^report::/)", &environment)
    });
}

/// Installs what the step needs while other builds run.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)
}
