//! `cargo xtask installed`: the Debian package as an operator meets it, installed by dpkg, started and stopped by systemd,
//! used by members of its group and refused to others, purged.
//!
//! All that happens on a machine of its own: systemd-nspawn boots systemd in namespaces, over a root whose changes stay in
//! memory (`root.sh`, `installed.sh`). Only root can have that; elsewhere the step is skipped, and says so.

use super::{install_cargo_deb, write_generated};
use crate::command::{self, cargo, target_dir};
use crate::counts::Counts;
use crate::setup;
use crate::steps::{StepResult, Steps};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Programs needed here, their packages, and purposes.
const TOOLS: &[setup::Tool] = &[(
    "systemd-nspawn",
    "systemd-container",
    "boots systemd in namespaces",
)];
/// The overlay is mounted in a namespace of its own; systemd-nspawn makes the others.
const NAMESPACE: [&str; 3] = ["--mount", "--propagation", "private"];
/// Status of `root.sh` on machines that do not allow a root of its own.
const NOT_ALLOWED: i32 = 77;
const SKIPPED: Counts = Counts {
    passed: 0,
    failed: 0,
    skipped: 1,
};

/// Packages the binary of the tests and uses the package as an operator would.
pub fn run(steps: &mut Steps) {
    steps.run("installed", || {
        if let Err(why) = allowed() {
            eprintln!("    skipped: {why}");
            return Ok(SKIPPED);
        }
        prepare()?;
        write_generated()?;
        let folder = target_dir("installed");
        fs::create_dir_all(folder.join("root")).map_err(|why| format!("{}: {why}", folder.display()))?;
        let package = folder.join("drover.deb");
        build(&package)?;
        use_it(&folder, &package)
    });
}

/// Installs what the step needs while other builds run.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    install_cargo_deb()
}

fn allowed() -> Result<(), &'static str> {
    if !command::has("dpkg") {
        return Err("no dpkg: this is no Debian");
    }
    let probe = Command::new("unshare").args(NAMESPACE).arg("true").output();
    match probe.is_ok_and(|probe| probe.status.success()) {
        true => Ok(()),
        false => Err("only root can have a root of its own, where namespaces are allowed"),
    }
}

/// The package, but for the binary, which is the one of the tests: a release build takes minutes.
fn build(package: &Path) -> StepResult {
    let words = [
        "deb",
        "--package",
        "drover",
        "--locked",
        "--no-build",
        "--profile",
        "dev",
        "--strip",
        "--fast",
    ];
    command::run(cargo(&words).arg("--output").arg(package))
}

fn use_it(folder: &Path, package: &Path) -> StepResult {
    let script = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text)
            .map(|()| path)
            .map_err(|why| format!("{name}: {why}"))
    };
    let root = script("root.sh", include_str!("root.sh"))?;
    let installed = script("installed.sh", include_str!("installed.sh"))?;
    let mut words = Command::new("unshare");
    words.args(NAMESPACE);
    words
        .arg("sh")
        .arg(root)
        .arg(folder.join("root"))
        .arg(package)
        .arg(installed);
    command::show(&words);
    let status = words.status().map_err(|why| format!("unshare: {why}"))?;
    match status.code() {
        Some(0) => Ok(Counts::ONE),
        Some(NOT_ALLOWED) => {
            eprintln!("    skipped: this machine allows no root of its own");
            Ok(SKIPPED)
        }
        _ => Err(format!("the installed package ended with {status}")),
    }
}
