//! System calls of a server's worker under load, counted by strace: see `crates/drover/tests/syscalls.rs`, which also
//! plants a worker that makes one per operation. The workspace's tests may skip it; this chore may not.

use crate::command::{cargo, run_tests};
use crate::steps::Steps;

/// One step.
pub fn run(steps: &mut Steps) {
    steps.run("syscalls", || {
        let mut command = cargo(&["test", "-p", "drover", "--test", "syscalls", "--", "--nocapture"]);
        run_tests(command.env("DROVER_STRACE", "must"))
    });
}
