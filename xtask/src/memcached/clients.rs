//! Real memcached clients, as users install them, against a server; and whether they notice changed answers.

mod doors;
mod install;
mod liar;
mod proxy;

use super::server::{Kind, Server};
use super::{folder, load};
use crate::command::{self, root};
use crate::counts::Counts;
use crate::setup::Tool;
use crate::steps::{StepResult, Steps};
use liar::Liar;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use install::prepare;

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
    ("nutcracker", "nutcracker", "a proxy before several servers"),
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
        command: || node("round.js"),
        address: joined,
        lies: &["stored", "value", "deleted", "exists"],
    },
    Round {
        name: "client: aiomcache",
        command: || python("aiomcache_round.py"),
        address: joined,
        lies: &["stored", "value", "deleted", "exists", "touched"],
    },
    Round {
        name: "client: emcache",
        command: || python("emcache_round.py"),
        address: joined,
        lies: &["stored", "value", "deleted", "exists", "touched"],
    },
    Round {
        name: "client: libmc",
        command: || python("libmc_round.py"),
        address: joined,
        lies: &["stored", "value", "exists", "touched"],
    },
    Round {
        name: "client: memcache-client",
        command: || node("memcache_client.js"),
        address: joined,
        lies: &["stored", "value", "deleted", "exists", "touched"],
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
    steps.run("client: Unix socket, users and TLS", || {
        doors::by_other_doors(args)
    });
    steps.run("client: nutcracker before two servers", || {
        proxy::before_two_servers(args)
    });
    steps.run("client: memjs is refused", || refuse_binary(args));
    steps.run("client: memcslap", || load::run(&start(args, FLAGS)?));
}

fn start(args: &Args, flags: &[&str]) -> Result<Server, String> {
    start_logging(args, flags, "clients-server.txt")
}

fn start_logging(args: &Args, flags: &[&str], log: &str) -> Result<Server, String> {
    Server::start(&Kind::named(&args.server)?, flags, &folder().join(log))
}

/// memjs speaks the binary protocol only, which memcached has and drover has not.
fn refuse_binary(args: &Args) -> StepResult {
    if args.server == "memcached" {
        return Ok(Counts::default());
    }
    let server = start(args, FLAGS)?;
    command::run(limited(&node("binary.js")).arg(server.address().to_string())).map(|_| Counts::ONE)
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

fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(root().join("clients/node").join(script));
    command.env("NODE_PATH", place("node").join("node_modules"));
    command
}
