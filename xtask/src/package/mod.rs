//! Manual pages and the Debian package.

pub mod image;
pub mod installed;

use crate::command::{self, cargo, root};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};

/// Writes manual pages to `target/man`, where the package expects them.
pub fn man(steps: &mut Steps) {
    steps.run("man", write_manual);
}

/// Builds the package in `target/debian`. Installs cargo-deb if it is missing.
pub fn deb(steps: &mut Steps) {
    if steps.run("man", write_manual) && steps.run("cargo-deb", install_cargo_deb) {
        steps.run("deb", || {
            // Line numbers for backtraces are four fifths of the binary.
            command::run(&mut cargo(&["deb", "--package", "drover", "--locked", "--strip"]))
        });
    }
}

fn write_manual() -> StepResult {
    let folder = root().join("target").join("man");
    command::build_drover()?;
    command::run(
        std::process::Command::new(command::drover_path())
            .arg("manual")
            .arg(&folder),
    )?;
    let pages = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    eprintln!("    {} pages in {}", pages.count(), folder.display());
    Ok(Counts::default())
}

fn install_cargo_deb() -> StepResult {
    if command::has("cargo-deb") {
        return Ok(Counts::default());
    }
    command::run(&mut cargo(&["install", "--locked", "cargo-deb"]))
}
