//! The loom model checker over every test whose name begins with `loom`.
//!
//! loom replaces the atomics of `base::sync` and tries every interleaving and every allowed reordering. The cost grows
//! faster than exponentially with threads and steps, so the tests use two or three threads and tiny capacities, and
//! preemptions are bounded: nearly all known bugs of this kind need at most two. Each suite plants bugs that must be
//! found.

use crate::command::{cargo, run_tests, target_dir};
use crate::steps::{StepResult, Steps, Work};

/// A package, and its test targets for loom.
const SUITES: &[(&str, &[&str])] = &[
    ("drover-index", &["--lib"]),
    ("drover-rt", &["--lib"]),
    ("drover-verbs-shm", &["--lib"]),
    ("drover-slots", &["--test", "loom_slots"]),
    ("drover-rpc", &["--lib"]),
];
/// Default maximum number of preemptions; the environment may override it.
const PREEMPTIONS_MAX: &str = "2";

/// One step per suite; while one runs on one core, the next is built.
pub fn run(steps: &mut Steps) {
    let suite = |&(package, target): &(&'static str, &'static [&'static str])| -> Work<'static> {
        (
            format!("loom {package}"),
            Box::new(move || explore(package, target)),
        )
    };
    steps.run_on_all_cores(SUITES.iter().map(suite).collect());
}

fn explore(package: &str, target: &[&str]) -> StepResult {
    let mut command = cargo(&["test", "--profile", "loom", "-p", package]);
    command.args(target).args(["--", "loom"]);
    let flags = format!("{} --cfg loom", std::env::var("RUSTFLAGS").unwrap_or_default());
    command
        .env("RUSTFLAGS", flags.trim())
        .env("CARGO_TARGET_DIR", target_dir("loom"));
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS_MAX);
    }
    let counts = run_tests(&mut command)?;
    if counts.passed == 0 {
        return Err("no loom test ran".to_string());
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;
    use std::path::Path;

    /// Crates that use loom but are in no suite.
    fn forgotten() -> Vec<String> {
        let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let floors = entries(root().join("crates"));
        floors
            .flat_map(|floor| entries(floor.path()))
            .filter(|folder| calls_loom(&folder.path()))
            .map(|folder| format!("drover-{}", folder.file_name().to_string_lossy()))
            .filter(|name| SUITES.iter().all(|(package, _)| package != name))
            .collect()
    }

    fn calls_loom(path: &Path) -> bool {
        if path.is_dir() {
            let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            return entries.any(|entry| calls_loom(&entry.path()));
        }
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("loom::model"))
    }

    #[test]
    fn every_crate_that_calls_loom_has_a_suite() {
        assert_eq!(forgotten(), Vec::<String>::new());
        assert!(calls_loom(&root().join("crates/stores/index")));
    }
}
