//! [`Outcome`]: the results of a run.

use crate::Setup;
use crate::tally::Tally;
use drover_kv::Calls;
use drover_verbs_sim::Report;

/// Fractions of operations for which [`LatencyUs::at`] says within what time they completed.
pub const FRACTIONS: [f64; 14] = [
    0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999,
];

/// Statistics, in microseconds, of the latencies of the operations of all clients that completed in the measured span.
/// A latency is the time from submission to the poll that returned the result. All are 0 if nothing completed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencyUs {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// 5th percentile.
    pub p5_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// Quantiles at [`FRACTIONS`].
    pub at: [f64; FRACTIONS.len()],
}

/// Results of a [run](crate::run_form). All fields cover the measured span only, except `trace_hash` and `events`.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations of all clients completed, failed ones included, in millions per virtual second.
    pub mops: f64,
    /// Latencies of the completed operations, failed ones included.
    pub latency: LatencyUs,
    /// Fraction (0 to 1) of completed GETs that returned a value; 1 if there were no GETs.
    pub hit_share: f64,
    /// Number of operations that were refused or whose effect is unknown. GETs that found nothing do not count.
    pub failed: u64,
    /// Number of operations completed, failed ones included.
    pub done: u64,
    /// Completed operations by the shard (partition) that owns the key, failed ones included, in millions per virtual
    /// second; by index of the shard.
    pub by_partition: Vec<f64>,
    /// Calls of all clients that ended, if the system's results are fetched or pushed.
    pub calls: Option<Calls>,
    /// Fraction (0 to 1) of each client's calls whose results were pushed, of clients whose calls ended; by index of the client.
    pub pushed_by_client: Vec<f64>,
    /// Fraction of the clients' cores that clients use which wait for pushed results without polling, and for everything
    /// else by polling. Only if each keeps one operation outstanding.
    pub client_cpu: Option<f64>,
    /// Counters and busy times of the parts of every machine.
    pub report: Report,
    /// Hash over all events since the cluster was created, warm-up included; equal for equal runs.
    pub trace_hash: u64,
    /// Number of simulated events since the cluster was created, warm-up included.
    pub events: u64,
}

impl Outcome {
    pub(crate) fn new(tally: &Tally, setup: &Setup, report: Report, trace: (u64, u64)) -> Outcome {
        let measured = setup.measured;
        let rate = |count: u64| count as f64 / measured.0.max(1) as f64 * 1e3;
        tally.with(|counts| Outcome {
            mops: rate(counts.done),
            latency: LatencyUs {
                mean_us: counts.latency.mean() / 1e3,
                p5_us: counts.latency.value_at_quantile(0.05) as f64 / 1e3,
                p50_us: counts.latency.value_at_quantile(0.50) as f64 / 1e3,
                p95_us: counts.latency.value_at_quantile(0.95) as f64 / 1e3,
                at: FRACTIONS.map(|fraction| counts.latency.value_at_quantile(fraction) as f64 / 1e3),
            },
            hit_share: match counts.gets {
                0 => 1.0,
                gets => counts.hits as f64 / gets as f64,
            },
            failed: counts.failed,
            done: counts.done,
            by_partition: counts.by_partition.iter().map(|count| rate(*count)).collect(),
            calls: counts.calls,
            pushed_by_client: (counts.by_client.iter())
                .filter(|(ended, _)| *ended > 0)
                .map(|(ended, pushed)| *pushed as f64 / *ended as f64)
                .collect(),
            client_cpu: (setup.depth == 1).then(|| {
                let all = (setup.clients as u64 * measured.0).max(1) as f64;
                let (waits, works) = (counts.pushed.0 as f64 / all, counts.worked.as_ns() / all);
                (1.0 - waits + waits * works).clamp(0.0, 1.0)
            }),
            report,
            trace_hash: trace.0,
            events: trace.1,
        })
    }
}
