//! Installs the clients, from where their users get them.

use super::{TOOLS, place};
use crate::command::{self, cargo, root, target_dir};
use crate::memcached::versus;
use crate::setup;
use crate::steps::StepResult;
use std::process::Command;

/// Installs all clients from their registries.
///
/// # Errors
/// A client could not be installed; none is skipped silently.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    versus()?;
    std::fs::create_dir_all(place("node")).map_err(|e| format!("{}: {e}", place("node").display()))?;
    install_python()?;
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

/// Makes a virtual environment; Debian has that tool in a separate package.
fn install_python() -> StepResult {
    let interpreter = place("python").join("bin/python");
    if !interpreter.is_file() {
        let has = Command::new("python3")
            .args(["-c", "import ensurepip, venv"])
            .status();
        let venv = (
            "venv",
            "python3-venv",
            "keeps Python clients apart from the machine's own",
        );
        setup::install_where(&[venv], |_| has.as_ref().is_ok_and(|status| status.success()))?;
        command::run(Command::new("python3").args(["-m", "venv"]).arg(place("python")))?;
    }
    let mut pip = Command::new(interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "-r",
    ]);
    command::run(pip.arg(root().join("clients/python/requirements.txt")))
}
