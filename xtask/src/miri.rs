//! Miri, the interpreter that detects undefined behaviour, over the crates that use raw memory. It needs a nightly
//! toolchain; plain memory replaces the operating system's mappings (`cfg(miri)` in mem).

use crate::command::{cargo, output, run_tests, target_dir};
use crate::steps::Steps;
use std::process::Command;

/// Crates that run under Miri.
const CRATES: &[&str] = &[
    "drover-aes",
    "drover-base",
    "drover-mem",
    "drover-index",
    "drover-store",
];
/// Uses the system's real files and clocks; every pointer must come from the mapping that it points into.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-strict-provenance";
/// Command that installs it.
const INSTALL: &str =
    "rustup toolchain install nightly && rustup component add --toolchain nightly miri rust-src";

/// One step per crate.
pub fn run(steps: &mut Steps) {
    let ready = steps.run("miri set-up", || {
        let mut add = Command::new("rustup");
        add.args(["component", "add", "--toolchain", "nightly", "miri", "rust-src"]);
        output(&mut add).map_err(|why| format!("{why}; install it with: {INSTALL}"))?;
        Ok(Default::default())
    });
    for package in CRATES.iter().filter(|_| ready) {
        steps.run(&format!("miri {package}"), || {
            let mut command = cargo(&["miri", "test", "-p", package, "--lib", "--tests"]);
            // Proptest stores regressions in files, which an isolated interpreter does not have.
            command
                .env("RUSTUP_TOOLCHAIN", "nightly")
                .env("PROPTEST_CASES", "4")
                // A backtrace takes the interpreter seconds, and each `should_panic` test makes one.
                .env("RUST_BACKTRACE", "0")
                .env("CARGO_TARGET_DIR", target_dir("miri"));
            let flags: Vec<&str> = FLAGS.split_whitespace().collect();
            command.env("MIRIFLAGS", flags.join(" "));
            run_tests(&mut command)
        });
    }
}
