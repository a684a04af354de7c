//! The loom model checker over every test whose name begins with `loom`.
//!
//! loom replaces the atomics of `base::sync` and tries every interleaving. Its price grows faster than
//! exponentially with threads and steps, so the tests use two or three threads and tiny capacities, and
//! preemptions are bounded: nearly all known bugs of this kind show with two.

use crate::command::{cargo, root, run_tests, target_dir};
use crate::steps::Steps;

/// Crates that may hold such tests.
const CRATES: &[&str] = &[
    "drover-base",
    "drover-mem",
    "drover-verbs-shm",
    "drover-rt",
    "drover-index",
    "drover-store",
    "drover-kv-herd",
];

/// One step for all crates.
pub fn run(steps: &mut Steps) {
    steps.run("loom", || {
        let packages = CRATES
            .iter()
            .filter(|name| has_loom_tests(name))
            .flat_map(|name| ["-p", name]);
        let mut args = vec!["test", "--profile", "loom", "--lib"];
        args.extend(packages);
        if args.len() == 4 {
            return Err("no crate has loom tests".to_string());
        }
        args.extend(["--", "loom"]);
        let flags = format!("{} --cfg loom", std::env::var("RUSTFLAGS").unwrap_or_default());
        let mut command = cargo(&args);
        command
            .env("RUSTFLAGS", flags.trim())
            .env("LOOM_MAX_PREEMPTIONS", "2")
            .env("CARGO_TARGET_DIR", target_dir("loom"));
        let counts = run_tests(&mut command)?;
        if counts.passed == 0 {
            Err("no loom test ran".to_string())
        } else {
            Ok(counts)
        }
    });
}

/// Whether a crate mentions loom's checker at all.
fn has_loom_tests(package: &str) -> bool {
    let folder = root().join("crates").join(package.trim_start_matches("drover-"));
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("loom::model")) {
                return true;
            }
        }
    }
    false
}
