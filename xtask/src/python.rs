//! The Python package: built as a wheel, installed, and tested by its own suite and by pymemcache's tests of a server, in which only
//! the client is another one.

use crate::command::{self, drover_path, root, target_dir};
use crate::steps::{StepResult, Steps};
use crate::venv;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `pymemcache` is downloaded as, with its tests, which its wheel does not have.
const PYMEMCACHE: &str = "pymemcache==4.0.0";

/// Builds, installs and tests the package.
pub fn run(steps: &mut Steps) {
    let is_there = steps.run("python wheel", || {
        prepare()?;
        command::build_drover()?;
        install(&wheel()?)
    });
    if is_there {
        steps.run("python suite", || tests(&[folder().join("tests").as_os_str()]));
        steps.run("python pymemcache", || {
            let published = published()?;
            tests(&[OsStr::new("-p"), OsStr::new("adapted"), published.as_os_str()])
        });
    }
}

/// Installs what is needed while other builds run.
pub fn prepare() -> StepResult {
    venv::install(&place(""), &folder().join("tests/requirements.txt"))
}

fn folder() -> PathBuf {
    root().join("crates/service/python")
}

fn place(name: &str) -> PathBuf {
    target_dir("python").join(name)
}

/// Builds the wheel, as tests are built, and returns its path.
fn wheel() -> Result<PathBuf, String> {
    let wheels = place("wheels");
    let _ = fs::remove_dir_all(&wheels);
    // maturin is a program of the environment, which finds cargo by itself.
    let mut maturin = command::as_from_a_shell(place("bin/maturin"));
    maturin
        .current_dir(folder())
        .args(["build", "--quiet", "--profile", "dev", "--out"])
        .arg(&wheels);
    command::run(&mut maturin)?;
    one_in(&wheels)
}

fn install(wheel: &Path) -> StepResult {
    command::run(
        venv::pip(&place(""))
            .args(["install", "--quiet", "--force-reinstall", "--no-deps"])
            .arg(wheel),
    )
}

/// pymemcache's own tests of a server.
fn published() -> Result<PathBuf, String> {
    let folder = place("pymemcache");
    if !folder.is_dir() {
        let download = place("download");
        let mut pip = venv::pip(&place(""));
        pip.args([
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            PYMEMCACHE,
            "--dest",
        ]);
        command::run(pip.arg(&download))?;
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(one_in(&download)?).arg("-C").arg(&folder);
        command::run(tar.args([
            "--strip-components=3",
            "--wildcards",
            "*/pymemcache/test/test_integration.py",
        ]))?;
    }
    Ok(folder)
}

fn tests(words: &[&OsStr]) -> StepResult {
    let mut pytest = Command::new(place("bin/python"));
    pytest
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .args(words)
        .env("PYTHONPATH", folder().join("tests"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("DROVER", drover_path());
    command::run_tests(&mut pytest)
}

/// The only file in a folder.
fn one_in(folder: &Path) -> Result<PathBuf, String> {
    let mut files = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let file = files.find_map(Result::ok).map(|entry| entry.path());
    file.ok_or_else(|| format!("{} is empty", folder.display()))
}
