//! Arguments of `drover bench`.

mod comparison;
mod load;
mod output;
mod pace;
mod sampling;
mod workload;

use crate::access::AccessArgs;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use comparison::ComparisonArgs;
use drover_bench::Helper;
use drover_kv::SystemTable;
use drover_systems::System;
use load::LoadArgs;
use output::OutputArgs;
use pace::PaceArgs;
use sampling::SamplingArgs;
use std::path::PathBuf;
use workload::WorkloadArgs;

/// Arguments of `bench`.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "What is measured")]
#[command(after_help = "--help says more: about mixes, samples and what the table reports, with examples.")]
#[command(after_long_help = "\
Mixes are YCSB's: a 50 % GET 50 % PUT, b 95/5, c GETs only, d 95 % GETs of the latest keys and 5 % inserts, \
f 50 % read-modify-write; e (scans) is not supported by this system; put=0.2 is 20 % PUT.

Closed loop: each client keeps --window operations in flight with each server core. With --rate, operations start at \
a fixed rate, and latency counts from the time when each was due.

A probe of the cache-line round trip precedes and follows each sample, because virtual machines move their cores. \
Medians are over the samples with the most common placement.

Every run writes a result file with all samples, and a file with the latencies as HDR text (.hgrm).

GETs of --system pilaf and farm READ the server's memory: the table reports READs per GET next to the number computed \
for the table's load, after filling and (--churn) after all keys were replaced. The table also reports the server's \
processor time per operation.

Examples:
  drover bench
  drover bench --system auto --value-size 32,256,1024,4096
  drover bench --compare herd,farm,jakiro --repeats 7
  drover bench --bound --vs memcached,redis
  drover bench --vs memcached --report page         page/report.html, to look at or to print
  drover bench --mix a --dist zipf --keys 16000000 --window 32 --json -")]
