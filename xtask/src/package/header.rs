//! The header of libdrover is what cbindgen makes of its code.

use crate::command::{self, cargo, root, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use std::fs;
use std::process::Command;

/// Options of the header.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Writes the header anew instead of comparing it.
    #[arg(long)]
    pub write: bool,
}

/// Compares the header with what cbindgen makes, or writes it.
pub fn run(steps: &mut Steps, args: &Args) {
    if steps.run("cbindgen", || prepare().map(|_| Counts::default())) {
        steps.run("header", || compare(args.write));
    }
}

/// Installs cbindgen if it is missing.
pub fn prepare() -> StepResult {
    match command::has("cbindgen") {
        true => Ok(Counts::default()),
        false => command::run(&mut cargo(&["install", "--locked", "cbindgen"])),
    }
}

fn compare(write: bool) -> StepResult {
    let folder = root().join("crates/service/c");
    let kept = folder.join("include/drover.h");
    let made = match write {
        true => kept.clone(),
        false => target_dir("debug").join("drover.h"),
    };
    command::run(
        Command::new("cbindgen")
            .current_dir(&folder)
            .args([
                "--quiet",
                "--config",
                "cbindgen.toml",
                "--crate",
                "drover-c",
                "--output",
            ])
            .arg(&made)
            .arg("."),
    )?;
    let text = |path| fs::read_to_string(path).map_err(|error| format!("drover.h: {error}"));
    match text(&kept)? == text(&made)? {
        true => Ok(Counts::default()),
        false => Err(
            "crates/service/c/include/drover.h is not that of the code: cargo xtask header --write"
                .to_owned(),
        ),
    }
}
