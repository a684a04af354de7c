//! [`Report`]: all results of a run, as one JSON object. Field names are stable; fields may be added.

mod medians;
mod workload;

pub use medians::median;
pub use workload::{ClientsInfo, OperationsInfo, SamplingInfo, Workload};

use crate::bound::{Bound, Placement};
use crate::latency::LatencyUs;
use crate::machine::Machine;
use crate::reads::{Churned, ReadsPerGet, Table};
use crate::verbs::VerbsByKind;
use drover_kv::{Calls, Reads};
use medians::{median_bound, median_latency, median_pair, median_rivals, mode_ratios, range};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results and settings of one run of `bench`. Only some of its samples *count*, that is, enter the medians: see
/// [`Report::counts`].
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the key-value system, such as `herd`.
    pub system: String,
    /// Name of the fabric, such as `shm`.
    pub fabric: String,
    /// Throughput and latency.
    #[serde(flatten)]
    pub performance: Performance,
    /// READs of the server's memory per GET, for clients that READ it.
    #[serde(flatten)]
    pub reads: ReadsSummary,
    /// What clients and server counted.
    #[serde(flatten)]
    pub counters: Counters,
    /// Processor time of both sides: medians of the samples that [count](Report::counts).
    #[serde(flatten)]
    pub processor_time: ProcessorTime,
    /// All samples in the order in which they were taken, including those that do not [count](Report::counts).
    pub samples: Vec<Sample>,
    /// Placement and speed requested of samples, and which samples count.
    #[serde(flatten)]
    pub counted: Counted,
    /// Bounds and rivals, and the system's results relative to them.
    #[serde(flatten)]
    pub compared: Compared,
    /// The operations, clients and samples, mostly as requested, and the measured cost of the load generator.
    pub workload: Workload,
    /// Commit, seed, machine and time of the run.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Notes for the reader, such as what the latencies cover or why samples are missing.
    pub notes: Vec<String>,
}

/// Throughput and latency of a run: medians over the samples that [count](Report::counts).
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Performance {
    /// Operations per second of all clients together: the median of the samples that count.
    pub throughput_ops: f64,
    /// Minimum and maximum operations per second of the samples that count; zeros if there are none.
    pub throughput_range: [f64; 2],
    /// Throughput with the first popularity of keys divided by that with the second: `[median, minimum, maximum]` of
    /// the ratios of the samples that count. `None` without a second popularity.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over_beside: Option<[f64; 3]>,
    /// Hits per GET, 0 to 1: the median of the samples that count.
    pub hit_rate: f64,
    /// Latencies in the throughput runs, microseconds: each number is the median of that number over the samples that
    /// count.
    pub latency_us: LatencyUs,
    /// Results of one client with one operation in flight: medians of the samples that count.
    pub window1: Lone,
}

impl Performance {
    /// Medians and ranges over `samples`.
    fn of(samples: &[&Sample]) -> Performance {
        let all = |of: fn(&Sample) -> f64| samples.iter().map(|s| of(s)).collect::<Vec<f64>>();
        let ops = all(|s| s.throughput_ops);
        let over = samples
            .iter()
            .filter_map(|s| Some(s.throughput_ops / s.beside_ops?))
            .collect::<Vec<f64>>();
        let [least, most] = range(&over);
        Performance {
            throughput_ops: median(&ops),
            throughput_range: range(&ops),
            over_beside: (!over.is_empty()).then(|| [median(&over), least, most]),
            hit_rate: median(&all(|s| s.hit_rate)),
            latency_us: median_latency(samples.iter().map(|s| s.latency_us)),
            window1: Lone {
                throughput_ops: median(&all(|s| s.window1.throughput_ops)),
                latency_us: median_latency(samples.iter().map(|s| s.window1.latency_us)),
            },
        }
    }
}

/// Processor time per operation.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// The server's, nanoseconds, polling for requests included: `[user, system]` mode. `None` if `bench` did not start
    /// the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_ns: Option<[f64; 2]>,
    /// The clients', nanoseconds, all their threads together: with the load generator's own work, and polling for results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_ns: Option<f64>,
}

impl ProcessorTime {
    /// Medians over `samples`.
    fn median(samples: &[&Sample]) -> ProcessorTime {
        let times = || samples.iter().map(|sample| sample.processor_time);
        let client_ns: Vec<f64> = times().filter_map(|time| time.client_ns).collect();
        ProcessorTime {
            server_ns: median_pair(times().filter_map(|time| time.server_ns)),
            client_ns: (!client_ns.is_empty()).then(|| median(&client_ns)),
        }
    }
}

