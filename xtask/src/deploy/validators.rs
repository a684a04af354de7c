//! [`Validator`]: one tool, the files that it checks, and a mistake that it must find.

use super::{read, write};
use crate::command::{root, target_dir};
use std::path::Path;
use std::process::Command;

/// A tool that checks files of `examples/deploy/`.
pub struct Validator {
    /// Name of it, and of its folder for copies.
    pub name: &'static str,
    /// The files, relative to the root. Several are checked as one text, as Kubernetes allows.
    files: &'static [&'static str],
    /// What is replaced in a copy, and by what, so that the copy is wrong.
    pub mistake: (&'static str, &'static str),
    /// The command that checks the text, which is in a file of this folder. It says nothing if all is well.
    command: fn(&Path, &str) -> Result<Command, String>,
}

/// All of them.
pub const VALIDATORS: &[Validator] = &[
    Validator {
        name: "compose",
        files: &["examples/deploy/compose.yaml"],
        mistake: ("healthcheck:", "health-check:"),
        command: compose,
    },
    Validator {
        name: "kubernetes",
        files: &[
            "examples/deploy/kubernetes/drover.yaml",
            "examples/deploy/kubernetes/etcd.yaml",
        ],
        mistake: ("readinessProbe:", "readynessProbe:"),
        command: kubernetes,
    },
    Validator {
        name: "systemd",
        files: &["examples/deploy/systemd/member.conf"],
        mistake: ("ExecStop=", "ExecOnStop="),
        command: systemd,
    },
];

impl Validator {
    /// The text of its files.
    pub fn text(&self, root: &Path) -> Result<String, String> {
        let texts: Result<Vec<String>, String> =
            self.files.iter().map(|file| read(&root.join(file))).collect();
        Ok(texts?.join("---\n"))
    }

    /// Whether the tool has nothing to say about the text.
    ///
    /// # Errors
    /// What it says.
    pub fn check(&self, folder: &Path, text: &str) -> Result<(), String> {
        let mut command = (self.command)(folder, text)?;
        let out = command
            .output()
            .map_err(|error| format!("{}: {error}", self.name))?;
        let said = String::from_utf8_lossy(&out.stderr);
        match out.status.success() && said.trim().is_empty() {
            true => Ok(()),
            false => Err(format!("{} ended with {}: {said}", self.name, out.status)),
        }
    }
}

fn compose(folder: &Path, text: &str) -> Result<Command, String> {
    let file = folder.join("compose.yaml");
    write(&file, text)?;
    let mut command = Command::new("docker-compose");
    command.arg("--file").arg(file).args(["config", "--quiet"]);
    Ok(command)
}

fn kubernetes(folder: &Path, text: &str) -> Result<Command, String> {
    let file = folder.join("all.yaml");
    write(&file, text)?;
    let mut command = Command::new(target_dir("deploy").join("bin/kubernetes-validate"));
    command.args(["--strict", "--quiet"]).arg(file);
    Ok(command)
}

/// The packaged unit with the drop-in, both with a program that is there: which one it is, systemd's tool asks, too.
fn systemd(folder: &Path, drop_in: &str) -> Result<Command, String> {
    let unit = read(&root().join("packaging/drover@.service"))?;
    let runnable = |text: &str| text.replace("/usr/bin/drover", "/bin/true");
    write(&folder.join("drover@.service"), &runnable(&unit))?;
    write(&folder.join("drover@.service.d/member.conf"), &runnable(drop_in))?;
    let mut command = Command::new("systemd-analyze");
    command
        .args([
            "verify",
            "--man=no",
            "--recursive-errors=no",
            "drover@cache-1.service",
        ])
        // The colon: and where units are otherwise.
        .env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
    Ok(command)
}
