//! [`Outcome`]: what came of a run.

use crate::Tally;
use drover_base::Ns;
use drover_verbs_sim::Report;

/// Latencies of the operations that ended in the measured span, from being submitted to being taken, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencyUs {
    /// Their mean.
    pub mean_us: f64,
    /// One in twenty is shorter.
    pub p5_us: f64,
    /// The median.
    pub p50_us: f64,
    /// One in twenty is longer.
    pub p95_us: f64,
}

/// What came of a run. All but the last two is of the measured span.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Million operations per second.
    pub mops: f64,
    /// How long they took.
    pub latency: LatencyUs,
    /// Of the GETs, so many found something; 1 if there were none.
    pub hit_share: f64,
    /// Operations that did not end well.
    pub failed: u64,
    /// Operations done.
    pub done: u64,
    /// Million operations per second of each partition.
    pub by_partition: Vec<f64>,
    /// What every part of every machine did.
    pub report: Report,
    /// A hash over everything that happened since the making of the cluster.
    pub trace_hash: u64,
    /// Events since then.
    pub events: u64,
}

impl Outcome {
    pub(crate) fn new(tally: &Tally, measured: Ns, report: Report, trace: (u64, u64)) -> Outcome {
        let rate = |count: u64| count as f64 / measured.0.max(1) as f64 * 1e3;
        tally.with(|counts| Outcome {
            mops: rate(counts.done),
            latency: LatencyUs {
                mean_us: counts.latency.mean() / 1e3,
                p5_us: counts.latency.value_at_quantile(0.05) as f64 / 1e3,
                p50_us: counts.latency.value_at_quantile(0.50) as f64 / 1e3,
                p95_us: counts.latency.value_at_quantile(0.95) as f64 / 1e3,
            },
            hit_share: match counts.gets {
                0 => 1.0,
                gets => counts.hits as f64 / gets as f64,
            },
            failed: counts.failed,
            done: counts.done,
            by_partition: counts.by_partition.iter().map(|count| rate(*count)).collect(),
            report,
            trace_hash: trace.0,
            events: trace.1,
        })
    }
}
