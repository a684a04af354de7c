//! [`Report`]: all results of a run, as one JSON object. Field names are stable; fields may be added.

mod workload;

pub use workload::{ClientsInfo, OperationsInfo, SamplingInfo, Workload};

use crate::bound::{Bound, Placement};
use crate::latency::LatencyUs;
use crate::machine::Machine;
use crate::reads::{Churned, ReadsPerGet, Table};
use crate::rivals::Kind;
use drover_kv::Reads;
use serde::{Deserialize, Serialize};

/// One run of `bench`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the key-value system, such as `herd`.
    pub system: String,
    /// Name of the fabric, such as `shm`.
    pub fabric: String,
    /// Throughput and latency.
    #[serde(flatten)]
    pub performance: Performance,
    /// READs of the server's memory.
    #[serde(flatten)]
    pub reads: ReadsSummary,
    /// The server's processor time per operation in user and in system mode, nanoseconds, including waits for requests;
    /// medians.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_ns: Option<[f64; 2]>,
    /// All samples, including those that do not count.
    pub samples: Vec<Sample>,
    /// Which samples count.
    #[serde(flatten)]
    pub counted: Counted,
    /// Bounds and rivals.
    #[serde(flatten)]
    pub compared: Compared,
    /// The operations and clients.
    pub workload: Workload,
    /// What ran where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Throughput and latency of a run: medians over the samples that count.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Performance {
    /// Operations per second: the median of the samples that count.
    pub throughput_ops: f64,
    /// Minimum and maximum of those samples.
    pub throughput_range: [f64; 2],
    /// Throughput relative to the second popularity's, sample by sample: median, least and most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over_beside: Option<[f64; 3]>,
    /// Hits per GET.
    pub hit_rate: f64,
    /// Latencies of the throughput run, microseconds; medians.
    pub latency_us: LatencyUs,
    /// Results with one operation in flight; medians.
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

/// READs of the server's memory, for clients that read it.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadsSummary {
    /// READs per GET, for clients that read the server's memory; over all samples that count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads_per_get: Option<ReadsPerGet>,
    /// READs per GET after the keys were replaced at a constant load, if they were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub churned: Option<Churned>,
    /// The table that clients read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub table: Option<Table>,
}

/// Which samples were requested, and which count.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// The requested placement.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wanted_placement: Option<Placement>,
    /// Whether samples were requested with both cores at full speed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub wants_full_speed: bool,
    /// Time of the fastest core for the fixed work of [`Sample::core_ns`], nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quickest_core_ns: Option<f64>,
    /// The placement of the samples that count.
    pub placement: Option<Placement>,
    /// Number of samples that count.
    pub samples_counted: usize,
}

/// A system beside bounds and rivals.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// The machine's bounds, if requested; medians.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bound>,
    /// Rivals in each mode; medians.
    pub rivals: Vec<RivalResult>,
    /// Requested rivals that are not available, with the reason.
    pub rivals_missing: Vec<String>,
    /// drover through memcached's protocol relative to the best of the others in the same mode, sample by sample.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub through_sockets: Vec<ModeRatio>,
    /// Ratios of the medians.
    pub ratios: Ratios,
}

/// What ran where and when.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunInfo {
    /// The commit that the program was built from.
    pub commit: String,
    /// The seed of the run.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// Time of the run, seconds since 1970.
    pub time: u64,
}

/// Results with one operation in flight.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lone {
    /// Operations per second.
    pub throughput_ops: f64,
    /// Latencies of all operations.
    pub latency_us: LatencyUs,
}

/// One sample: everything measured within the same seconds.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Operations per second.
    pub throughput_ops: f64,
    /// Operations per second with the second popularity.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside_ops: Option<f64>,
    /// Hits per GET.
    pub hit_rate: f64,
    /// What the throughput run did.
    #[serde(flatten)]
    pub counts: SampleCounts,
    /// Latencies of the throughput run.
    pub latency_us: LatencyUs,
    /// Results with one operation in flight.
    pub window1: Lone,
    /// Where and how fast the cores were.
    #[serde(flatten)]
    pub cores: CoreProbes,
    /// READs of the clients, if they read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads: Option<Reads>,
    /// The server's processor time per operation, as in [`Report::server_ns`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_ns: Option<[f64; 2]>,
    /// The machine's bounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Bound>,
    /// The rivals.
    pub rivals: Vec<RivalResult>,
}

/// What the throughput run of a sample did.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SampleCounts {
    /// Operations finished.
    pub ops: u64,
    /// Hits compared byte by byte with the written value.
    pub verified: u64,
    /// Duration of the throughput run, nanoseconds.
    pub elapsed_ns: u64,
}

/// Where and how fast the cores were during a sample.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoreProbes {
    /// Bare round trip before and after the throughput run, and after window 1 and the bound, nanoseconds.
    pub rtt_ns: [f64; 3],
    /// Placement of the cores according to these round trips.
    pub placement: Option<Placement>,
    /// Time of client and server core for the same fixed work, before and after the throughput run, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core_ns: Option<[[f64; 2]; 2]>,
}

/// A rival in one mode.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct RivalResult {
    /// Name, such as `memcached` or `redis`.
    pub name: String,
    /// Mode, such as `unix 50x32`.
    pub mode: String,
    /// Operations per second.
    pub throughput_ops: f64,
    /// Hits per GET.
    pub hit_rate: f64,
    /// Latencies, microseconds.
    pub latency_us: LatencyUs,
    /// The server's processor time per operation in user and in system mode, nanoseconds, including waits for requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_ns: Option<[f64; 2]>,
}

