//! `drover`: the service, its command-line clients, its benchmarks, and checks of the machine.
//!
//! Fabrics are named here and in the crate `client`, systems in the table of systems; everything else is generic. One
//! module per command; `exit` lists the exit statuses. It is a library so that fuzzers reach its parsers: the program
//! only calls [`main`].
#![forbid(unsafe_code)]

mod access;
mod admin;
mod advice;
mod auth;
mod bench;
mod cache_sim;
mod calibrate;
mod cli;
mod client;
mod cluster;
mod completions;
mod devices;
mod doctor;
mod exit;
mod exposure;
mod figure;
mod manual;
mod other_port;
mod perf;
mod pool;
mod rdma;
mod serve;
mod sim;
mod top;

use clap::Parser;
use cli::{Cli, Command};
use client::{Direction, JoinAt};
use drover_client::Condition;
use drover_kv::SystemTable;
use std::ffi::OsString;
use std::process::ExitCode;

pub use cli::fuzz_command_line;
pub use serve::fuzz_config_file;

/// Runs the program with the systems of table `T` and returns its exit status. `words` is the command line; its first
/// word is the program's name. Help texts name the systems of the built-in table.
pub fn main_with<T: SystemTable>(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error, words.get(1).map(OsString::as_os_str)),
    };
    match cli.command {
        Command::Bench(args) => bench::run::<T>(&args),
        Command::BenchHelper { arguments } => bench::helper::<T>(arguments),
        Command::CacheSim(args) => cache_sim::run(&args),
        Command::Figure(args) => figure::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Sim(args) => sim::run::<T>(&args),
        Command::Serve(args) => serve::run::<T>(&args),
        Command::Get(args) => client::run::<T>(&args),
        Command::Set(args) => client::run::<T>(&args),
        Command::Add(args) => client::run::<T>(&(Condition::IfAbsent, &args)),
        Command::Replace(args) => client::run::<T>(&(Condition::IfPresent, &args)),
        Command::Append(args) => client::run::<T>(&(JoinAt::End, &args)),
        Command::Prepend(args) => client::run::<T>(&(JoinAt::Start, &args)),
        Command::Cas(args) => client::run::<T>(&args),
        Command::Incr(args) => client::run::<T>(&(Direction::Up, &args)),
        Command::Decr(args) => client::run::<T>(&(Direction::Down, &args)),
        Command::Touch(args) => client::run::<T>(&args),
        Command::Delete(args) => client::run::<T>(&args),
        Command::MemoryNode(args) => pool::serve_node(&args),
        Command::Pool(args) => pool::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Stats(args) => client::run::<T>(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Manual { folder } => manual::run(&folder),
        Command::Top(args) => top::run::<T>(&args),
        Command::Config(args) => serve::print_config::<T>(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    }
}
