//! The same random commands to drover and to memcached.

use super::server::{Kind, Server};
use super::{folder, versus};
use crate::command;
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (its release build), memcached, or the path of a build of drover
    #[arg(long, default_value = "drover")]
    pub server: String,
    /// What everything is drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The first stream, of 2000 commands
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// How many streams
    #[arg(long, default_value_t = STREAMS)]
    pub streams: u64,
}

impl Default for Args {
    fn default() -> Args {
        Args {
            server: "drover".to_string(),
            seed: 1,
            first: 0,
            streams: STREAMS,
        }
    }
}

/// A million commands.
const STREAMS: u64 = 500;
/// Streams in which a mistake on purpose must have been noticed.
const CANARY_STREAMS: u64 = 20;

/// One thread, which never leaves a batch half done for another connection's sake: so it answers a stream always alike.
const MEMCACHED: &[&str] = &["-A", "-m", "1024", "-t", "1", "-R", "1000000"];
/// Two workers: keys and connections are each other's.
const DROVER: &[&str] = &["-A", "-m", "1024", "-t", "2"];

/// Canaries, which must be noticed between memcached and itself; then the comparison.
pub fn run(steps: &mut Steps, args: &Args) {
    steps.run("differ canaries", || {
        compare(&Kind::Memcached, args, CANARY_STREAMS, &["--canaries"])
    });
    steps.run("differ", || {
        compare(&Kind::named(&args.server)?, args, args.streams, &[])
    });
}

fn compare(kind: &Kind, args: &Args, streams: u64, more: &[&str]) -> StepResult {
    crate::setup::install(super::source::TOOLS)?;
    let left = Server::start(
        &Kind::Memcached,
        MEMCACHED,
        &folder().join("differ-memcached.txt"),
    )?;
    let flags = if *kind == Kind::Memcached {
        MEMCACHED
    } else {
        DROVER
    };
    let right = Server::start(kind, flags, &folder().join("differ-server.txt"))?;
    let mut versus = versus()?;
    versus.arg("differ").args(["--seed", &args.seed.to_string()]);
    versus.args([
        "--first",
        &args.first.to_string(),
        "--streams",
        &streams.to_string(),
    ]);
    versus.args([
        "--left",
        &left.address().to_string(),
        "--right",
        &right.address().to_string(),
    ]);
    command::run(versus.args(more)).map(|_| Counts::ONE)
}
