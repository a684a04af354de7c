//! The same random commands to drover, or to a gateway, and to memcached.

use super::over;
use super::server::{Kind, Server, Service};
use super::{folder, versus};
use crate::command;
use crate::counts::Counts;
use crate::steps::{StepResult, Steps, Work};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (its debug build), memcached, or the path of a build of drover
    #[arg(long, default_value = "drover")]
    pub server: String,
    /// Seed; without it a fresh one, which is printed
    #[arg(long)]
    pub seed: Option<u64>,
    /// The first stream, of 2000 commands
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// Number of streams; 500, or 200 with --over
    #[arg(long)]
    pub streams: Option<u64>,
    /// Compare a gateway to a service of this system with memcached
    #[arg(long, value_name = "SYSTEM")]
    pub over: Option<String>,
}

impl Default for Args {
    fn default() -> Args {
        Args {
            server: "drover".to_string(),
            seed: None,
            first: 0,
            streams: None,
            over: None,
        }
    }
}

impl Args {
    /// The share of CI against a gateway over memory nodes.
    pub fn of_ci_over_pool() -> Args {
        Args {
            streams: Some(STREAMS_OF_CI_OVER),
            over: Some(over::POOL_OF_CI.to_string()),
            ..Args::default()
        }
    }
}

/// A million commands in all.
const STREAMS: u64 = 500;
/// Number of streams to a gateway, and of those in CI.
const STREAMS_OVER: u64 = 200;
const STREAMS_OF_CI_OVER: u64 = 4;
/// Number of streams in which a planted mistake must be noticed.
const CANARY_STREAMS: u64 = 20;

/// One thread, which never leaves a batch half done for another connection, and no thread that moves items between LRU
/// lists, because an item that it holds is not counted up in place. Items have much more space than they need: after a
/// number from 2^63 on memcached looks for a minus sign up to the next zero byte, which is then mostly in the same
/// item, not after its neighbour's pointers. So memcached always answers a stream in the same way.
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
/// Two workers: keys and connections are on both. One connection sends a batch and waits, so a worker that polled before it
/// sleeps would keep the processor from the others for nothing: that took two and a half times as long on a busy machine.
const DROVER: &[&str] = &["-A", "-m", "1024", "-t", "2", "--spin-us", "1"];
/// As [`DROVER`], of a gateway, whose memory is the service's.
const GATEWAY: &[&str] = &["-A", "-t", "2", "--spin-us", "1"];

/// Streams that once showed a difference, and a few others, run regardless of the fresh seed: seed, first stream,
/// number of streams.
const FIXED: &[(u64, u64, u64)] = &[
    (1, 0, 5),
    // Base64 keys were confused with plain ones of the same letters.
    (424_242, 158, 1),
    // A `prepend` grew a value beyond the item limit.
    (22_783, 0, 1),
];
/// The canaries always use the same streams: with another seed one might have no place.
const CANARY_SEED: u64 = 1;

/// Runs the [`works`] one after the other.
pub fn run(steps: &mut Steps, args: &Args) {
    steps.run_in_turn(works(args));
}

/// The canaries, which must be noticed between memcached and itself; then the comparison, of fixed and of fresh streams.
/// With `--seed`, only of that seed; of a gateway, only fresh streams.
pub fn works(args: &Args) -> Vec<Work<'_>> {
    let default = if args.over.is_some() {
        STREAMS_OVER
    } else {
        STREAMS
    };
    let canaries = || {
        let streams = Streams {
            seed: CANARY_SEED,
            first: 0,
            count: CANARY_STREAMS,
        };
        compare(&Kind::Memcached, None, &streams, &["--canaries"])
    };
    let fixed = || {
        let mut counts = Counts::default();
        for &(seed, first, count) in FIXED {
            counts.add(compare_and_tell(args, &Streams { seed, first, count })?);
        }
        Ok(counts)
    };
    let streams = Streams {
        seed: args.seed.unwrap_or_else(crate::seed::fresh),
        first: args.first,
        count: args.streams.unwrap_or(default),
    };
    let over = args.over.as_ref().map(|system| format!(" over {system}"));
    let name = format!("differ{} seed {}", over.unwrap_or_default(), streams.seed);
    let mut works: Vec<Work<'_>> = vec![(name, Box::new(move || compare_and_tell(args, &streams)))];
    if args.over.is_some() {
        return works;
    }
    works.push(("differ canaries".to_string(), Box::new(canaries)));
    if args.seed.is_none() {
        works.push(("differ fixed".to_string(), Box::new(fixed)));
    }
    works
}

/// A selection of streams.
struct Streams {
    seed: u64,
    first: u64,
    count: u64,
}

/// Compares; a difference is shown with the command that repeats it.
fn compare_and_tell(args: &Args, streams: &Streams) -> StepResult {
    let mut again = "cargo xtask differ".to_string();
    if args.server != Args::default().server {
        again += &format!(" --server {}", args.server);
    }
    if let Some(system) = &args.over {
        again += &format!(" --over {system}");
    }
    println!(
        "differ: --seed {} --first {} --streams {}",
        streams.seed, streams.first, streams.count
    );
    let kind = Kind::named(&args.server)?;
    compare(&kind, args.over.as_deref(), streams, &["--again", &again])
}

/// The server that is compared with memcached.
struct Subject {
    server: Server,
    /// The service behind it, if it is a gateway to another process.
    _service: Option<Service>,
}

impl Subject {
    fn start(kind: &Kind, over: Option<&str>, streams: &Streams) -> Result<Subject, String> {
        let log = |what: &str| folder().join(format!("differ-{what}-{}.txt", streams.seed));
        let mut service = None;
        let server = match over {
            None if *kind == Kind::Memcached => Server::start(kind, MEMCACHED, &log("server"))?,
            None => Server::start(kind, DROVER, &log("server"))?,
            Some(system) if over::is_pool(system) => {
                Server::start(kind, &[DROVER, &["--system", system]].concat(), &log("gateway"))?
            }
            Some(system) => {
                let service = service.insert(Service::start(kind, system, &log("service"))?);
                Server::start_gateway(kind, service.name(), GATEWAY, &log("gateway"))?
            }
        };
        Ok(Subject {
            server,
            _service: service,
        })
    }
}

fn compare(kind: &Kind, over: Option<&str>, streams: &Streams, more: &[&str]) -> StepResult {
    crate::setup::install(super::source::TOOLS)?;
    // What a gateway refuses by a word of memcached's own is refused there, too.
    let refusing: &[&str] = match over {
        Some(system) if over::is_pool(system) => &["-X"],
        Some(_) => &["-X", "-F"],
        None => &[],
    };
    let left = Server::start(
        &Kind::Memcached,
        &[MEMCACHED, refusing].concat(),
        &folder().join(format!("differ-memcached-{}.txt", streams.seed)),
    )?;
    let right = Subject::start(kind, over, streams)?;
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
        &right.server.address().to_string(),
    ]);
    command::run_and_quote(versus.args(more)).map(|_| Counts::ONE)
}
