//! The command line, as typed. Each command's arguments stand beside the command.

use crate::{bench, client, doctor, serve};
use clap::{Parser, Subcommand};

const ABOUT: &str =
    "An in-memory key-value service over RDMA verbs; shared memory on machines without a card.";

const TEACH: &str = "\
First steps:
  drover bench                          starts a server and a client, loads keys, prints a table
  drover serve                          serves at shm:drover until Ctrl-C
  drover set greeting hello             in another terminal
  drover get greeting
  drover doctor                         what this machine offers, and how to get more

Addresses:
  shm:NAME                  a server on this machine, by name
  unix:/path.sock           the same, by the path of its control socket
  tcp://host:port           its control channel over TCP: statistics, not data";

/// What was typed.
#[derive(Parser)]
#[command(name = "drover", version, about = ABOUT, after_help = TEACH, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// Which command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve keys and values until SIGTERM or Ctrl-C
    Serve(serve::Args),
    /// Print the value of a key
    Get(client::Get),
    /// Store a value under a key
    Set(client::Set),
    /// Remove a key
    Delete(client::Delete),
    /// Print the counters of a server
    Stats(client::Stats),
    /// Print every setting of `serve` with its value and where the value came from
    Config(serve::Args),
    /// Measure a server (its own, if none is named), the machine's bounds, and rivals
    Bench(Box<bench::Args>),
    /// What bench starts beside itself
    #[command(name = bench::HELPER, hide = true)]
    BenchHelper {
        /// The role and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Say what this machine offers, and how to mend what is missing
    Doctor(doctor::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Words of the command line in any order, with numbers and nonsense between them: understood or refused.
    #[test]
    fn any_words_are_understood_or_refused() {
        const WORDS: &[&str] = &[
            "serve",
            "get",
            "set",
            "delete",
            "stats",
            "config",
            "doctor",
            "bench",
            "-p",
            "-m",
            "-t",
            "-I",
            "-M",
            "-L",
            "-k",
            "-c",
            "-s",
            "-l",
            "-v",
            "-vv",
            "--fabric",
            "--server",
            "shm:x",
            "tcp://h:1",
            "unix:/x",
            "0",
            "1",
            "-1",
            "99999999999999999999",
            "1m",
            "",
            "=",
            "--",
            "-",
            "--cores",
            "0-3",
            "--mix",
            "b",
            "--config=x",
            "\u{0}",
            "\u{fffd}",
            "--help",
            "--json",
            "--ttl",
            "--raw",
        ];
        let mut rng = drover_base::Rng::new(7, 0, 0);
        for _ in 0..3_000 {
            let count = rng.next_u64() % 8;
            let words = (0..count).map(|_| WORDS[(rng.next_u64() % WORDS.len() as u64) as usize]);
            let _ = Cli::try_parse_from(std::iter::once("drover").chain(words));
        }
    }
}
