//! Real clients of memcached, as their users install them, against a server.

use super::folder;
use super::server::{Kind, Server};
use crate::command::{self, cargo, root, target_dir};
use crate::counts::Counts;
use crate::setup::{self, Tool};
use crate::steps::{StepResult, Steps};
use std::path::PathBuf;
use std::process::Command;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (its release build), memcached, or the path of a build of drover
    #[arg(long, default_value = "drover")]
    pub server: String,
}

const TOOLS: &[Tool] = &[
    ("python3", "python3", "runs clients written in Python"),
    ("npm", "npm", "installs a client written for Node"),
    ("node", "nodejs", "runs a client written for Node"),
    ("memcached", "memcached", "what the clients are proven with"),
];

/// Installs clients as one step, then lets each do its round, on a server of its own.
pub fn run(steps: &mut Steps, args: &Args) {
    if !steps.run("clients are installed", prepare) {
        return;
    }
    type Round = fn() -> Command;
    let rounds: [(&str, Round); 3] = [
        ("client: Python", || program(python(), "python/round.py")),
        ("client: Node", || {
            let mut node = program("node".into(), "node/round.js");
            node.env("NODE_PATH", place("node").join("node_modules"));
            node
        }),
        ("client: Rust", || {
            Command::new(place("rust").join("debug/drover-client-round"))
        }),
    ];
    for (name, round) in rounds {
        steps.run(name, || {
            let log = folder().join("clients-server.txt");
            let server = Server::start(&Kind::named(&args.server)?, &[], &log)?;
            let mut limited = Command::new("timeout");
            limited.arg("60").arg(round().get_program());
            let client = round();
            limited.args(client.get_args());
            limited.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command::run(limited.arg(server.address().to_string())).map(|_| Counts::ONE)
        });
    }
}

/// Where a language's clients are installed.
fn place(language: &str) -> PathBuf {
    folder().join("clients").join(language)
}

fn python() -> PathBuf {
    place("python").join("bin/python")
}

fn program(runner: PathBuf, script: &str) -> Command {
    let mut command = Command::new(runner);
    command.arg(root().join("clients").join(script));
    command
}

/// Everything from its own registry. Errors: what could not be installed; none is left out in silence.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    std::fs::create_dir_all(place("node")).map_err(|e| format!("{}: {e}", place("node").display()))?;
    install_python()?;
    let from = root().join("clients/node/package.json");
    std::fs::copy(&from, place("node").join("package.json"))
        .map_err(|e| format!("{}: {e}", from.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(place("node"));
    command::run(&mut npm)?;
    let mut build = cargo(&["build", "--quiet", "--manifest-path", "clients/rust/Cargo.toml"]);
    command::run(build.env("CARGO_TARGET_DIR", target_dir("memcached").join("clients/rust")))
}

/// A virtual environment; Debian has what makes one in a package of its own.
fn install_python() -> StepResult {
    if !python().is_file() {
        let has = Command::new("python3")
            .args(["-c", "import ensurepip, venv"])
            .status();
        let venv = (
            "venv",
            "python3-venv",
            "keeps Python clients apart from the machine's own",
        );
        setup::install_where(&[venv], |_| has.as_ref().is_ok_and(|status| status.success()))?;
        command::run(Command::new("python3").args(["-m", "venv"]).arg(place("python")))?;
    }
    let mut pip = Command::new(python());
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "-r",
    ]);
    command::run(pip.arg(root().join("clients/python/requirements.txt")))
}
