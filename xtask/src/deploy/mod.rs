//! `cargo xtask deploy`: what operators run, `examples/deploy/`, as the tools for it see it.
//!
//! | folder | validator | what it holds the files against |
//! |---|---|---|
//! | `compose.yaml` | `docker-compose config` of Debian | the schema of compose files |
//! | `kubernetes/` | `kubernetes-validate --strict`, a Python package | Kubernetes' own JSON schemas, no unknown field |
//! | `systemd/` | `systemd-analyze verify`, together with the packaged unit | what systemd reads from them |
//!
//! Each is then shown a copy with a mistake, which it must find. What the settings and command lines in there mean is tested with
//! drover itself (`crates/drover/tests/it/deployed`).

mod validators;

use crate::command::{root, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use crate::{setup, venv};
use std::fs;
use std::path::{Path, PathBuf};
use validators::{VALIDATORS, Validator};

/// Programs needed here, their packages, and purposes.
const TOOLS: &[setup::Tool] = &[
    (
        "docker-compose",
        "docker-compose",
        "checks the compose file of examples/deploy",
    ),
    (
        "systemd-analyze",
        "systemd",
        "checks the units of examples/deploy",
    ),
];

/// Has each validator pass on the examples, and find a mistake.
pub fn run(steps: &mut Steps) {
    steps.run("deploy", || {
        prepare()?;
        let mut counts = Counts::default();
        for validator in VALIDATORS {
            let text = validator.text(&root())?;
            validator.check(&place(validator), &text)?;
            find_mistake(validator, &text)?;
            counts.add(Counts::ONE);
        }
        Ok(counts)
    });
}

/// Installs the validators.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    venv::install(
        &target_dir("deploy"),
        &root().join("xtask/src/deploy/requirements.txt"),
    )
}

/// Where the validator gets its copies.
fn place(validator: &Validator) -> PathBuf {
    target_dir("deploy").join(validator.name)
}

/// A validator that passes everything is worth nothing.
fn find_mistake(validator: &Validator, text: &str) -> Result<(), String> {
    let (right, wrong) = validator.mistake;
    let planted = text.replacen(right, wrong, 1);
    if planted == text {
        return Err(format!("{}: nothing to plant a mistake in", validator.name));
    }
    match validator.check(&place(validator), &planted) {
        Err(_) => Ok(()),
        Ok(()) => Err(format!("{}: passes with {wrong:?} for {right:?}", validator.name)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
