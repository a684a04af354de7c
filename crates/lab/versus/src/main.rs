//! `versus`: commands that compare running servers with memcached.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use drover_versus::abuse::{self, Bounds, Canary, SCENARIOS, Watched};
use drover_versus::differ::{self, CANARIES, DIFFERENCES, Element, Options, Sides};
use drover_versus::lie::{self, LIES, Lie};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "versus", about = "Holds a server against memcached, over sockets.")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Send the same random commands to two servers; their answers must be the same.
    Differ(Differ),
    /// Misuse a server and check that it keeps its bounds and serves others.
    Abuse(Abuse),
    /// Forward connections to a server and change its answers; prints the address to connect to.
    Lie(LieArgs),
    /// A client that will be killed.
    #[command(hide = true)]
    KillMe(KillMe),
}

#[derive(clap::Args)]
struct LieArgs {
    /// Name of the lie
    lie: String,
    /// The server, host:port
    #[arg(long)]
    server: SocketAddr,
    /// Change one in this many places where the lie fits
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Address to listen at; port 0 is any free port
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(clap::Args)]
struct KillMe {
    #[arg(long)]
    server: SocketAddr,
    #[arg(long)]
    seed: u64,
}

#[derive(clap::Args)]
struct Abuse {
    /// Scenario to run; without it, list all
    scenario: Option<String>,
    /// The server, a port of 127.0.0.1
    #[arg(long, default_value = "127.0.0.1:11211")]
    server: SocketAddr,
    /// Process id of the server
    #[arg(long, default_value_t = 0)]
    pid: u32,
    /// The server's -m
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// The server's -t
    #[arg(long, default_value_t = 1)]
    workers: u64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run a small part
    #[arg(long)]
    short: bool,
    /// Seconds without an answer after which a client counts as not served
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Plant a mistake (leak, stop), which must be noticed
    #[arg(long, value_parser = ["leak", "stop"])]
    canary: Option<String>,
}

#[derive(clap::Args)]
struct Differ {
    /// memcached, host:port
    #[arg(long)]
    left: SocketAddr,
    /// The server to compare with it
    #[arg(long)]
    right: SocketAddr,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first stream
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Number of streams
    #[arg(long, default_value_t = 500)]
    streams: u64,
    /// Commands per stream
    #[arg(long, default_value_t = 2000)]
    commands: usize,
    /// Plant mistakes, one kind after another: each must be noticed
    #[arg(long)]
    canaries: bool,
    /// Command to print for repeating a failure, without seed and stream
    #[arg(long)]
    again: Option<String>,
}

fn main() -> ExitCode {
    let result = match Args::parse().what {
        What::Differ(args) if args.canaries => canaries(&args),
        What::Differ(args) => differ(&args),
        What::Lie(args) => lie(&args),
        What::Abuse(args) => abuse(&args).map_err(std::io::Error::other),
        What::KillMe(args) => abuse::kill_me(args.server, args.seed)
            .map(|()| true)
            .map_err(std::io::Error::other),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("versus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn lie(args: &LieArgs) -> std::io::Result<bool> {
    let lie = Lie::named(&args.lie).ok_or_else(|| {
        let names: Vec<&str> = LIES.iter().map(|lie| lie.name).collect();
        std::io::Error::other(format!(
            "no such lie: {}; there are {}",
            args.lie,
            names.join(", ")
        ))
    })?;
    let listener = TcpListener::bind(args.listen)?;
    println!("{}", listener.local_addr()?);
    lie::serve(&listener, args.server, lie, args.every.max(1)).map(|()| true)
}

fn abuse(args: &Abuse) -> Result<bool, String> {
    let Some(name) = &args.scenario else {
        for scenario in SCENARIOS {
            println!("{:<10} {}", scenario.name, scenario.what);
        }
        return Ok(true);
    };
    raise_descriptors();
    abuse::set_patience(std::time::Duration::from_secs(args.patience));
    let bounds = Bounds {
        memory_mib: args.memory_mib,
        workers: args.workers,
        budgets_mib: BUDGETS_MIB,
        connections: CONNECTIONS,
    };
    let options = abuse::Options {
        seed: args.seed,
        short: args.short,
        canary: args.canary.as_deref().map(|name| match name {
            "leak" => Canary::Leak,
            _ => Canary::Stop,
        }),
    };
    let watched = Watched::new(args.server, args.pid, bounds)?;
    let said = abuse::run(name, &watched, &options)?;
    println!("{name}: {said}");
    Ok(true)
}

/// A server's budgets for requests and replies, if items are at most 1 MiB.
const BUDGETS_MIB: u64 = 64;
/// Maximum number of connections of any scenario.
const CONNECTIONS: u64 = 12_000;

/// Raises the limit of descriptors, for thousands of connections.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit); // every process may do this; if not, connecting fails
}

impl Differ {
    fn options(&self) -> Options {
        Options {
            seed: self.seed,
            first: self.first,
            streams: self.streams,
            commands: self.commands,
        }
    }

    fn sides(&self) -> Sides {
        Sides {
            left: self.left,
            right: self.right,
            canary: None,
            late_s: 0,
            refused: Vec::new(),
        }
    }
}

fn differ(args: &Differ) -> std::io::Result<bool> {
    let report = differ::run(&args.sides(), &args.options())?;
    println!(
        "{} commands to each from seed {}, {} bytes of answers compared",
        report.commands, args.seed, report.bytes
    );
    if !report.exact {
        println!(
            "this kernel does not tell what servers have not read: where batches were cut is left to chance"
        );
    }
    if report.passing > 0 {
        println!(
            "{} streams differed once, by seconds or failures, and not again",
            report.passing
        );
    }
    let Some(found) = report.found else {
        for difference in DIFFERENCES {
            println!("meant to differ: {}: {}", difference.what, difference.why);
        }
        return Ok(true);
    };
    let again = args.again.clone();
    let again = again.unwrap_or_else(|| format!("versus differ --left {} --right {}", args.left, args.right));
    println!(
        "stream {} differs; again: {again} --seed {} --first {} --streams 1",
        found.stream, args.seed, found.stream
    );
    println!("{}", found.mismatch);
    let (elements, mismatch) = found.shrink()?;
    println!("shrunk:\n{mismatch}\nafter:");
    for element in &elements {
        println!("    {}", shown(element));
    }
    Ok(false)
}

/// A command as text, with `_` before every key; a version is shown as its key.
fn shown(element: &Element) -> String {
    match element {
        Element::End(end) => format!("(all answers awaited: {end:?})"),
        Element::Command(command) => command.to_string(),
    }
}

fn canaries(args: &Differ) -> std::io::Result<bool> {
    let mut well = true;
    for canary in CANARIES {
        let sides = Sides {
            canary: Some(*canary),
            ..args.sides()
        };
        let report = differ::run(&sides, &args.options())?;
        match report.found {
            Some(found) => println!(
                "noticed: {} (of {} commands: {})",
                canary.name,
                report.commands,
                found.shrink()?.0.len()
            ),
            None => {
                println!("NOT noticed in {} commands: {}", report.commands, canary.name);
                well = false;
            }
        }
    }
    Ok(well)
}
