//! System calls of a server's worker under load, counted by strace: see `crates/drover/tests/it/syscalls.rs`, which
//! also plants a worker that makes one per operation. There it runs with all tests; here it must not be skipped.

use crate::steps::Steps;
use crate::tests;

/// One step.
pub fn run(steps: &mut Steps) {
    let must_trace = [("DROVER_STRACE", "must".as_ref())];
    steps.run("syscalls", || {
        tests::chosen("package(drover) & test(/^syscalls::/)", &must_trace)
    });
}
