//! Programs of ours that run in the guest, and building them.

use super::scenarios::Scenario;
use crate::command::{self, cargo, target_dir};
use crate::counts::Counts;
use crate::steps::StepResult;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the workspace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Program {
    /// An example of some package, with every assertion, built as tests are.
    Example { name: &'static str },
    /// `drover` itself, as it is shipped, or in the build that was asked for.
    Drover,
}

impl Program {
    /// What it is called in the guest.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Example { name } => name,
            Program::Drover => "drover",
        }
    }

    /// Where its build is; `drover`'s in the folder of `profile`.
    pub fn path(&self, profile: &str) -> PathBuf {
        match self {
            Program::Example { name } => target_dir("debug").join("examples").join(name),
            Program::Drover if profile == "dev" => target_dir("debug").join("drover"),
            Program::Drover => target_dir(profile).join("drover"),
        }
    }
}

impl Program {
    /// Its bytes without what debuggers read, which is four fifths of them: the guest unpacks them into its memory,
    /// emulated. Panics still say where they are. `folder` is for the stripped copy.
    pub fn contents(&self, profile: &str, folder: &Path) -> std::io::Result<Vec<u8>> {
        let (path, stripped) = (self.path(profile), folder.join("stripped"));
        let done = Command::new("strip").arg("-o").arg(&stripped).arg(&path).status();
        match done {
            Ok(status) if status.success() => fs::read(stripped),
            // Nothing is wrong with the whole program.
            _ => fs::read(path),
        }
    }
}

/// What the scenarios need, each once.
pub fn of(scenarios: &[&Scenario]) -> BTreeSet<Program> {
    let all = scenarios.iter().flat_map(|scenario| scenario.programs);
    all.copied().collect()
}

/// Builds them, `drover` with `profile`.
pub fn build(programs: &BTreeSet<Program>, profile: &str) -> StepResult {
    if programs.contains(&Program::Drover) {
        command::run(&mut cargo(&[
            "build",
            "--profile",
            profile,
            "--quiet",
            "-p",
            "drover",
        ]))?;
    }
    build_examples(programs)
}

/// Builds the examples among them: of the whole workspace, or the libraries below them, which the tests' build has left
/// with the features that all of it wants, would be built again with fewer.
pub fn build_examples(programs: &BTreeSet<Program>) -> StepResult {
    let mut build = cargo(&["build", "--quiet", "--workspace"]);
    let mut any = false;
    for program in programs {
        if let Program::Example { name } = program {
            build.args(["--example", name]);
            any = true;
        }
    }
    match any {
        true => command::run(&mut build),
        false => Ok(Counts::default()),
    }
}