/// What clients and server counted of their own work.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// What calls took whose results are fetched or pushed: Jakiro's and its relatives'. `None` for other systems.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<CallsSummary>,
    /// Verbs and round trips of each kind of operation, for clients that do an operation's work by themselves. `None` for
    /// others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verbs: Option<VerbsByKind>,
    /// What the server counted from its start to its end, loading and warm-up included, under the names that `drover stats`
    /// shows. Empty if `bench` did not start the server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub server_counters: BTreeMap<String, u64>,
}

/// What calls took, summed over the samples that [count](Report::counts).
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallsSummary {
    /// Verbs that clients posted per call.
    pub operations_per_call: f64,
    /// The counts, and R, P and F at the end.
    #[serde(flatten)]
    pub counts: Calls,
}

impl CallsSummary {
    fn of(counts: Calls) -> CallsSummary {
        CallsSummary {
            operations_per_call: counts.operations_per_call(),
            counts,
        }
    }
}

/// READs of the server's memory per GET, for clients that READ it.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadsSummary {
    /// READs per GET, averaged over the GETs of all samples that [count](Report::counts); `None` if the clients do not
    /// report READs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads_per_get: Option<ReadsPerGet>,
    /// READs per GET after all keys were replaced, with the table as full as before; `None` if they were not replaced,
    /// or the clients do not report READs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub churned: Option<Churned>,
    /// Kind and load of the table that clients READ; `None` if they READ none, or `bench` did not start the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub table: Option<Table>,
}

/// Placement and speed requested of samples, and the placement and number of those that [count](Report::counts).
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// The requested placement of the first client core and the first server core; `None` if none was requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wanted_placement: Option<Placement>,
    /// Whether samples with the first client core and the first server core at full speed were requested.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub wants_full_speed: bool,
    /// Shortest time that any core needed in the run for the fixed work of [`CoreProbes::core_ns`], nanoseconds; `None`
    /// if it was never measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quickest_core_ns: Option<f64>,
    /// The placement that a sample must have to count: the requested one if any sample has it, else the most common
    /// one. `None` without samples.
    pub placement: Option<Placement>,
    /// Number of samples that [count](Report::counts).
    pub samples_counted: usize,
}

/// Results of bounds (the speed of the machine itself) and rivals (other servers on the same machine), and the system's
/// results relative to them.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// The machine's bounds: medians of the samples that [count](Report::counts). `None` if they were not requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bound>,
    /// Results of rivals (other servers on the same machine), one entry per rival and mode: medians of the samples that
    /// [count](Report::counts).
    pub rivals: Vec<RivalResult>,
    /// Texts for people: one per requested rival that is not installed, and one per rival and transport over which it
    /// could not be started or loaded.
    pub rivals_missing: Vec<String>,
    /// One entry per mode: drover, through memcached's protocol, relative to the best other rival. Empty unless drover
    /// and another rival were measured.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub through_sockets: Vec<ModeRatio>,
    /// The system's median results relative to the medians of bounds and rivals.
    pub ratios: Ratios,
}

/// Commit, seed, machine and time of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunInfo {
    /// The commit that the program was built from, or `unknown`.
    pub commit: String,
    /// The seed of keys and operations.
    pub seed: u64,
    /// The machine that the clients ran on.
    pub machine: Machine,
    /// Time at which the clients had connected, before keys were loaded: seconds since 1970, UTC.
    pub time: u64,
}

/// Results of one client with one operation in flight.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lone {
    /// Operations per second.
    pub throughput_ops: f64,
    /// Latencies of all operations, microseconds.
    pub latency_us: LatencyUs,
}

