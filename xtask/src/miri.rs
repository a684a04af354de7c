//! Miri, the interpreter that notices undefined behaviour, over the crates that sit on raw memory. Needs a
//! nightly toolchain; mappings of the operating system are replaced by plain memory (`cfg(miri)` in mem).

use crate::command::{cargo, output, run_tests, target_dir};
use crate::steps::Steps;
use std::process::Command;

/// Crates that run under Miri.
const CRATES: &[&str] = &["drover-base", "drover-mem", "drover-index", "drover-store"];
/// The files and clocks of the system are real; every pointer comes from the mapping that it points into.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-strict-provenance";
/// How to get it.
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
            // Proptest keeps its regressions in files, which an isolated interpreter has none of.
            command
                .env("RUSTUP_TOOLCHAIN", "nightly")
                .env("PROPTEST_CASES", "4")
                // A backtrace takes the interpreter seconds, and tests that should panic make one each.
                .env("RUST_BACKTRACE", "0")
                .env("CARGO_TARGET_DIR", target_dir("miri"));
            let flags: Vec<&str> = FLAGS.split_whitespace().collect();
            command.env("MIRIFLAGS", flags.join(" "));
            run_tests(&mut command)
        });
    }
}
