//! A mount namespace with a small file system of its own, in which a command runs: as root, or where the system allows
//! users to be root of such a namespace.

use crate::common::{Answer, folder};
use std::path::PathBuf;
use std::process::Command;

/// What is done to the file system, which is mounted at `$1`, before the command runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mounted {
    /// Nothing; it has 8 MiB.
    Empty,
    /// It is filled to its last byte.
    Full,
    /// It can only be read.
    ReadOnly,
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// Whether namespaces are allowed; prints why not.
pub fn is_allowed() -> bool {
    let probe = unshare().arg("true").output();
    let is_allowed = probe.is_ok_and(|probe| probe.status.success());
    if !is_allowed {
        println!("skipped: no file system can be mounted here");
    }
    is_allowed
}

/// The folder at which the file system is mounted.
pub fn place() -> PathBuf {
    folder("mounted")
}

/// Runs the binary with `words` after `limits`, words of a shell, where a file system is `mounted` at [`place`].
pub fn run(mounted: Mounted, limits: &str, words: &[&str]) -> Answer {
    let then = match mounted {
        Mounted::Empty => "true",
        Mounted::Full => "! cat /dev/zero >\"$1/filling\" 2>/dev/null",
        Mounted::ReadOnly => "mount -o remount,ro \"$1\"",
    };
    // What the test runner leaves open would count towards a limit on open files. Only bash closes those above 9.
    let close =
        "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ \"$fd\" -gt 2 ] && eval \"exec $fd>&-\"; done; true";
    let script = format!(
        "{close} && mount -t tmpfs -o size=8m drover-test \"$1\" && {then} && {limits} && shift && exec \"$@\""
    );
    let mut command = unshare();
    command.args(["bash", "-c", &script, "bash"]);
    command.arg(place()).arg(env!("CARGO_BIN_EXE_drover")).args(words);
    let out = command.output().expect("unshare");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        out.status.code().unwrap_or(-1),
        text(&out.stdout),
        text(&out.stderr),
    )
}
