//! [`InCluster`]: a real key-value system in a simulated cluster, as a point of a figure.

use crate::figure::{Job, Metric, Point, Work};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_sim::Noise;
use drover_simcluster::{Load, Setup};
use std::sync::Arc;

/// Fraction of the highest rate that counts as reaching it: the knee, not the last percent.
const KNEE: f64 = 0.98;

/// Latency metrics that figures show.
pub const LATENCIES: [Metric; 3] = [
    Metric::Named("latency mean", "us"),
    Metric::Named("latency p5", "us"),
    Metric::Named("latency p95", "us"),
];

/// Minimum rate of the slowest large set-up, Mops, for the length of its warm-up.
const SLOWEST_MOPS: u64 = 15;

/// Clients and their operations.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Number of client processes.
    pub clients: usize,
    /// Number of machines with clients.
    pub machines: usize,
    /// Operations in flight per client.
    pub depth: usize,
    /// Operations of the clients.
    pub load: Load,
}

impl Asked {
    /// The set-up of the cluster, with cores that have the jitter of an ordinary system.
    pub fn setup(self, job: &Job<'_>) -> Setup {
        let mut setup = Setup::on(job.profile.clone());
        setup.world.noise = Noise::ORDINARY;
        setup.world.ablations = job.ablations;
        setup.seed = job.seed;
        // The outstanding operations complete several times before counting begins.
        let round = Ns(4 * (self.clients * self.depth) as u64 * 1_000 / SLOWEST_MOPS);
        let span = match job.quick {
            true => Ns::from_us(300),
            false => Ns::from_ms(1),
        };
        (setup.warm_up, setup.measured) = (span.max(round), span.max(round));
        (setup.clients, setup.machines, setup.depth) = (self.clients, self.machines, self.depth);
        setup.load = self.load;
        setup
    }
}

/// A real system with its set-up, without profile and seed.
pub trait InCluster: Clone + Send + Sync + 'static {
    /// Number of client processes.
    fn clients(&self) -> usize;

    /// The same set-up with `clients` clients.
    fn with_clients(&self, clients: usize) -> Self;

    /// Runs it in a simulated cluster.
    fn run(&self, job: &Job<'_>) -> Outcome;

    /// A point with the throughput of this system.
    fn point(self, profile: &'static str, series: impl Into<String>, x: f64) -> Point {
        Point {
            series: series.into(),
            against: None,
            x,
            metrics: vec![Metric::Throughput],
            profile,
            changed: Vec::new(),
            work: Work::Other(Arc::new(move |job| self.run(job))),
        }
    }

    /// A point with the latencies of this system, with the fewest clients that bring it to `mops`, or to its knee if it
    /// does not get there.
    fn latencies_at(self, profile: &'static str, series: impl Into<String>, mops: f64) -> Point {
        let plan = self.clone();
        Point {
            metrics: LATENCIES.into_iter().chain([Metric::Throughput]).collect(),
            work: Work::Other(Arc::new(move |job| run_at(&plan, job, mops))),
            ..self.point(profile, series, mops)
        }
    }
}

fn run_at(plan: &impl InCluster, job: &Job<'_>, mops: f64) -> Outcome {
    let most = plan.run(job);
    let wanted = mops.min(KNEE * most.mops);
    let (mut too_few, mut enough) = (0, (plan.clients(), most));
    while enough.0 - too_few > 1 {
        let middle = (too_few + enough.0) / 2;
        let outcome = plan.with_clients(middle).run(job);
        match outcome.mops < wanted {
            true => too_few = middle,
            false => enough = (middle, outcome),
        }
    }
    enough.1
}

/// The outcome of a run in the form that figures use.
pub fn outcome(setup: &Setup, found: &drover_simcluster::Outcome) -> Outcome {
    let binding = found.report.binding_of(0);
    let (least, most) = found
        .by_partition
        .iter()
        .fold((f64::MAX, 0.0f64), |(low, high), mops| {
            (low.min(*mops), high.max(*mops))
        });
    let outstanding = (setup.clients * setup.depth) as f64;
    let named = vec![
        ("latency mean", found.latency.mean_us),
        ("latency p5", found.latency.p5_us),
        ("latency p95", found.latency.p95_us),
        ("busiest core over least busy", most / least.max(1e-9)),
        ("hits", found.hit_share),
        ("failed", found.failed as f64),
        (
            "rate times latency over outstanding",
            found.mops * found.latency.mean_us / outstanding,
        ),
    ];
    Outcome {
        mops: found.mops,
        latency_us: found.latency.mean_us,
        binding: Some((binding.resource.to_string(), binding.share)),
        by_part: found.by_partition.clone(),
        named,
        ..Outcome::default()
    }
}
