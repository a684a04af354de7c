//! The command line as typed. Each command's module defines its arguments.

use crate::{
    bench, cache_sim, calibrate, client, cluster, completions, devices, doctor, figure, perf, pool, serve,
    sim, top,
};
use clap::{Parser, Subcommand};
use std::ffi::OsStr;

const ABOUT: &str =
    "An in-memory key-value service over RDMA verbs; shared memory on machines without a card.";

const TEACH: &str = "\
First steps:
  drover bench                 starts a server and a client, and prints a table
  drover serve                 serves at shm:drover until Ctrl-C
  drover set greeting hello    in another terminal
  drover get greeting
  drover doctor                what this machine offers, and how to get more

Addresses:
  shm:NAME           a server on this machine, by name
  unix:/path.sock    a server on this machine, by the path of its control socket
  rdma://host:port   a server that listens there; data goes through RDMA devices
  tcp://host:port    a server's control channel over TCP: statistics, not data";

/// The parsed command line.
#[derive(Parser)]
#[command(name = "drover", version, about = ABOUT, after_help = TEACH, arg_required_else_help = true)]
#[command(max_term_width = 100)]
pub struct Cli {
    /// Command to run, with its arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve keys and values until SIGTERM or Ctrl-C
    Serve(serve::Args),
    /// Print the values of keys
    Get(client::Get),
    /// Store a value under a key
    Set(client::Set),
    /// Store a value under a key that does not exist
    Add(client::Store),
    /// Store a value under a key that exists
    Replace(client::Store),
    /// Put bytes behind the value of a key
    Append(client::Join),
    /// Put bytes before the value of a key
    Prepend(client::Join),
    /// Store a value under a key whose item still has a version
    Cas(client::Cas),
    /// Add to a number, and print the sum
    Incr(client::Count),
    /// Subtract from a number down to 0, and print the difference
    Decr(client::Count),
    /// Set the time at which a key expires
    Touch(client::Touch),
    /// Remove a key
    Delete(client::Delete),
    /// Give memory away that compute processes READ, WRITE and CAS, until SIGTERM or Ctrl-C
    MemoryNode(pool::NodeArgs),
    /// Make memory nodes a pool, show it, shut a client out
    Pool(pool::PoolArgs),
    /// Show a service of several members, check it, and say which members take shards
    Cluster(cluster::Args),
    /// Print the counters of a server
    Stats(client::Stats),
    /// Show a server's activity live, from its admin port
    Top(top::Args),
    /// Print every setting of `serve` with its value and where the value came from
    Config(serve::Args),
    /// Measure a server (its own, if none is named), the machine's bounds, and rivals
    Bench(Box<bench::Args>),
    /// Simulate caches of several sizes on a trace of requests: how much memory is enough
    CacheSim(cache_sim::Args),
    /// Run published figures in the simulator and print the published values next to the results
    Figure(figure::Args),
    /// Fit the simulator's profiles to published microbenchmarks, or report how well they fit
    Calibrate(calibrate::Args),
    /// Run servers and clients in a simulated cluster with faults, and check their histories
    Sim(sim::Args),
    /// Processes that bench starts
    #[command(name = bench::HELPER, hide = true)]
    BenchHelper {
        /// The role and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Print the completions of commands and options for a shell
    Completions(completions::Args),
    /// Write the manual pages into a folder
    #[command(name = "manual", hide = true)]
    Manual {
        /// Created if missing
        folder: std::path::PathBuf,
    },
    /// Measure single verbs, as perftest does, on any fabric
    Perf(Box<perf::Args>),
    /// List RDMA devices with their ports, addresses and limits, and say which one is used and why
    Devices(devices::Args),
    /// Report what this machine offers, and how to fix what is missing
    Doctor(doctor::Args),
}

/// For fuzzers: checks that any words are parsed or refused without a panic, and so are the arguments that `serve`,
/// `config`, `bench` and `cache-sim` check further. The first word is the command; no command is run.
pub fn fuzz_command_line(words: &[&OsStr]) {
    let line = std::iter::once(OsStr::new("drover")).chain(words.iter().copied());
    match Cli::try_parse_from(line) {
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal without a reason"),
        Ok(cli) => match cli.command {
            Command::Serve(args) | Command::Config(args) => serve::fuzz_settings(args),
            Command::Bench(args) => bench::fuzz_args(&args),
            Command::CacheSim(args) => cache_sim::fuzz_args(&args),
            _ => {}
        },
    }
}

#[cfg(test)]
mod tests;
