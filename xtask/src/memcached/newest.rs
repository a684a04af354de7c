//! Builds the newest memcached in Debian's archive, for `drover bench --vs memcached=PATH`: the machine's own release
//! has an older one. It needs no privileges and installs nothing. Then the page for users of memcached is held against it.

use super::folder;
use super::source::{self, Release};
use crate::command;
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use crate::tests;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it and prints its path.
pub fn run(steps: &mut Steps) {
    if steps.run("newest memcached", build) {
        steps.run(
            "the page names what the newest memcached has",
            hold_page_against_it,
        );
    }
}

fn place() -> PathBuf {
    folder().join("newest")
}

/// Runs drover's test of `docs/from-memcached.md` with the built memcached and its description of the protocol.
fn hold_page_against_it() -> StepResult {
    let source = source::unpacked(&place(), Release::Newest)?;
    let (program, protocol) = (source.join("memcached"), source.join("doc/protocol.txt"));
    let environment = [
        ("DROVER_MEMCACHED", program.as_os_str()),
        ("DROVER_MEMCACHED_PROTOCOL", protocol.as_os_str()),
    ];
    tests::chosen("package(drover) & test(/^from_memcached::/)", &environment)
}

fn build() -> StepResult {
    crate::setup::install(source::TOOLS)?;
    let folder = place();
    let place = source::unpacked(&folder, Release::Newest)?;
    let program = place.join("memcached");
    if !program.is_file() {
        let event = headers_of_libevent(&folder)?;
        let mut configure = Command::new("./configure");
        configure.current_dir(&place).args(["--quiet", "--disable-docs"]);
        configure.arg(format!("CPPFLAGS=-I{}/usr/include", event.display()));
        configure.arg(format!("LDFLAGS=-L{}/usr/lib/{}", event.display(), multiarch()?));
        command::run(&mut configure)?;
        command::run(
            Command::new("make")
                .current_dir(&place)
                .args(["--quiet", "memcached"]),
        )?;
    }
    command::run(Command::new(&program).arg("-V"))?;
    println!(
        "drover bench --vs memcached,memcached={},drover",
        program.display()
    );
    Ok(Counts::default())
}

/// Headers of libevent, which memcached needs, unpacked next to its source.
fn headers_of_libevent(folder: &Path) -> Result<std::path::PathBuf, String> {
    let place = folder.join("libevent");
    command::run(
        Command::new("apt-get")
            .current_dir(folder)
            .args(["-qq", "download", "libevent-dev"]),
    )?;
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let package = files
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or("apt-get left no package")?;
    command::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&place))?;
    Ok(place)
}

fn multiarch() -> Result<String, String> {
    let said = command::output(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    Ok(said.trim().to_owned())
}
