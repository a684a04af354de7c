//! Installs the Debian packages that the other chores need, so that a bare machine suffices.

use crate::command::{self, has};
use crate::counts::Counts;
use crate::memcached;
use crate::steps::{StepResult, Steps};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A program, its package, and its purpose.
pub type Tool = (&'static str, &'static str, &'static str);

/// Tools of most chores.
const TOOLS: &[Tool] = &[
    ("c++", "g++", "builds libFuzzer"),
    ("valgrind", "valgrind", "counts instructions"),
    ("strace", "strace", "counts system calls"),
    ("memcached", "memcached", "a rival of `drover bench --vs`"),
    ("redis-server", "redis-server", "a rival of `drover bench --vs`"),
    (
        "etcd",
        "etcd-server",
        "the registry that services of several members are tested with",
    ),
    (
        "protoc",
        "protobuf-compiler",
        "the build of `etcd-client` needs it",
    ),
    ("protoc", "libprotobuf-dev", "and the types that come with it"),
    ("ip", "iproute2", "the networks of tests with several hosts"),
];

/// If this file forbids it, Debian does not start a package's services on installation.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs missing tools as one step, which fails with the install command if that is impossible.
pub fn run(steps: &mut Steps) {
    steps.run("setup", || install(&[TOOLS, memcached::clients::TOOLS].concat()));
}

/// Installs those of `tools` that are missing.
pub fn install(tools: &[Tool]) -> StepResult {
    install_where(tools, has)
}

/// As [`install`], where `has` says which programs are installed.
pub fn install_where(tools: &[Tool], has: impl Fn(&str) -> bool) -> StepResult {
    let missing: Vec<&str> = tools
        .iter()
        .filter(|(program, ..)| !has(program))
        .map(|(_, package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(Counts::default());
    }
    for (program, package, purpose) in tools.iter().filter(|(program, ..)| !has(program)) {
        eprintln!("    {program} ({package}) is missing: {purpose}");
    }
    let by_hand = format!(
        "missing tools; install them with: sudo apt-get install {}",
        missing.join(" ")
    );
    let sudo: &[&str] = if is_root() { &[] } else { &["sudo", "-n"] };
    if !has("apt-get") || sudo.first().is_some_and(|program| !has(program)) {
        return Err(by_hand);
    }
    let _quiet = NoServices::new();
    let install = ["apt-get", "install", "-y", "--no-install-recommends"];
    apt(sudo, &["apt-get", "update"]).map_err(|why| format!("{why}; {by_hand}"))?;
    apt(sudo, &[&install[..], &missing[..]].concat()).map_err(|why| format!("{why}; {by_hand}"))
}

/// Updates apt's package lists.
pub fn update_lists() -> StepResult {
    let sudo: &[&str] = if is_root() { &[] } else { &["sudo", "-n"] };
    apt(sudo, &["apt-get", "update"])
}

fn apt(sudo: &[&str], words: &[&str]) -> StepResult {
    let words = [sudo, words].concat();
    command::run(
        Command::new(words[0])
            .args(&words[1..])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Guard: while it lives, installing a package does not start its services, because measurements start the rivals
/// themselves. Without root it does nothing.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn new() -> NoServices {
        let policy = Path::new(POLICY);
        let ours = !policy.exists()
            && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
        NoServices { ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
