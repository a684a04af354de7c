//! Hit rates of drover and memcached with the same memory, for the same requests.
//!
//! A stream of requests goes to both servers, alternating in chunks: a get, and a set after a miss. Both servers are
//! asked over TCP on this machine. The results are the share of requests answered from the cache in the second half,
//! and what each server held at the end.

mod bounds;
mod cache_aside;
mod capacity;
mod client;
mod contest;
mod held;
mod oracle;
mod pair;
mod reply;
mod resident;
mod stream;

use super::server::Kind;
use crate::command::{self, cargo, has, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use capacity::Capacity;
use contest::Contest;
use oracle::{Mode, Oracle};
use pair::{Limits, Pair};
use resident::Resident;
use serde_json::{Value, json};
use stream::{STREAMS, Stream};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Streams, separated by commas: zipf1.2, zipf0.99, zipf0.8, onetime, mixed, bimodal, small, drift, ttl; or
    /// capacity, which counts how many items of two sizes fit; or resident, which measures how much memory a full drover
    /// takes with several -m and -t, and whether it reports the same limit everywhere [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    streams: Vec<String>,
    /// Seed of the streams; without it a fresh one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Memory for items of each server (-m), MiB
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    memory: u64,
    /// Threads of each server (-t)
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// An eighth of the keys, requests and memory (half of them if values have many sizes); only zipf0.99, onetime and
    /// mixed unless --streams names others
    #[arg(long)]
    short: bool,
    /// Whether to simulate other eviction policies with the Python package libcachesim, which is installed below the
    /// target folder; auto: if it can be had
    #[arg(long, value_enum, default_value_t)]
    oracle: Mode,
    /// Fail if drover misses a bound: hit rates and number of items against memcached's, resident memory, and at most
    /// one percentage point below the simulated S3-FIFO
    #[arg(long)]
    check: bool,
    /// Build of drover: a path, or drover, as tests are built [default: a release build]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<String>,
    /// Print the results as JSON to standard output, and everything else to standard error
    #[arg(long)]
    json: bool,
}

impl Args {
    /// What CI measures: the short form, with the bounds that hold for it.
    pub fn of_ci() -> Args {
        Args {
            streams: Vec::new(),
            seed: None,
            memory: 64,
            threads: 1,
            short: true,
            oracle: Mode::Off,
            check: true,
            server: Some("drover".to_owned()),
            json: false,
        }
    }
}

/// Name of the measurement that has no stream.
const CAPACITY: &str = "capacity";
/// Name of the measurement of drover alone, which has limits of its own.
const RESIDENT: &str = "resident";
/// Measurements of the short form.
const SHORT: &[&str] = &["zipf0.99", "onetime", "mixed"];
/// The part of the memory, one in this many, that the short form fills to count items.
const SHORT_PART: u64 = 8;
/// Memory that both servers accept, MiB per thread.
const MEMORY_MIN_MIB: u64 = 2;

/// The build of drover that is measured.
fn program(server: Option<&str>) -> Result<Kind, String> {
    match server {
        None => {
            command::run(&mut cargo(&["build", "--release", "--quiet", "-p", "drover"]))?;
            Ok(Kind::Drover(target_dir("release").join("drover")))
        }
        Some("drover") => {
            command::build_drover()?;
            Kind::named("drover")
        }
        Some(path) => Kind::named(path),
    }
}

/// What one run measures with.
struct Plan<'a> {
    args: &'a Args,
    seed: u64,
    drover: Kind,
    oracle: Result<Oracle, String>,
}

/// Measures, one step per stream.
pub fn run(steps: &mut Steps, args: &Args) {
    if args.json {
        steps.leave_stdout();
    }
    let mut plan = None;
    steps.run("hitrate build", || {
        plan = Some(Plan::new(args)?);
        Ok(Counts::default())
    });
    let Some(plan) = plan else { return };
    let results: Vec<Value> = names(args)
        .iter()
        .flat_map(|name| plan.measure(steps, name))
        .collect();
    if args.json {
        println!("{}", plan.json(&results));
    }
}

/// The names of what is measured, in the order of the table.
fn names(args: &Args) -> Vec<&str> {
    if !args.streams.is_empty() {
        return args.streams.iter().map(String::as_str).collect();
    }
    if args.short {
        return SHORT.to_vec();
    }
    STREAMS
        .iter()
        .map(Stream::name)
        .chain([CAPACITY, RESIDENT])
        .collect()
}

/// Limits of the servers for a `part`-th of the memory.
fn limits(args: &Args, part: u64) -> Limits {
    Limits {
        memory_mib: (args.memory / part).max(MEMORY_MIN_MIB * args.threads),
        threads: args.threads,
    }
}

/// The stream of this name, and the part of it that is played.
fn stream_named(args: &Args, name: &str) -> Option<(Stream, u64)> {
    let stream = STREAMS.iter().find(|stream| stream.name() == name)?;
    let part = if args.short { stream.short_part() } else { 1 };
    Some((stream.shortened(part), part))
}

