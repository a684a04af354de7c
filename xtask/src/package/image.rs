//! `cargo xtask image`: the container image built, run, used and stopped, by buildah, which needs no daemon.
//!
//! The program is the binary of the tests: the first stage of the Dockerfile, which compiles it by a toolchain from a registry,
//! is not run. Where no registry can be reached, the base image is made from Debian's packages. Only root can do this;
//! elsewhere the step is skipped, and says so.

use crate::command;
use crate::counts::Counts;
use crate::setup;
use crate::steps::Steps;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: &[setup::Tool] = &[
    ("buildah", "buildah", "builds and runs the container image"),
    (
        "mmdebstrap",
        "mmdebstrap",
        "makes a base image where no registry is",
    ),
    ("ip", "iproute2", "starts the loopback of a namespace"),
];
const SKIPPED: Counts = Counts {
    passed: 0,
    failed: 0,
    skipped: 1,
};

/// Builds the image and uses it as an operator would.
pub fn run(steps: &mut Steps) {
    steps.run("image", || {
        let probe = Command::new("unshare").args(["--net", "true"]).output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            eprintln!("    skipped: only root can have a network of its own, where namespaces are allowed");
            return Ok(SKIPPED);
        }
        setup::install(TOOLS)?;
        command::build_drover()?;
        let folder = command::target_dir("image");
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let build = script(&folder, "build.sh", include_str!("image_build.sh"))?;
        let mut words = with_builder("sh", &folder);
        words.arg(build).arg(command::root().join("packaging/Dockerfile"));
        command::run(words.arg(command::drover_path()).arg(&folder))?;
        let used = script(&folder, "use.sh", include_str!("image_use.sh"))?;
        let mut words = with_builder("unshare", &folder);
        // The server's ports are nobody else's.
        command::run(words.args(["--net", "sh"]).arg(used).arg(&folder))?;
        Ok(Counts::ONE)
    });
}

fn script(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(why) => Err(format!("{name}: {why}")),
    }
}

/// A command of a script, which finds the builder in its environment. Images and containers stay in `folder`.
fn with_builder(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let folder = folder.display();
    let builder = format!("buildah --storage-driver vfs --root {folder}/storage --runroot {folder}/run");
    command.env("BUILDER", builder);
    command.env("BUILDAH_ISOLATION", "chroot").env("LC_ALL", "C");
    command
}