/// One sample: results of the system, the bounds and the rivals that were measured within the same seconds. All numbers
/// are those of this sample alone.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Operations per second of all clients together.
    pub throughput_ops: f64,
    /// Operations per second of all clients together with the second popularity; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside_ops: Option<f64>,
    /// Hits per GET, 0 to 1.
    pub hit_rate: f64,
    /// Counts and duration of the throughput run.
    #[serde(flatten)]
    pub counts: SampleCounts,
    /// Latencies of the throughput run, microseconds.
    pub latency_us: LatencyUs,
    /// Results of one client with one operation in flight, in a run of its own; if the throughput run already had only
    /// one client and one operation in flight, its results.
    pub window1: Lone,
    /// Distance between the first client core and the first server core, and the speed of each.
    #[serde(flatten)]
    pub cores: CoreProbes,
    /// GETs and READs of all clients in the throughput run; `None` if the clients do not report READs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads: Option<Reads>,
    /// What the calls of all clients took in the throughput run; `None` if the clients do not report that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<Calls>,
    /// Processor time of both sides in the throughput run.
    #[serde(flatten)]
    pub processor_time: ProcessorTime,
    /// The machine's bounds; `None` if they were not requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bound>,
    /// Results of rivals (other servers on the same machine), one entry per rival and mode.
    pub rivals: Vec<RivalResult>,
}

/// Counts and duration of the throughput run of a sample.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SampleCounts {
    /// Operations finished within `elapsed_ns`.
    pub ops: u64,
    /// Hits compared byte by byte with the written value: one in 64.
    pub verified: u64,
    /// Duration of the throughput run, nanoseconds.
    pub elapsed_ns: u64,
    /// Rate of the slowest client relative to the mean of all, 0 to 1.
    #[serde(default)]
    pub slowest_share: f64,
}

/// Measurements, during a sample, of two cores, the first client core and the first server core: the distance between
/// them, and the speed of each.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoreProbes {
    /// Round trip of a cache line between the first client core and the first server core, nanoseconds, at three times:
    /// before the throughput run, after it, and after the run at window 1 and the bounds.
    pub rtt_ns: [f64; 3],
    /// Class of the distance between the first client core and the first server core, according to the three round
    /// trips.
    pub placement: Option<Placement>,
    /// Time for the same fixed work on each core, nanoseconds: `[before, after]` the throughput run, and in each
    /// `[client core, server core]`. `None` if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core_ns: Option<[[f64; 2]; 2]>,
}

/// Results of a rival in one mode: of one sample, or medians over several.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct RivalResult {
    /// Name of the rival, such as `memcached`; if its program was given by path, with the version that the program
    /// prints, such as `memcached 1.6.18`.
    pub name: String,
    /// Name of the [`Mode`](crate::rivals::Mode), such as `unix 50x32`.
    pub mode: String,
    /// Operations per second.
    pub throughput_ops: f64,
    /// Hits per GET, 0 to 1.
    pub hit_rate: f64,
    /// Latencies, microseconds: in modes with one operation in flight of every operation, in other modes of one
    /// operation in 32.
    pub latency_us: LatencyUs,
    /// The rival's processor time per operation, nanoseconds, polling for requests included: `[user, system]` mode;
    /// `None` if unavailable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_ns: Option<[f64; 2]>,
}

/// Comparison of drover, through memcached's protocol, with the best of the other rivals in one mode. A drover whose
/// program was given by path counts as another rival.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModeRatio {
    /// Name of the mode, such as `unix 50x32`.
    pub mode: String,
    /// drover's throughput / that of the fastest other rival: `[median, minimum, maximum]` of the ratios of the samples
    /// that count. Above 1 drover is faster.
    pub throughput: [f64; 3],
    /// drover's 99th percentile of the latency / the lowest 99th percentile of another rival: `[median, minimum,
    /// maximum]` of the ratios of the samples that count. Below 1 drover is faster.
    pub p99: [f64; 3],
}

/// The system's median results relative to the medians of bounds and rivals; `None` where one of the two is missing.
/// drover through memcached's protocol is no rival here, unless its program was given by path.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratios {
    /// The system's throughput / the lower of [`Bound::ring_ops`] and [`Bound::dram_pair_ops`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_bound: Option<f64>,
    /// The system's throughput / [`Bound::reply_ring_ops`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_reply_bound: Option<f64>,
    /// The system's median latency with one operation in flight / ([`Bound::ring_rtt_ns`] + [`Bound::dram_pair_ns`]).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window1_of_bound: Option<f64>,
    /// The system's throughput / the highest throughput of any rival in any mode.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_best_rival: Option<f64>,
    /// Lowest median latency of a rival over a Unix socket / the system's median latency, both with one operation in
    /// flight. Above 1 the system is faster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rival_latency: Option<f64>,
}

