//! `drover cache-sim`: hit rates of caches of several sizes on a trace of requests.

use crate::exit::{self, Failure, NO_INPUT, OS_ERROR, USAGE};
use crate::figure::{cannot_write, jobs};
use crate::serve::item_bytes_of;
use drover_base::Cpu;
use drover_bench::{COMMIT, Progress};
use drover_cache_sim::sizes::{parse_size, parse_sizes};
use drover_cache_sim::trace::{Format, Trace, ZipfSpec};
use drover_cache_sim::{Options, Policy, Rate, Report, SimError, simulate};
use drover_figures::output::{Chart, Curve, Dot, Sheet, XAxis};
use drover_mem::NativeCpu;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `cache-sim`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  drover cache-sim --trace requests.csv --size 64m..4g     a row for each size and policy
  drover cache-sim --trace requests.csv --svg hits.svg     and curves of hit rate by size
  zstdcat cluster45.zst | drover cache-sim --trace -       one of Twitter's published traces
  drover cache-sim --trace zipf:0.99,keys=1000000,value=400 --size 64m

Traces:
  CSV with a header line that names the columns, in any order: time,key,size,ttl,op. Only `key`
  is needed; other columns are ignored. Time and ttl are in seconds, size is that of the value
  in bytes. op is get (the default), gets, set, add, replace, cas, append, prepend, incr, decr,
  touch or delete.
  Lines without a header with the columns of Twitter's cache traces: time, key, key size, value
  size, client, operation, TTL.
  zipf:EXPONENT[,keys=N][,requests=N][,value=BYTES][,seed=N]: gets drawn at random, 3 million
  for a million keys unless given.

s3fifo and fifo run the code of `drover serve`, in the memory of `serve -m SIZE -t 1`. lru is a
model for comparison. A get that misses stores the item, with size and ttl of its line.
docs/eviction.md says how to read the results.")]
pub struct Args {
    /// A file, - for standard input, or zipf:EXPONENT,..
    #[arg(long, value_name = "TRACE")]
    trace: String,
    /// Sizes of the caches: a list of sizes and ranges, which double. A size is a number of MiB, as for serve -m, or a
    /// number with k, m, g or t
    #[arg(long, value_name = "LIST", default_value = "16m..1g")]
    size: String,
    /// Which items are evicted: s3fifo, lru, fifo
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "s3fifo,lru,fifo"
    )]
    policy: Vec<String>,
    /// Format of the trace: csv or twitter [default: what its first line tells]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Share of the trace that fills the caches before hits and misses are counted
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    warmup: f64,
    /// Store nothing after a get that misses: for traces that contain the sets
    #[arg(long)]
    no_fill: bool,
    /// Length of values where the trace has none, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_bytes: u64,
    /// Time to live of stored items where the trace has none, seconds; 0: unlimited
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ttl: u32,
    /// Largest value, as for serve: bytes, or with k or m; longer ones are not stored
    #[arg(long, short = 'I', value_name = "SIZE", default_value = "1m")]
    max_item_size: String,
    /// Bytes of memory that lru counts for each item besides key and value; 56 is the head of memcached's items
    #[arg(long, value_name = "BYTES", default_value_t = 56)]
    item_overhead: u64,
    /// Simulate this share of the keys, such as 1/8, with this share of the memory [default: all; less for sizes above
    /// --memory]
    #[arg(long, value_name = "SHARE")]
    sample: Option<String>,
    /// Most memory that one simulated cache takes, unless --sample is given; larger sizes are estimated from 1/2, 1/4,
    /// .. of the keys
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    memory: String,
    /// Leave lines out that cannot be understood, and count them
    #[arg(long)]
    skip_bad: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the results as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw hit rate by size
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Threads, which share the caches [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Simulates the caches and prints their hit rates. Exit status 66: the trace cannot be read.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(cache_sim(args))
}

/// For fuzzers: checks arguments as far as that is possible without reading a trace.
pub fn fuzz_args(args: &Args) {
    if let Err(failure) = plan(args) {
        assert!(!failure.text.is_empty(), "a refusal without a reason");
    }
}

fn cache_sim(args: &Args) -> Result<(), Failure> {
    let (options, input) = plan(args)?;
    let (trace, length) = open(args, input)?;
    let progress = Progress::new(!args.quiet && length.is_some());
    let counter = progress.phase(format!("cache-sim {}", args.trace), length.unwrap_or(0));
    let cpu = NativeCpu::new(0);
    let start = cpu.now();
    let report = simulate(trace, &options, &counter).map_err(failure)?;
    let seconds = cpu.refresh().0.saturating_sub(start.0) as f64 / 1e9;
    drop(progress);
    if let Some(path) = &args.csv {
        write(path, &report.csv())?;
    }
    if let Some(path) = &args.svg {
        write(path, &sheet(&report).svg())?;
    }
    match args.json {
        true => println!("{}", json_text(&report, seconds)),
        false => print!("{report}{}", speed(&report, seconds)),
    }
    Ok(())
}