pub struct Args {
    /// System to measure
    #[arg(long, value_name = "NAME", help = system_help())]
    pub system: Option<String>,
    /// Measure these systems, interleaved, and print the ratios of the others to the first one's throughput: a list of
    /// names, such as herd,farm,jakiro
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "system")]
    compare: Vec<String>,
    /// The program to start as server, clients and helpers, instead of this one: for tests, whose executable is not
    /// only this program
    #[arg(long, value_name = "FILE", hide = true)]
    again: Option<PathBuf>,
    /// Fabric for the data; with --address, the address determines it
    #[arg(long, default_value = "shm", value_parser = ["shm", "rdma"])]
    pub fabric: String,
    /// Measure this running server instead of starting one: shm:NAME, unix:/path.sock, rdma://host:port, or a service of
    /// several members, etcd://host[,host...]/NAME[?tls-ca=FILE...]
    #[arg(long, visible_alias = "cluster", value_name = "ADDR")]
    pub address: Option<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Seed of keys and operations
    #[arg(long, default_value_t = 1, help_heading = "Keys, values and operations")]
    pub seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl Args {
    /// Command line to start this program (or the one of `--again`) with the hidden command `helper`.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub fn helper(&self, helper: &str) -> Result<Helper, Failure> {
        match &self.again {
            None => Helper::current(&[helper]).map_err(|error| Failure::new(exit::OS_ERROR, error)),
            Some(program) => Ok(Helper {
                program: program.clone(),
                arguments: vec![helper.to_owned()],
            }),
        }
    }

    /// Whether several systems are measured, interleaved: `--system auto` or `--compare`.
    pub fn is_interleaved(&self) -> bool {
        self.system.as_deref() == Some(AUTO) || self.compares()
    }

    /// Whether the systems that are measured were listed: `--compare`.
    pub fn compares(&self) -> bool {
        !self.compare.is_empty()
    }

    /// The systems to be measured, interleaved: those of `--compare`, otherwise all.
    ///
    /// # Errors
    /// A system is not in table `T`, or is listed twice.
    pub fn systems<T: SystemTable>(&self) -> Result<Vec<T>, Failure> {
        if !self.compares() {
            return Ok(T::ALL.to_vec());
        }
        let mut listed = Vec::new();
        for name in &self.compare {
            let known = T::names(", ");
            let system =
                T::named(name).ok_or_else(|| usage(format!("--compare {name}: expected some of {known}")))?;
            if listed.contains(&system) {
                return Err(usage(format!("--compare lists {name} twice")));
            }
            listed.push(system);
        }
        Ok(listed)
    }

    /// The system of `--system`; `None` without that option and for `auto`.
    ///
    /// # Errors
    /// The system is not in table `T`.
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

    /// Number of keys: that of `--keys`, otherwise 786432 if clients of `system` READ a table or `system` is `None`
    /// (all systems, interleaved), otherwise 1000000.
    pub fn keys<T: SystemTable>(&self, system: Option<T>) -> u32 {
        let has_table = |system: T| system.facts().table.is_some();
        self.workload.key_count(system.is_none_or(has_table))
    }

    /// Number of times that all keys are replaced after the samples of `system`; `inserts`: whether the mix inserts
    /// keys. Without `--churn`: 1, but 0 over RDMA, with `--address`, for a mix that inserts keys, and for a system
    /// whose GETs are no READs. With `--churn`: its value, but 0 for such a system among several.
    ///
    /// # Errors
    /// `--churn` is over 0, and the mix inserts keys; or `--churn` is over 0 for one system, and its GETs are no READs.
    pub fn turnovers<T: SystemTable>(&self, system: T, inserts: bool) -> Result<u32, Failure> {
        let reads_nothing = system.facts().table.is_none();
        let churn = self.workload.churn();
        let given = churn.filter(|churn| *churn > 0);
        match (churn, given) {
            (None, _) if reads_nothing || inserts || self.address.is_some() => Ok(0),
            (None, _) => Ok(u32::from(self.fabric == "shm")),
            (_, Some(_)) if inserts => Err(usage(format!(
                "--churn keeps the table's load constant, but mix {} inserts keys",
                self.workload.mix_name()
            ))),
            (_, Some(_)) if reads_nothing && !self.is_interleaved() => Err(usage(format!(
                "--churn reports the READs of GETs, and {system}'s GETs make none",
            ))),
            (_, given) => Ok(given.filter(|_| !reads_nothing).unwrap_or(0)),
        }
    }

    /// Checks those ranges of numbers that clap has not checked; the workload's mix and sizes are not checked here.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn check(&self) -> Result<(), Failure> {
        let complaint = (self.workload.complaint())
            .or_else(|| self.load.complaint())
            .or_else(|| self.sampling.complaint())
            .or_else(|| self.pace.complaint());
        complaint.map_or(Ok(()), |text| Err(usage(text)))
    }

    /// Refuses options that do not work with several systems; the caller has checked that there are several.
    ///
    /// # Errors
    /// One of these options is given.
    pub fn check_interleaved(&self) -> Result<(), Failure> {
        let flags = [
            self.address.as_ref().map(|_| "--address"),
            self.sampling.has_placement().then_some("--placement"),
            self.workload.beside().map(|_| "--beside-dist"),
            self.comparison.flag(),
            self.output.hdr.as_ref().map(|_| "--hdr"),
        ];
        let Some(flag) = flags.into_iter().flatten().next() else {
            return Ok(());
        };
        Err(usage(format!(
            "{flag} is for one system at a time, but {} runs several",
            if self.compares() {
                "--compare"
            } else {
                "--system auto"
            }
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

/// For fuzzers: checks that any arguments are valid or refused with a reason, without a panic.
pub fn fuzz_args(args: &Args) {
    let outcomes = [
        args.check(),
        args.workload.mix().map(|mix| {
            args.workload.popularity(&mix);
        }),
        args.workload.value_bytes().map(|[from, to]| assert!(from <= to)),
        args.workload
            .value_list()
            .map(|all| assert!(all.iter().all(|[from, to]| from <= to))),
        args.check_interleaved(),
        args.system::<System>().map(drop),
        args.comparison.rivals().map(drop),
    ];
    for refused in outcomes.into_iter().filter_map(Result::err) {
        assert!(!refused.text.is_empty(), "a refusal without a reason");
    }
}

/// A failure with exit status [`USAGE`](exit::USAGE) and this text.
pub fn usage(text: impl std::fmt::Display) -> Failure {
    Failure::new(exit::USAGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use drover_bench::rivals::Kind;
    use drover_bench::workload::Popularity;

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
        let rivals = args.comparison.rivals().expect("rivals");
        let kinds: Vec<Kind> = rivals.iter().map(|entrant| entrant.kind).collect();
        assert_eq!(kinds, [Kind::Memcached, Kind::Redis]);
        assert_eq!(args.workload.value_bytes().expect("sizes"), [32, 32]);
        assert_eq!(
            args.workload.popularity(&args.workload.mix().expect("a mix")),
            Popularity::Zipf(0.99)
        );
        assert!(args.check().is_ok() && args.comparison.flag().is_some());
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
                .workload
                .mix()
                .is_err_and(|f| f.text.contains("scan"))
        );
        assert!(parse(&["--vs", "mysql"]).comparison.rivals().is_err());
        assert!(parse(&["--value-size", "9-8"]).workload.value_bytes().is_err());
        assert_eq!(
            parse(&["--value-size", "8-9"])
                .workload
                .value_bytes()
                .expect("a range"),
            [8, 9]
        );
        let list = parse(&["--value-size", "8-9,32", "--system", "auto"]);
        assert_eq!(list.workload.value_list().expect("two"), [[8, 9], [32, 32]]);
        assert!(list.is_interleaved() && list.system::<System>().is_ok_and(|system| system.is_none()));
        assert!(
            list.workload
                .value_bytes()
                .is_err_and(|f| f.text.contains("--system auto"))
        );
    }

    #[test]
    fn mix_d_asks_for_the_latest() {
        let args = parse(&["--mix", "d"]);
        let mix = args.workload.mix().expect("a mix");
        assert_eq!(args.workload.popularity(&mix), Popularity::Latest(0.99));
    }
}
