//! Arguments of `drover bench`.

use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_bench::Helper;
use drover_bench::rivals::Entrant;
use drover_bench::workload::{Mix, Popularity};
use drover_kv::SystemTable;
use drover_systems::System;
use std::path::PathBuf;

/// Arguments of `bench`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Mixes are YCSB's: a 50 % GET 50 % PUT, b 95/5, c GETs only, d 95 % GETs of the latest keys and 5 % inserts,
f 50 % read-modify-write; e (scans) is not supported by this system; put=0.2 is 20 % PUT.

Closed loop: each client keeps --window operations in flight with each server core. With --rate, operations start at
a fixed rate, and latency counts from the time when each was due.

A probe of the cache-line round trip precedes and follows each sample, because virtual machines move their cores.
Medians are over the samples with the most common placement.

Every run writes a result file with all samples, and a file with the latencies as HDR text (.hgrm).

GETs of --system pilaf and farm READ the server's memory: the table reports READs per GET next to the number computed
for the table's load, after filling and (--churn) after all keys were replaced. The table also reports the server's
processor time per operation.

Examples:
  drover bench
  drover bench --system auto --value-size 32,256,1024,4096
  drover bench --bound --vs memcached,redis
  drover bench --mix a --dist zipf --keys 16000000 --window 32 --json -")]
pub struct Args {
    /// System to measure
    #[arg(long, value_name = "NAME", help = system_help())]
    pub system: Option<String>,
    /// The program to start as server, clients and helpers, instead of this one: for tests, whose executable is not only
    /// this program
    #[arg(long, value_name = "FILE", hide = true)]
    again: Option<PathBuf>,
    /// Fabric for the data; with --address, the address determines it
    #[arg(long, default_value = "shm", value_parser = ["shm", "rdma"])]
    pub fabric: String,
    /// Measure this running server instead of starting one: shm:NAME, unix:/path.sock or rdma://host:port
    #[arg(long, value_name = "ADDR")]
    pub address: Option<String>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Operations: a, b, c, d, f or put=SHARE
    #[arg(long, default_value = "b", value_name = "MIX")]
    pub mix: String,
    /// Popularity of the keys [default: uniform; mix d: latest]
    #[arg(long, value_parser = ["uniform", "zipf", "latest"])]
    pub dist: Option<String>,
    /// Interleave a second popularity of the keys with that of --dist and compare the two
    #[arg(long, value_parser = ["uniform", "zipf", "latest"])]
    pub beside_dist: Option<String>,
    /// Exponent of zipf and latest
    #[arg(long, default_value_t = 0.99, value_name = "S")]
    pub zipf: f64,
    /// Keys loaded before the run [default: 1000000; with one-sided systems and auto 786432, which fill a table of 2^20
    /// slots to three quarters]
    #[arg(long, value_name = "N")]
    pub keys: Option<u32>,
    /// After the samples, replace all keys this many times in random order and report the READs per GET; for systems
    /// whose GETs are READs [default: 1 over shared memory where bench starts the server, else 0]
    #[arg(long, value_name = "COUNT")]
    pub churn: Option<u32>,
    /// Bytes of a key
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    pub key_size: usize,
    /// Bytes of a value, or a range such as 16-64; with --system auto, several separated by commas
    #[arg(long, default_value = "32", value_name = "BYTES")]
    pub value_size: String,
    /// Operations in flight per client and server core
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    pub window: usize,
    /// Server cores, one partition each
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub server_cores: usize,
    /// Clients, one thread and core each; with --processes, per process
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub client_cores: usize,
    /// Client processes; 1: the clients are threads of this one
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub processes: usize,
    /// Length of a sample, seconds
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub seconds: f64,
    /// Number of samples
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    pub repeats: usize,
    /// Count only samples with the two cores this far apart, and wait for such; virtual cores move
    #[arg(long, value_parser = ["smt", "near", "far"], value_name = "WHERE")]
    pub placement: Option<String>,
    /// With --placement: also wait until both cores run at full speed, and count only samples with full speed before
    /// and after; a virtual core may share a real one with other machines' work
    #[arg(long, requires = "placement")]
    pub full_speed: bool,
    /// With --placement: give up after this many seconds
    #[arg(long, default_value_t = 120.0, value_name = "S", requires = "placement")]
    pub patience: f64,
    /// Warm-up before the first sample, seconds
    #[arg(long, default_value_t = 0.5, value_name = "S")]
    pub warm_up: f64,
    /// Idle polling time of a client before it sleeps, microseconds; without this it never sleeps. For machines with
    /// fewer cores than clients and workers
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "rate")]
    pub spin_us: Option<u64>,
    /// Open loop: operations per second and client
    #[arg(long, value_name = "OPS")]
    pub rate: Option<f64>,
    /// Rivals to compare with, if installed: memcached, redis; drover: this program through memcached's protocol.
    /// NAME=PATH adds another build of a rival
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub vs: Vec<String>,
    /// Rivals only in modes whose names contain one of these: unix, tcp, 50x1, 50x32, multiget, depth 1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub vs_modes: Vec<String>,
    /// Measure this machine's own bounds, interleaved with the samples
    #[arg(long)]
    pub bound: bool,
    /// Seed of keys and operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write one JSON object here (-: standard output); the table then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the latency distribution here, as HDR text
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Directory of result files [default: $XDG_STATE_HOME/drover/results, that is ~/.local/state/drover/results]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Write no result file
    #[arg(long, conflicts_with = "results")]
    pub no_results: bool,
    /// Show no progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