impl Report {
    /// Decides which [`samples`](Report::samples) [count](Report::counts), and computes all medians, ranges and ratios
    /// from those. To be called after samples were added.
    pub fn summarize(&mut self) {
        self.counted.placement = self.counted_placement();
        let counted: Vec<&Sample> = self.samples.iter().filter(|s| self.counts(s)).collect();
        self.counted.samples_counted = counted.len();
        self.performance = Performance::of(&counted);
        let mut reads = Reads::default();
        counted
            .iter()
            .filter_map(|s| s.reads)
            .for_each(|some| reads.add(&some));
        self.reads.reads_per_get = ReadsPerGet::of(&reads, self.reads.table.as_ref());
        let mut calls = None::<Calls>;
        for some in counted.iter().filter_map(|s| s.calls) {
            calls.get_or_insert_default().add(&some);
        }
        self.counters.calls = calls.map(CallsSummary::of);
        self.processor_time = ProcessorTime::median(&counted);
        self.compared.bound = median_bound(&counted);
        self.compared.rivals = median_rivals(&counted);
        self.compared.through_sockets = mode_ratios(&counted);
        self.compared.ratios = self.ratios();
    }

    fn ratios(&self) -> Ratios {
        let over = |a: f64, b: f64| (b > 0.0 && a > 0.0).then(|| a / b);
        let p50 = self.performance.window1.latency_us.p50;
        let foreign = || self.compared.rivals.iter().filter(|r| r.is_foreign());
        let best = foreign().map(|r| r.throughput_ops).fold(0.0, f64::max);
        let at_depth_1 = foreign().filter(|r| r.mode == crate::rivals::Mode::UNIX_DEPTH_1.name);
        let quickest = at_depth_1.map(|r| r.latency_us.p50).fold(f64::INFINITY, f64::min);
        Ratios {
            of_bound: self
                .compared
                .bound
                .and_then(|b| over(self.performance.throughput_ops, b.ring_ops.min(b.dram_pair_ops))),
            of_reply_bound: self
                .compared
                .bound
                .and_then(|b| over(self.performance.throughput_ops, b.reply_ring_ops)),
            window1_of_bound: self
                .compared
                .bound
                .and_then(|b| over(p50 * 1e3, b.ring_rtt_ns + b.dram_pair_ns)),
            of_best_rival: over(self.performance.throughput_ops, best),
            rival_latency: over(quickest, p50).filter(|r| r.is_finite()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(ops: f64, placement: Placement) -> Sample {
        let latency_us = LatencyUs {
            p50: 0.5,
            ..LatencyUs::default()
        };
        let rival = |name: &str, mode: &str, ops, p50| RivalResult {
            name: name.to_owned(),
            mode: mode.to_owned(),
            throughput_ops: ops,
            hit_rate: 1.0,
            latency_us: LatencyUs {
                p50,
                ..LatencyUs::default()
            },
            server_ns: Some([400.0, 3600.0]),
        };
        Sample {
            throughput_ops: ops,
            hit_rate: 1.0,
            latency_us,
            window1: Lone {
                throughput_ops: 2e6,
                latency_us,
            },
            cores: CoreProbes {
                placement: Some(placement),
                ..CoreProbes::default()
            },
            bound: Some(Bound {
                ring_ops: 100e6,
                reply_ring_ops: 24e6,
                reply_bytes: 1024,
                dram_pair_ops: 40e6,
                ring_rtt_ns: 130.0,
                dram_pair_ns: 270.0,
                socket_rtt_us: 7.0,
            }),
            rivals: vec![
                rival("memcached", "unix multiget 100", 1.0e6, 900.0),
                rival("redis", "unix depth 1", 0.1e6, 9.0),
            ],
            ..Sample::default()
        }
    }

    #[test]
    fn samples_of_the_placement_asked_for_count_if_there_are_any() {
        let mut report = Report {
            counted: Counted {
                wanted_placement: Some(Placement::Near),
                ..Counted::default()
            },
            samples: vec![sample(1e6, Placement::Far), sample(2e6, Placement::Far)],
            ..Report::default()
        };
        report.summarize();
        assert_eq!(
            (report.wanted_count(), report.counted.placement),
            (0, Some(Placement::Far))
        );
        report.samples.push(sample(10e6, Placement::Near));
        report.summarize();
        assert_eq!(
            (report.wanted_count(), report.counted.placement),
            (1, Some(Placement::Near))
        );
        assert_eq!(
            (report.counted.samples_counted, report.performance.throughput_ops),
            (1, 10e6)
        );
    }

    #[test]
    fn only_samples_of_the_most_common_placement_count() {
        let samples = [
            sample(10e6, Placement::Near),
            sample(1e6, Placement::Far),
            sample(12e6, Placement::Near),
            sample(14e6, Placement::Near),
            sample(99e6, Placement::Moved),
        ];
        let mut report = Report {
            samples: samples.to_vec(),
            ..Report::default()
        };
        report.summarize();
        assert_eq!(
            (report.counted.placement, report.counted.samples_counted),
            (Some(Placement::Near), 3)
        );
        assert_eq!(report.performance.throughput_ops, 12e6);
        assert_eq!(report.performance.throughput_range, [10e6, 14e6]);
        assert_eq!(report.compared.ratios.of_bound, Some(12.0 / 40.0));
        assert_eq!(report.compared.ratios.of_reply_bound, Some(12.0 / 24.0));
        assert_eq!(report.compared.ratios.window1_of_bound, Some(500.0 / 400.0));
        assert_eq!(report.compared.ratios.of_best_rival, Some(12.0));
        assert_eq!(report.compared.ratios.rival_latency, Some(18.0));
    }

    #[test]
    fn what_runs_beside_is_compared_sample_by_sample() {
        let with = |ops, beside| Sample {
            beside_ops: Some(beside),
            ..sample(ops, Placement::Near)
        };
        let mut report = Report {
            samples: vec![with(10e6, 5e6), with(6e6, 6e6), with(4e6, 8e6)],
            ..Report::default()
        };
        report.summarize();
        assert_eq!(report.performance.over_beside, Some([1.0, 0.5, 2.0]));
    }

    #[test]
    fn drover_among_the_rivals_is_compared_with_the_best_of_the_others() {
        let with = |ours: f64, others: [f64; 2]| {
            let rival = |name: &str, ops: f64| RivalResult {
                name: name.to_owned(),
                mode: "tcp 50x1".to_owned(),
                throughput_ops: ops,
                latency_us: LatencyUs {
                    p99: 8e5 / ops,
                    ..LatencyUs::default()
                },
                ..RivalResult::default()
            };
            Sample {
                rivals: vec![
                    rival("memcached", others[0]),
                    rival("drover", ours),
                    rival("redis", others[1]),
                ],
                ..sample(10e6, Placement::Near)
            }
        };
        let mut report = Report {
            samples: vec![
                with(4e5, [1e5, 2e5]),
                with(1e5, [2e5, 1e5]),
                with(2e5, [1e5, 2e5]),
            ],
            ..Report::default()
        };
        report.summarize();
        let [ratio] = &report.compared.through_sockets[..] else {
            panic!("one mode: {:?}", report.compared.through_sockets);
        };
        assert_eq!(ratio.throughput, [1.0, 0.5, 2.0]);
        assert_eq!(ratio.p99, [1.0, 0.5, 2.0]);
        assert_eq!(
            report.compared.ratios.of_best_rival,
            Some(50.0),
            "drover is no rival of drover"
        );
    }

    #[test]
    fn the_object_has_the_promised_fields() {
        let mut report = Report {
            system: "herd".to_owned(),
            fabric: "shm".to_owned(),
            samples: vec![sample(1e6, Placement::Near)],
            ..Report::default()
        };
        report.summarize();
        let json = serde_json::to_value(&report).expect("a report is JSON");
        let has = |at: &serde_json::Value, names: &[&str]| {
            for name in names {
                assert!(at.get(name).is_some(), "{name} in {at}");
            }
        };
        has(
            &json,
            &[
                "system",
                "fabric",
                "throughput_ops",
                "hit_rate",
                "latency_us",
                "samples",
                "bound",
                "rivals",
                "commit",
                "seed",
                "machine",
            ],
        );
        has(&json["latency_us"], &["mean", "p50", "p95", "p99", "p999"]);
        has(
            &json["bound"],
            &["ring_ops", "dram_pair_ops", "ring_rtt_ns", "dram_pair_ns"],
        );
        has(
            &json["rivals"][0],
            &["name", "mode", "throughput_ops", "latency_us"],
        );
        has(
            &json["rivals"][0]["latency_us"],
            &["mean", "p50", "p95", "p99", "p999"],
        );
        assert!(json["samples"].is_array() && json["machine"].is_object());
    }
}
