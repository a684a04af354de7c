//! `cargo xtask check`: checks before every commit.

use crate::command::{self, cargo};
use crate::counts::Counts;
use crate::deploy;
use crate::steps::Steps;
use crate::tidy;

/// Formatting, clippy with warnings as errors, [`tidy`](mod@crate::tidy), and [`deploy`].
pub fn run(steps: &mut Steps) {
    steps.run("fmt", || command::run(&mut cargo(&["fmt", "--all", "--check"])));
    steps.run("clippy", || {
        let args = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ];
        command::run(&mut cargo(&args))
    });
    tidy(steps);
    deploy::run(steps);
}

/// Runs only [`tidy`](mod@crate::tidy).
pub fn tidy(steps: &mut Steps) {
    steps.run("tidy", || {
        let report = tidy::check(&command::root())?;
        eprint!("{report}");
        if report.is_clean() {
            Ok(Counts::default())
        } else {
            Err(report.summary())
        }
    });
}