/// Comparison of drover with the rivals in one mode: median, least and most.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModeRatio {
    /// Name of the mode, as of a rival.
    pub mode: String,
    /// drover's throughput / that of the fastest other.
    pub throughput: [f64; 3],
    /// drover's 99th percentile / the lowest of the others.
    pub p99: [f64; 3],
}

/// Ratios of the results to bounds and rivals.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratios {
    /// Throughput / the lower of the two bounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_bound: Option<f64>,
    /// Median latency at window 1 / (bare round trip + one unpipelined pair).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window1_of_bound: Option<f64>,
    /// Throughput / the best rival's in its best mode.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_best_rival: Option<f64>,
    /// The fastest rival's median at depth 1 over a Unix socket / ours at window 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rival_latency: Option<f64>,
}

impl Report {
    /// Computes medians, ranges and ratios from the samples that [count](Report::counts).
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
        self.server_ns = median_pair(counted.iter().filter_map(|s| s.server_ns));
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
            window1_of_bound: self
                .compared
                .bound
                .and_then(|b| over(p50 * 1e3, b.ring_rtt_ns + b.dram_pair_ns)),
            of_best_rival: over(self.performance.throughput_ops, best),
            rival_latency: over(quickest, p50).filter(|r| r.is_finite()),
        }
    }
}

/// The median; for an even number the mean of the two middle values; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, half) if n % 2 == 0 => (sorted[half - 1] + sorted[half]) / 2.0,
        (_, half) => sorted[half],
    }
}

fn range(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    [least.min(most), most]
}

fn median_latency(all: impl Iterator<Item = LatencyUs>) -> LatencyUs {
    let all: Vec<LatencyUs> = all.collect();
    let of = |get: fn(&LatencyUs) -> f64| median(&all.iter().map(get).collect::<Vec<_>>());
    LatencyUs {
        mean: of(|l| l.mean),
        p50: of(|l| l.p50),
        p95: of(|l| l.p95),
        p99: of(|l| l.p99),
        p999: of(|l| l.p999),
    }
}

fn median_bound(samples: &[&Sample]) -> Option<Bound> {
    let all: Vec<Bound> = samples.iter().filter_map(|s| s.bound).collect();
    let of = |get: fn(&Bound) -> f64| median(&all.iter().map(get).collect::<Vec<_>>());
    (!all.is_empty()).then(|| Bound {
        ring_ops: of(|b| b.ring_ops),
        dram_pair_ops: of(|b| b.dram_pair_ops),
        ring_rtt_ns: of(|b| b.ring_rtt_ns),
        dram_pair_ns: of(|b| b.dram_pair_ns),
        socket_rtt_us: of(|b| b.socket_rtt_us),
    })
}

impl RivalResult {
    fn is_foreign(&self) -> bool {
        Kind::named(&self.name).is_none_or(Kind::is_foreign)
    }
}

fn mode_ratios(samples: &[&Sample]) -> Vec<ModeRatio> {
    let ours = samples.first().into_iter().flat_map(|s| &s.rivals);
    let modes = ours.filter(|r| !r.is_foreign()).map(|r| r.mode.clone());
    let three = |all: &[f64]| {
        let [least, most] = range(all);
        [median(all), least, most]
    };
    let of = |mode: String| {
        let (mut throughput, mut p99) = (Vec::new(), Vec::new());
        for sample in samples {
            let (theirs, ours): (Vec<_>, Vec<_>) = sample
                .rivals
                .iter()
                .filter(|r| r.mode == mode)
                .partition(|r| r.is_foreign());
            let best = theirs.iter().map(|r| r.throughput_ops).fold(0.0, f64::max);
            let least = theirs
                .iter()
                .map(|r| r.latency_us.p99)
                .fold(f64::INFINITY, f64::min);
            throughput.extend(ours.first().map(|r| r.throughput_ops / best));
            p99.extend(ours.first().map(|r| r.latency_us.p99 / least));
        }
        ModeRatio {
            mode,
            throughput: three(&throughput),
            p99: three(&p99),
        }
    };
    let against_others = samples
        .iter()
        .flat_map(|s| &s.rivals)
        .any(RivalResult::is_foreign);
    modes.filter(|_| against_others).map(of).collect()
}

fn median_rivals(samples: &[&Sample]) -> Vec<RivalResult> {
    let Some(first) = samples.first() else {
        return Vec::new();
    };
    let same = |a: &RivalResult, b: &RivalResult| (&a.name, &a.mode) == (&b.name, &b.mode);
    let of = |rival: &RivalResult| {
        let all: Vec<&RivalResult> = samples
            .iter()
            .flat_map(|s| &s.rivals)
            .filter(|r| same(r, rival))
            .collect();
        RivalResult {
            name: rival.name.clone(),
            mode: rival.mode.clone(),
            throughput_ops: median(&all.iter().map(|r| r.throughput_ops).collect::<Vec<_>>()),
            hit_rate: median(&all.iter().map(|r| r.hit_rate).collect::<Vec<_>>()),
            latency_us: median_latency(all.iter().map(|r| r.latency_us)),
            server_ns: median_pair(all.iter().filter_map(|r| r.server_ns)),
        }
    };
    first.rivals.iter().map(of).collect()
}

fn median_pair(known: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    let known: Vec<[f64; 2]> = known.collect();
    let of = |nth: usize| median(&known.iter().map(|ns| ns[nth]).collect::<Vec<_>>());
    (!known.is_empty()).then(|| [of(0), of(1)])
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
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
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
