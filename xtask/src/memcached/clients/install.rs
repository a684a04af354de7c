//! Installs the clients, from where their users get them.

use super::{TOOLS, place};
use crate::command::{self, cargo, root, target_dir};
use crate::memcached::versus;
use crate::setup;
use crate::steps::StepResult;
use crate::venv;
use std::process::Command;

/// Installs all clients from their registries.
///
/// # Errors
/// A client could not be installed; none is skipped silently.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    versus()?;
    std::fs::create_dir_all(place("node")).map_err(|e| format!("{}: {e}", place("node").display()))?;
    venv::install(&place("python"), &root().join("clients/python/requirements.txt"))?;
    let from = root().join("clients/node/package.json");
    std::fs::copy(&from, place("node").join("package.json"))
        .map_err(|e| format!("{}: {e}", from.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(place("node"));
    command::run(&mut npm)?;
    let mut build = cargo(&["build", "--quiet", "--manifest-path", "clients/rust/Cargo.toml"]);
    command::run(build.env("CARGO_TARGET_DIR", target_dir("memcached").join("clients/rust")))
}