impl Args {
    /// The mix.
    pub fn mix(&self) -> Result<Mix, Failure> {
        Mix::parse(&self.mix).map_err(usage)
    }

    /// The distribution.
    pub fn popularity(&self, mix: &Mix) -> Popularity {
        let default = match mix.insert_share > 0.0 {
            true => "latest",
            false => "uniform",
        };
        self.named(self.dist.as_deref().unwrap_or(default))
    }

    /// The popularity to interleave with it.
    pub fn beside(&self) -> Option<Popularity> {
        self.beside_dist.as_deref().map(|name| self.named(name))
    }

    fn named(&self, popularity: &str) -> Popularity {
        match popularity {
            "zipf" => Popularity::Zipf(self.zipf),
            "latest" => Popularity::Latest(self.zipf),
            _ => Popularity::Uniform,
        }
    }

    /// Minimum and maximum bytes of a value.
    pub fn value_bytes(&self) -> Result<[usize; 2], Failure> {
        match &self.value_list()?[..] {
            [one] => Ok(*one),
            _ => Err(usage(format!(
                "--value-size {}: several sizes need --system auto",
                self.value_size
            ))),
        }
    }

    /// Minimum and maximum bytes of each value size in the list.
    pub fn value_list(&self) -> Result<Vec<[usize; 2]>, Failure> {
        let one = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Ok([from, to]),
                _ => Err(usage(format!("--value-size {text}: bytes, or FROM-TO"))),
            }
        };
        self.value_size.split(',').map(one).collect()
    }

    /// Command line to start this program again with the hidden command `helper`.
    pub fn helper(&self, helper: &str) -> Result<Helper, Failure> {
        match &self.again {
            None => Helper::current(&[helper]).map_err(|error| Failure::new(exit::OS_ERROR, error)),
            Some(program) => Ok(Helper {
                program: program.clone(),
                arguments: vec![helper.to_owned()],
            }),
        }
    }

    /// Whether all systems are measured, interleaved.
    pub fn is_auto(&self) -> bool {
        self.system.as_deref() == Some(AUTO)
    }

    /// The requested system, if any.
    ///
    /// # Errors
    /// It is not in table `T`.
    pub fn system<T: SystemTable>(&self) -> Result<Option<T>, Failure> {
        let named = |name: &str| {
            let known = T::names(", ");
            T::named(name).ok_or_else(|| usage(format!("--system {name}: expected {known} or {AUTO}")))
        };
        match self.system.as_deref() {
            None | Some(AUTO) => Ok(None),
            Some(name) => named(name).map(Some),
        }
    }

    /// Number of keys for `system`; `None`: for all systems interleaved.
    pub fn keys<T: SystemTable>(&self, system: Option<T>) -> u32 {
        self.keys.unwrap_or(match system {
            Some(system) if system.facts().table.is_none() => 1_000_000,
            // Fills a table to three quarters, the load for which READs were computed.
            _ => 3 << 18,
        })
    }

    /// Number of times that all keys are replaced with `system`; `inserts`: the mix inserts keys.
    pub fn turnovers<T: SystemTable>(&self, system: T, inserts: bool) -> Result<u32, Failure> {
        let reads_nothing = system.facts().table.is_none();
        let given = self.churn.filter(|churn| *churn > 0);
        match (self.churn, given) {
            (None, _) if reads_nothing || inserts || self.address.is_some() => Ok(0),
            (None, _) => Ok(u32::from(self.fabric == "shm")),
            (_, Some(_)) if inserts => Err(usage(format!(
                "--churn keeps the table's load constant, but mix {} inserts keys",
                self.mix
            ))),
            (_, Some(_)) if reads_nothing && !self.is_auto() => Err(usage(format!(
                "--churn reports the READs of GETs, and {system}'s GETs make none",
            ))),
            (_, given) => Ok(given.filter(|_| !reads_nothing).unwrap_or(0)),
        }
    }

    /// The rivals to measure.
    pub fn rivals(&self) -> Result<Vec<Entrant>, Failure> {
        let named = |name: &String| {
            Entrant::named(name)
                .ok_or_else(|| usage(format!("--vs {name}: memcached, redis and drover are known")))
        };
        self.vs.iter().map(named).collect()
    }

    /// Number of clients in all processes.
    pub fn client_count(&self) -> usize {
        self.client_cores * self.processes
    }

    /// Checks ranges that clap does not.
    pub fn check(&self) -> Result<(), Failure> {
        let bad = |seconds: f64| !(seconds.is_finite() && seconds > 0.0 && seconds <= 3600.0);
        let complaint = match () {
            () if self.keys.is_some_and(|keys| keys == 0 || keys >= 1 << 30) => "--keys: 1 to 2^30 - 1",
            () if !(1..=256).contains(&self.window) => "--window: 1 to 256",
            () if !(1..=64).contains(&self.server_cores) => "--server-cores: 1 to 64",
            () if !(1..=64).contains(&self.client_cores) => "--client-cores: 1 to 64",
            () if !(1..=64).contains(&self.processes) => "--processes: 1 to 64",
            () if bad(self.seconds) => "--seconds: over 0, at most 3600",
            () if self.warm_up != 0.0 && bad(self.warm_up) => "--warm-up: 0 to 3600",
            () if bad(self.patience) => "--patience: over 0, at most 3600",
            () if self.repeats == 0 => "--repeats: at least 1",
            () if self.churn.is_some_and(|churn| churn > 100) => "--churn: 0 to 100",
            () if !(self.zipf > 0.0 && self.zipf < 10.0) => "--zipf: over 0, under 10",
            () if self.rate.is_some_and(|rate| !(1.0..=1e9).contains(&rate)) => "--rate: 1 to 1e9",
            () => return Ok(()),
        };
        Err(usage(complaint))
    }

    /// Refuses options that do not work with `--system auto`.
    pub fn check_auto(&self) -> Result<(), Failure> {
        let flag = match () {
            () if self.address.is_some() => "--address",
            () if self.placement.is_some() => "--placement",
            () if self.beside_dist.is_some() => "--beside-dist",
            () if self.bound => "--bound",
            () if !self.vs.is_empty() => "--vs",
            () if self.hdr.is_some() => "--hdr",
            () => return Ok(()),
        };
        Err(usage(format!(
            "{flag} is for one system at a time, but --system auto runs all of them"
        )))
    }
}

