//! Our programs in the guest, and how to build them.

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
    /// An example of some package, with all assertions, built as tests are.
    Example { name: &'static str },
    /// `drover` itself, with the requested profile.
    Drover,
}

impl Program {
    /// Name of the program in the guest.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Example { name } => name,
            Program::Drover => "drover",
        }
    }

    /// Path of its build; `drover`'s is in the folder of `profile`.
    pub fn path(&self, profile: &str) -> PathBuf {
        match self {
            Program::Example { name } => target_dir("debug").join("examples").join(name),
            Program::Drover if profile == "dev" => command::drover_path(),
            Program::Drover => target_dir(profile).join("drover"),
        }
    }
}

impl Program {
    /// Its bytes without debug information, which is four fifths of them: the emulated guest unpacks them into memory.
    /// Panics still report locations. `folder` is for the stripped copy.
    pub fn contents(&self, profile: &str, folder: &Path) -> std::io::Result<Vec<u8>> {
        let (path, stripped) = (self.path(profile), folder.join("stripped"));
        let done = Command::new("strip").arg("-o").arg(&stripped).arg(&path).status();
        match done {
            Ok(status) if status.success() => fs::read(stripped),
            // The unstripped program works, too.
            _ => fs::read(path),
        }
    }
}

/// Programs that the scenarios need, without duplicates.
pub fn of(scenarios: &[Scenario]) -> BTreeSet<Program> {
    let all = scenarios.iter().flat_map(|scenario| scenario.programs);
    all.copied().collect()
}

/// Builds the programs, `drover` with `profile`.
pub fn build(programs: &BTreeSet<Program>, profile: &str) -> StepResult {
    if programs.contains(&Program::Drover) && profile == "dev" {
        command::build_drover()?;
    } else if programs.contains(&Program::Drover) {
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

/// Builds the examples among them, with the whole workspace: otherwise the libraries, which the tests' build has left
/// with the workspace's features, would be rebuilt with fewer.
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
