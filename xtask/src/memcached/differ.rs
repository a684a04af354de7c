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
    /// What everything is drawn from; without it a fresh seed, which is printed
    #[arg(long)]
    pub seed: Option<u64>,
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
            seed: None,
            first: 0,
            streams: STREAMS,
        }
    }
}

/// A million commands.
const STREAMS: u64 = 500;
/// Streams in which a mistake on purpose must have been noticed.
const CANARY_STREAMS: u64 = 20;

/// One thread, which never leaves a batch half done for another connection's sake, and none that moves items between
/// LRU lists: an item that such a thread has in hand is not counted up in place. Items have much more space than they
/// need: behind a number from 2^63 on memcached looks for a minus sign up to the next zero byte, which is then mostly in
/// the same item's space, and not behind the pointers of its neighbour. So memcached always answers a stream alike.
const MEMCACHED: &[&str] = &[
    "-A",
    "-m",
    "1024",
    "-t",
    "1",
    "-R",
    "1000000",
    "-o",
    "no_lru_maintainer",
    "-n",
    "1024",
];
/// Two workers: keys and connections are each other's.
const DROVER: &[&str] = &["-A", "-m", "1024", "-t", "2"];

/// Streams that showed a difference once, and a few others, which are played whatever the fresh seed is: seed, the first
/// stream, how many.
const FIXED: &[(u64, u64, u64)] = &[
    (1, 0, 5),
    // Keys in base64 were taken for plain ones with the same letters.
    (424_242, 158, 1),
    // A value that grew beyond the limit for items by `prepend`.
    (22_783, 0, 1),
];
/// The canaries are made in the same streams in every run: another seed might have no place for one of them.
const CANARY_SEED: u64 = 1;

/// Canaries, which must be noticed between memcached and itself; then the comparison, of fixed streams and of fresh ones.
/// With a seed it is of that seed only.
pub fn run(steps: &mut Steps, args: &Args) {
    steps.run("differ canaries", || {
        let streams = Streams {
            seed: CANARY_SEED,
            first: 0,
            count: CANARY_STREAMS,
        };
        compare(&Kind::Memcached, &streams, &["--canaries"])
    });
    if args.seed.is_none() {
        steps.run("differ fixed", || {
            let mut counts = Counts::default();
            for &(seed, first, count) in FIXED {
                counts.add(compare_and_tell(args, &Streams { seed, first, count })?);
            }
            Ok(counts)
        });
    }
    let streams = Streams {
        seed: args.seed.unwrap_or_else(crate::seed::fresh),
        first: args.first,
        count: args.streams,
    };
    steps.run(&format!("differ seed {}", streams.seed), || {
        compare_and_tell(args, &streams)
    });
}

/// What is drawn.
struct Streams {
    seed: u64,
    first: u64,
    count: u64,
}

/// Compares; what differs is shown with the command that shows it again.
fn compare_and_tell(args: &Args, streams: &Streams) -> StepResult {
    let mut again = "cargo xtask differ".to_string();
    if args.server != Args::default().server {
        again += &format!(" --server {}", args.server);
    }
    println!(
        "differ: --seed {} --first {} --streams {}",
        streams.seed, streams.first, streams.count
    );
    compare(&Kind::named(&args.server)?, streams, &["--again", &again])
}

fn compare(kind: &Kind, streams: &Streams, more: &[&str]) -> StepResult {
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
    versus.arg("differ");
    for (flag, number) in [
        ("--seed", streams.seed),
        ("--first", streams.first),
        ("--streams", streams.count),
    ] {
        versus.arg(flag).arg(number.to_string());
    }
    versus.args([
        "--left",
        &left.address().to_string(),
        "--right",
        &right.address().to_string(),
    ]);
    command::run(versus.args(more)).map(|_| Counts::ONE)
}
