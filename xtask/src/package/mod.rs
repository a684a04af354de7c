//! Manual pages, completions of shells, and the Debian package.

pub mod header;
pub mod image;
pub mod installed;

use crate::command::{self, cargo, root};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};

/// Shells whose completions are packaged, as `drover completions` calls them.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Writes manual pages to `target/man`, and what completes command lines to `target/completions`, where the package
/// expects them.
pub fn man(steps: &mut Steps) {
    steps.run("man", write_generated);
}

/// Builds the package in `target/debian`. Installs cargo-deb if it is missing.
pub fn deb(steps: &mut Steps) {
    if steps.run("man", write_generated) && steps.run("cargo-deb", install_cargo_deb) {
        steps.run("deb", || {
            // Line numbers for backtraces are four fifths of the binary.
            command::run(&mut cargo(&["deb", "--package", "drover", "--locked", "--strip"]))
        });
    }
}

fn write_generated() -> StepResult {
    command::build_drover()?;
    write_manual()?;
    write_completions()
}

fn write_completions() -> StepResult {
    let folder = root().join("target").join("completions");
    let failed = |error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    for shell in SHELLS {
        let mut words = std::process::Command::new(command::drover_path());
        let out = words.args(["completions", shell]).output().map_err(failed)?;
        if !out.status.success() {
            return Err(format!("drover completions {shell} ended with {}", out.status));
        }
        std::fs::write(folder.join(shell), out.stdout).map_err(failed)?;
    }
    Ok(Counts::default())
}

fn write_manual() -> StepResult {
    let folder = root().join("target").join("man");
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
