//! Real memcached clients, as users install them, against a server; and whether they notice changed answers.

use super::server::{Kind, Server};
use super::{built_versus, folder, load, versus};
use crate::command::{self, cargo, root, target_dir};
use crate::counts::Counts;
use crate::setup::{self, Tool};
use crate::steps::{StepResult, Steps};
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (its debug build), memcached, or the path of a build of drover
    #[arg(long, default_value = "drover")]
    pub server: String,
}

impl Default for Args {
    fn default() -> Args {
        Args {
            server: "drover".to_string(),
        }
    }
}

/// Tools to install clients, and to prove their tests.
pub const TOOLS: &[Tool] = &[
    ("python3", "python3", "runs clients written in Python"),
    ("npm", "npm", "installs a client written for Node"),
    ("node", "nodejs", "runs a client written for Node"),
    (
        "openssl",
        "openssl",
        "makes a certificate for clients that speak TLS",
    ),
    (
        "memccapable",
        "libmemcached-tools",
        "libmemcached's own test of servers",
    ),
    ("memcslap", "libmemcached-tools", "libmemcached's load generator"),
    ("memcached", "memcached", "what the clients are proven with"),
];

/// A client's test: its name, its command (the address follows), and the lies that it must notice.
struct Round {
    name: &'static str,
    command: fn() -> Command,
    address: fn(SocketAddr) -> Vec<String>,
    lies: &'static [&'static str],
}

const ROUNDS: &[Round] = &[
    Round {
        name: "client: Python",
        command: || python("round.py"),
        address: joined,
        lies: &["stored", "value", "deleted", "exists", "touched"],
    },
    Round {
        name: "client: mc's style",
        command: || python("pipeline.py"),
        address: joined,
        lies: &["opaque", "quiet", "line"],
    },
    Round {
        name: "client: Node",
        command: || {
            let mut node = Command::new("node");
            node.arg(root().join("clients/node/round.js"));
            node.env("NODE_PATH", place("node").join("node_modules"));
            node
        },
        address: joined,
        lies: &["stored", "value", "deleted", "exists"],
    },
    Round {
        name: "client: Rust",
        command: || Command::new(place("rust").join("debug/drover-client-round")),
        address: joined,
        lies: &["stored", "value", "deleted", "exists"],
    },
    Round {
        name: "client: memccapable",
        command: || Command::new("memccapable"),
        address: |server| {
            let words = [
                "-a",
                "-h",
                &server.ip().to_string(),
                "-p",
                &server.port().to_string(),
            ];
            words.map(str::to_string).to_vec()
        },
        lies: &["stored", "value", "deleted", "exists"],
    },
];

/// Flags of drover: two workers, so that requests are forwarded between them.
const FLAGS: &[&str] = &["-t", "2"];
/// Time limit of a client's test, seconds.
const SECONDS_MAX: &str = "60";

/// Installs clients as one step, then runs each client's test on a new server, and through lying proxies.
pub fn run(steps: &mut Steps, args: &Args) {
    if steps.run("clients are installed", prepare) {
        rounds(steps, args);
    }
}

/// Runs all tests with installed clients.
pub fn rounds(steps: &mut Steps, args: &Args) {
    for round in ROUNDS {
        steps.run(round.name, || {
            let server = start(args, FLAGS)?;
            play(round, server.address())?;
            round.notices_lies(server.address())
        });
    }
    steps.run("client: Unix socket, users and TLS", || by_other_doors(args));
    steps.run("client: memcslap", || load::run(&start(args, FLAGS)?));
}

fn start(args: &Args, flags: &[&str]) -> Result<Server, String> {
    Server::start(
        &Kind::named(&args.server)?,
        flags,
        &folder().join("clients-server.txt"),
    )
}

fn limited(client: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited
        .arg(SECONDS_MAX)
        .arg(client.get_program())
        .args(client.get_args());
    limited.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

fn play(round: &Round, server: SocketAddr) -> StepResult {
    command::run(limited(&(round.command)()).args((round.address)(server))).map(|_| Counts::ONE)
}

impl Round {
    /// Each lie must make the test fail, and soon.
    fn notices_lies(&self, server: SocketAddr) -> StepResult {
        let mut counts = Counts::ONE;
        for lie in self.lies {
            let liar = Liar::start(lie, server)?;
            let mut round = limited(&(self.command)());
            round.args((self.address)(liar.address));
            let said = round.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
            if said.status.success() {
                return Err(format!("{} does not notice the lie: {lie}", self.name));
            }
            eprintln!("    noticed: {lie}");
            counts.add(Counts::ONE);
        }
        Ok(counts)
    }
}

/// A `versus lie` process; killed by its id when dropped.
struct Liar {
    child: Child,
    address: SocketAddr,
}

impl Liar {
    fn start(lie: &str, server: SocketAddr) -> Result<Liar, String> {
        let mut command = built_versus();
        command.args(["lie", lie, "--server", &server.to_string()]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut line = String::new();
        let said = child
            .stdout
            .take()
            .map(|out| std::io::BufReader::new(out).read_line(&mut line));
        let mut liar = Liar {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        liar.address = line
            .trim()
            .parse()
            .map_err(|e| format!("versus lie: {e} {said:?}"))?;
        Ok(liar)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs Python's clients on what they use besides TCP. memcached has one kind of listener at a time, so this is for
/// drover only.
fn by_other_doors(args: &Args) -> StepResult {
    if args.server == "memcached" {
        return Ok(Counts::default());
    }
    let place = |name: &str| folder().join(name).display().to_string();
    let (socket, users, key, certificate) = (
        place("clients.sock"),
        place("users"),
        place("key.pem"),
        place("certificate.pem"),
    );
    let _ = std::fs::remove_file(&socket);
    let open = start(args, &["-t", "2", "-s", &socket])?;
    command::run(limited(&python("round.py")).args([&open.address().to_string(), &socket]))?;
    drop(open);
    std::fs::write(&users, "drover:secret\n").map_err(|e| format!("{users}: {e}"))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&users, private).map_err(|e| format!("{users}: {e}"))?;
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    openssl.args([
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command::run(
        openssl
            .args(["-keyout", &key, "-out", &certificate])
            .stderr(Stdio::null()),
    )?;
    let files = format!("ssl_chain_cert={certificate},ssl_key={key}");
    let closed = start(args, &["-t", "2", "-Y", &users, "-Z", "-o", &files])?;
    let words = [&closed.address().to_string(), "drover:secret", &certificate];
    command::run(limited(&python("round.py")).args(words))?;
    let mut two = Counts::ONE;
    two.add(Counts::ONE);
    Ok(two)
}

fn joined(server: SocketAddr) -> Vec<String> {
    vec![server.to_string()]
}

/// Folder of a language's installed clients.
fn place(language: &str) -> PathBuf {
    folder().join("clients").join(language)
}

fn python(script: &str) -> Command {
    let mut command = Command::new(place("python").join("bin/python"));
    command.arg(root().join("clients/python").join(script));
    command
}

/// Installs all clients from their registries.
///
/// # Errors
/// A client could not be installed; none is skipped silently.
pub fn prepare() -> StepResult {
    setup::install(TOOLS)?;
    versus()?;
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

/// Makes a virtual environment; Debian has that tool in a separate package.
fn install_python() -> StepResult {
    let interpreter = place("python").join("bin/python");
    if !interpreter.is_file() {
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
    let mut pip = Command::new(interpreter);
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
