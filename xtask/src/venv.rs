//! Virtual environments for Python programs of tests.

use crate::command;
use crate::setup;
use crate::steps::StepResult;
use std::path::Path;
use std::process::Command;

/// Makes an environment in `folder`, if there is none, and installs what the file `requirements` says, without compiling anything.
/// Debian has the tool for environments in a package of its own.
pub fn install(folder: &Path, requirements: &Path) -> StepResult {
    let interpreter = folder.join("bin/python");
    if !interpreter.is_file() {
        let has = Command::new("python3")
            .args(["-c", "import ensurepip, venv"])
            .status();
        let venv = (
            "venv",
            "python3-venv",
            "keeps packages of tests apart from the machine's own",
        );
        setup::install_where(&[venv], |_| has.as_ref().is_ok_and(|status| status.success()))?;
        command::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    command::run(
        pip(folder)
            .args(["install", "--quiet", "--only-binary", ":all:", "-r"])
            .arg(requirements),
    )
}

/// The environment's `pip`.
pub fn pip(folder: &Path) -> Command {
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}