impl<'a> Plan<'a> {
    fn new(args: &'a Args) -> Result<Plan<'a>, String> {
        for name in names(args) {
            if ![CAPACITY, RESIDENT].contains(&name) && stream_named(args, name).is_none() {
                return Err(format!("no stream is called {name}; see --help"));
            }
        }
        if !has("memcached") {
            return Err("memcached is missing: sudo apt-get install memcached".to_owned());
        }
        let oracle = match args.oracle {
            Mode::Off => Err("--oracle off".to_owned()),
            Mode::Auto => Oracle::install(),
            Mode::Require => Ok(Oracle::install()?),
        };
        let drover = program(args.server.as_deref())?;
        let plan = Plan {
            args,
            seed: args.seed.unwrap_or_else(crate::seed::fresh),
            drover,
            oracle,
        };
        plan.tell(&format!("hitrate: --seed {}", plan.seed));
        Ok(plan)
    }

    /// Measures what `name` says, as one step for each result.
    fn measure(&self, steps: &mut Steps, name: &str) -> Vec<Value> {
        let mut results = Vec::new();
        if name == RESIDENT {
            return self.measure_resident(steps);
        }
        if name != CAPACITY {
            steps.run(&format!("hitrate {name}"), || {
                let (stream, part) = stream_named(self.args, name).ok_or("no such stream")?;
                let oracle = self.oracle.as_ref().map_err(String::as_str);
                let contest = Contest::play(&stream, self.seed, self.pair(part)?, oracle)?;
                self.tell(&format!("{contest}"));
                results.push(contest.json());
                self.judge(&bounds::missed(&contest, self.args.short))
            });
            return results;
        }
        let part = if self.args.short { SHORT_PART } else { 1 };
        for (value_bytes, _) in capacity::SIZES {
            steps.run(&format!("hitrate {name} {value_bytes}"), || {
                let capacity = Capacity::measure(*value_bytes, self.seed, self.pair(part)?)?;
                self.tell(&format!("{capacity}"));
                let mut fields = capacity.json();
                fields["stream"] = json!(CAPACITY);
                results.push(fields);
                self.judge(&Vec::from_iter(bounds::missed_by(&capacity)))
            });
        }
        results
    }

    /// Measures how much memory a full drover takes, as one step for each limit.
    fn measure_resident(&self, steps: &mut Steps) -> Vec<Value> {
        let mut results = Vec::new();
        for &(memory_mib, threads) in resident::LIMITS {
            let limits = Limits { memory_mib, threads };
            steps.run(&format!("hitrate {RESIDENT} {limits}"), || {
                let resident = Resident::measure(&self.drover, limits, self.seed)?;
                self.tell(&format!("{resident}"));
                let mut fields = resident.json();
                fields["stream"] = json!(RESIDENT);
                results.push(fields);
                self.judge(resident.wrong())
            });
        }
        results
    }

    fn pair(&self, part: u64) -> Result<Pair, String> {
        Pair::start(&self.drover, limits(self.args, part))
    }

    /// Shows the missed bounds, which fail a step only if asked for.
    fn judge(&self, missed: &[String]) -> StepResult {
        for bound in missed {
            self.tell(&format!("missed: {bound}"));
        }
        match missed.is_empty() || !self.args.check {
            true => Ok(Counts::ONE),
            false => Err(missed.join("; ")),
        }
    }

    /// Prints for people.
    fn tell(&self, text: &str) {
        match self.args.json {
            true => eprintln!("{text}"),
            false => println!("{text}"),
        }
    }

    fn json(&self, results: &[Value]) -> Value {
        json!({
            "seed": self.seed,
            "results": results,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Cli::parse_from(["hitrate"].into_iter().chain(line.split_whitespace())).args
    }

    #[test]
    fn the_short_form_is_a_part_of_some_streams() {
        let short = args("--short --threads 4");
        assert_eq!(names(&short), SHORT);
        let played = |name| {
            let (stream, part) = stream_named(&short, name).expect("it exists");
            (
                stream.key_count(),
                stream.request_count(),
                limits(&short, part).memory_mib,
            )
        };
        assert_eq!(played("zipf0.99"), (125_000, 375_000, 8));
        assert_eq!(played("mixed"), (300_000, 1_500_000, 32));
        assert_eq!(limits(&args("--memory 3 --threads 2"), 1).memory_mib, 4);
    }

    #[test]
    fn streams_are_named_or_all() {
        assert_eq!(
            names(&args("--short --streams ttl,capacity")),
            ["ttl", "capacity"]
        );
        assert_eq!(names(&args("")).len(), STREAMS.len() + 2);
        assert!(stream_named(&args(""), "zipf2").is_none());
    }

    #[test]
    fn the_help_names_every_stream() {
        let help = <Cli as clap::CommandFactory>::command()
            .render_long_help()
            .to_string();
        assert!(
            STREAMS.iter().all(|stream| help.contains(stream.name())),
            "{help}"
        );
    }
}