/// Value of `--system` that selects all systems.
pub const AUTO: &str = "auto";

fn system_help() -> String {
    format!(
        "System to measure: {}, or {AUTO}, which interleaves all of them and reports which won where [default: {}; with \
         --address: the server's]",
        System::names(", "),
        System::ALL[0]
    )
}

/// Checks that any arguments are valid or refused with a reason.
pub fn fuzz_args(args: &Args) {
    let outcomes = [
        args.check(),
        args.mix().map(|mix| {
            args.popularity(&mix);
        }),
        args.value_bytes().map(|[from, to]| assert!(from <= to)),
        args.value_list()
            .map(|all| assert!(all.iter().all(|[from, to]| from <= to))),
        args.check_auto(),
        args.system::<System>().map(drop),
        args.rivals().map(drop),
    ];
    for refused in outcomes.into_iter().filter_map(Result::err) {
        assert!(!refused.text.is_empty(), "a refusal without a reason");
    }
}

/// A failure of usage.
pub fn usage(text: impl std::fmt::Display) -> Failure {
    Failure::new(exit::USAGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use drover_bench::rivals::Kind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Args {
        let line = Line::try_parse_from([&["bench"], words].concat()).expect("valid flags");
        line.args
    }

    #[test]
    fn the_promised_flags_are_there() {
        let words = "--system herd --fabric shm --mix b --dist zipf --keys 1000 --key-size 16 --value-size 32 \
                     --window 16 --server-cores 1 --client-cores 1 --seconds 1 --repeats 5 --vs memcached,redis \
                     --bound --json -";
        let args = parse(&words.split_whitespace().collect::<Vec<_>>());
        let rivals = args.rivals().expect("rivals");
        let kinds: Vec<Kind> = rivals.iter().map(|entrant| entrant.kind).collect();
        assert_eq!(kinds, [Kind::Memcached, Kind::Redis]);
        assert_eq!(args.value_bytes().expect("sizes"), [32, 32]);
        assert_eq!(
            args.popularity(&args.mix().expect("a mix")),
            Popularity::Zipf(0.99)
        );
        assert!(args.check().is_ok() && args.bound);
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        for words in [
            &["--keys", "0"][..],
            &["--window", "0"],
            &["--seconds", "-1"],
            &["--seconds", "nan"],
            &["--repeats", "0"],
            &["--placement", "near", "--patience", "0"],
            &["--rate", "0"],
            &["--server-cores", "0"],
            &["--processes", "0"],
        ] {
            let words: Vec<String> = words.chunks(2).map(|w| format!("{}={}", w[0], w[1])).collect();
            let args = parse(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(args.check().is_err(), "{words:?}");
        }
        assert!(
            parse(&["--mix", "e"])
                .mix()
                .is_err_and(|f| f.text.contains("scan"))
        );
        assert!(parse(&["--vs", "mysql"]).rivals().is_err());
        assert!(parse(&["--value-size", "9-8"]).value_bytes().is_err());
        assert_eq!(
            parse(&["--value-size", "8-9"]).value_bytes().expect("a range"),
            [8, 9]
        );
        let list = parse(&["--value-size", "8-9,32", "--system", "auto"]);
        assert_eq!(list.value_list().expect("two"), [[8, 9], [32, 32]]);
        assert!(list.is_auto() && list.system::<System>().is_ok_and(|system| system.is_none()));
        assert!(
            list.value_bytes()
                .is_err_and(|f| f.text.contains("--system auto"))
        );
    }

    #[test]
    fn mix_d_asks_for_the_latest() {
        let args = parse(&["--mix", "d"]);
        let mix = args.mix().expect("a mix");
        assert_eq!(args.popularity(&mix), Popularity::Latest(0.99));
    }
}
