//! Notes the commit that is built, for result files.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../../.git/logs/HEAD");
    println!("cargo:rerun-if-env-changed=DROVER_COMMIT");
    let commit = std::env::var("DROVER_COMMIT").ok().or_else(from_git);
    println!(
        "cargo:rustc-env=DROVER_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

fn from_git() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["rev-parse", "--short=12", "HEAD"])
}
