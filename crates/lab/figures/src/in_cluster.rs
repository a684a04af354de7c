//! [`InCluster`]: a real key-value system in a simulated cluster, as a point of a figure.

use crate::figure::{Job, Metric, Point, Work};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_sim::Noise;
use drover_simcluster::{Load, Setup};
use std::sync::Arc;

/// Fraction of the highest rate that counts as reaching it: latencies are taken at the knee, not at the last percent.
const KNEE: f64 = 0.98;

/// Mean, 5th and 95th percentile of the latency, as figures show them.
pub const LATENCIES: [Metric; 3] = [
    Metric::Named("latency mean", "us"),
    Metric::Named("latency p5", "us"),
    Metric::Named("latency p95", "us"),
];

/// Minimum rate of the slowest large set-up, Mops, for the length of its warm-up.
const SLOWEST_MOPS: u64 = 15;

/// The clients of a run and their operations.
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
    /// Set-up of a cluster under `job` with these clients, whose cores have the jitter of an ordinary system. Warm-up
    /// and measured span are equal: 1 ms (0.3 ms if quick), longer if many operations are outstanding.
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

/// A real system with the set-up of a run; profile and seed come from the [`Job`].
pub trait InCluster: Clone + Send + Sync + 'static {
    /// Number of client processes.
    fn clients(&self) -> usize;

    /// A copy of this set-up with `clients` client processes.
    fn with_clients(&self, clients: usize) -> Self;

    /// Runs the system in a simulated cluster.
    fn run(&self, job: &Job<'_>) -> Outcome;

    /// A point that shows the throughput of this system.
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

    /// A point at x = `mops` that shows [`LATENCIES`] and throughput with the fewest clients (at most
    /// [`clients`](InCluster::clients)) that reach `mops`, or 98 % of the highest rate if `mops` is out of reach. Costs
    /// a run per step of a binary search.
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

/// Converts the results `found` of a run of `setup` to the form that figures use. The bottleneck is that of the server.
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
