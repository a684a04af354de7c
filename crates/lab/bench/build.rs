//! Notes the commit that is built, for result files.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=DROVER_COMMIT");
    let commit = std::env::var("DROVER_COMMIT").ok().or_else(from_git);
    println!(
        "cargo:rustc-env=DROVER_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

fn from_git() -> Option<String> {
    // In a work tree of its own it is elsewhere than in `.git`; a file that is missing would be built again each time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