/// Where the requests come from.
enum Input {
    Zipf(ZipfSpec),
    File(Option<Format>),
}

/// What was typed, checked.
fn plan(args: &Args) -> Result<(Options, Input), Failure> {
    let usage = |name: &str, error: &dyn std::fmt::Display| Failure::new(USAGE, format!("{name} {error}"));
    let policies: Result<Vec<Policy>, String> = args.policy.iter().map(|name| name.parse()).collect();
    let mut policies = policies.map_err(|error| usage("--policy", &error))?;
    policies.sort_unstable();
    policies.dedup();
    let sample: Result<Option<Rate>, String> = args.sample.as_deref().map(str::parse).transpose();
    let options = Options {
        sizes: parse_sizes(&args.size).map_err(|error| usage("--size", &error))?,
        policies,
        warmup: args.warmup,
        fill: !args.no_fill,
        value_bytes: args.value_bytes,
        ttl_s: args.ttl,
        item_bytes_max: item_bytes_of(args.max_item_size.clone())?,
        overhead_bytes: args.item_overhead,
        sample: sample.map_err(|error| usage("--sample", &error))?,
        memory_bytes: parse_size(&args.memory).map_err(|error| usage("--memory", &error))?,
        jobs: args.jobs.unwrap_or_else(jobs),
    };
    options.check().map_err(|error| failure(error.into()))?;
    let format = match args.format.as_deref() {
        None => None,
        Some("csv") => Some(Format::Csv),
        Some("twitter") => Some(Format::Twitter),
        Some(other) => return Err(usage("--format", &format!("{other}: expected csv or twitter"))),
    };
    let input = match args.trace.strip_prefix("zipf:") {
        Some(spec) => Input::Zipf(spec.parse().map_err(|error| usage("--trace", &error))?),
        None => Input::File(format),
    };
    Ok((options, input))
}

/// The trace and its length in units of progress, if that is known.
fn open(args: &Args, input: Input) -> Result<(Trace, Option<u64>), Failure> {
    let format = match input {
        Input::Zipf(spec) => return Ok((Trace::zipf(&spec), Some(spec.requests))),
        Input::File(format) => format,
    };
    let read = |name: &str, input, format| {
        Trace::read(name, input, format, args.skip_bad).map_err(|error| failure(error.into()))
    };
    if args.trace == "-" {
        let input = Box::new(BufReader::new(std::io::stdin()));
        return Ok((read("standard input", input, format)?, None));
    }
    let refuse = |error| Failure::new(NO_INPUT, format!("{}: {error}", args.trace));
    let file = File::open(&args.trace).map_err(refuse)?;
    let length = file.metadata().map_err(refuse)?.len();
    let input = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
    Ok((read(&args.trace, input, format)?, Some(length)))
}

/// Bytes of a file that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

fn failure(error: SimError) -> Failure {
    let code = match error {
        SimError::Trace(_) => NO_INPUT,
        SimError::Memory { .. } => OS_ERROR,
        _ => USAGE,
    };
    Failure::new(code, error)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| cannot_write(path, &error))
}

fn json_text(report: &Report, seconds: f64) -> String {
    let mut text = json!(report);
    text["advice"] = json!(report.advice());
    text["seconds"] = json!(seconds);
    text["commit"] = json!(COMMIT);
    serde_json::to_string_pretty(&text).expect("a report is JSON")
}

fn speed(report: &Report, seconds: f64) -> String {
    format!(
        "{seconds:.1} s: {:.2} million requests/s, each to {} cache{}\n",
        report.requests as f64 / seconds.max(1e-9) / 1e6,
        report.rows.len(),
        if report.rows.len() == 1 { "" } else { "s" }
    )
}

/// Hit rate by size, a curve for each policy.
fn sheet(report: &Report) -> Sheet {
    let curves = report.policies().map(|policy| {
        let dot = |size_bytes: u64, rate: f64| Dot {
            x: size_bytes as f64 / KIB,
            y: 100.0 * rate,
            hint: format!("{policy}, {}: {:.2} %", short_size(size_bytes), 100.0 * rate),
            ..Dot::default()
        };
        let dots = report
            .of(policy)
            .filter_map(|row| Some(dot(row.size_bytes, row.hit_rate?)));
        Curve {
            name: policy.to_string(),
            solid: dots.collect(),
            ..Curve::default()
        }
    });
    let chart = Chart {
        x_axis: "size of the cache (k, m, g: KiB, MiB, GiB)".to_string(),
        y_axis: "hit rate, %".to_string(),
        x: XAxis::Log,
        x_text: |kib| short_size((kib * KIB) as u64),
        meaning: ["", ""],
        curves: curves.collect(),
        ..Chart::default()
    };
    chart.titled(format!("Hit rate by size: {}", report.trace))
}

/// Unit of the x axis, bytes: the smallest cache has many, and logarithms of small numbers are cut off.
const KIB: f64 = 1024.0;

/// A size as it is typed: `64m`.
fn short_size(bytes: u64) -> String {
    let units = [(40, "t"), (30, "g"), (20, "m"), (10, "k")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    whole.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}
