//! [`Herd`]: the real key-value system in a simulated room, as a point of a figure.
//!
//! Nothing is emulated: the servers and clients are those of `drover-kv-herd`, their tables hold items, every GET finds
//! its value or counts as a miss. Cores are unsteady as an ordinary system's are.

use crate::figure::{Job, Metric, Point, Work};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::Format;
use drover_kv_herd::server::{ServeMode, ServerOptions};
use drover_room::{Load, Setup};
use drover_sim::Noise;
use std::sync::Arc;

/// How server and clients work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// As published: the paper's slots, its two-stage pipeline pushed on by no-ops, one post per request and reply.
    Paper,
    /// As we ship it: our slots, batches of what is there, one doorbell per list.
    Batches,
}

/// A set-up, without its profile and seed.
#[derive(Clone, Debug)]
pub struct Herd {
    /// How server and clients work.
    pub style: Style,
    /// Cores of the server, each with a partition.
    pub cores: usize,
    /// Client processes.
    pub clients: usize,
    /// Machines that they are dealt out to.
    pub machines: usize,
    /// Operations that each has under way.
    pub depth: usize,
    /// At most so many of them with one core: a power of two.
    pub window: usize,
    /// What they are.
    pub load: Load,
    /// Values up to this travel inline in replies.
    pub inline_bytes_max: usize,
}

/// Keys in all partitions together: their tables are twenty times what a core has near.
const KEYS: u64 = 120_000;

/// Of the greatest rate, what counts as reaching it: the knee, not the last percent.
const KNEE: f64 = 0.98;

/// What of the model and of the set-ups was chosen after somebody had seen a held-out value, beside the parameters that
/// say so themselves.
pub const SEEN: [&str; 3] = [
    "herd-12: the curves `window 4 to each core`",
    "first-level cache of a core, last-level cache for what cards write (docs/herd-costs.md)",
    "herd-7: prefetched lines are remembered until they are used",
];

/// The shares of latencies that figures show.
pub const LATENCIES: [Metric; 3] = [
    Metric::Named("latency mean", "us"),
    Metric::Named("latency p5", "us"),
    Metric::Named("latency p95", "us"),
];

impl Herd {
    /// Six cores, 51 clients on 17 machines, 4 operations each, 5 % PUTs, items of 48 bytes; replies inline up to 144
    /// bytes `[HERD §5.1, §5.3]`.
    pub fn published() -> Herd {
        Herd {
            style: Style::Paper,
            cores: 6,
            clients: 51,
            machines: 17,
            depth: 4,
            window: 4,
            load: Load {
                keys: KEYS,
                ..Load::new()
            },
            inline_bytes_max: 144,
        }
    }

    /// A point that shows the throughput of this.
    pub fn point(self, profile: &'static str, series: impl Into<String>, x: f64) -> Point {
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

    /// Both styles of this as curves of the same published one.
    pub fn both_styles(self, profile: &'static str, series: &'static str, x: f64) -> [Point; 2] {
        let batches = Herd {
            style: Style::Batches,
            ..self.clone()
        };
        let batches = batches.point(profile, format!("{series} in batches"), x);
        let against = Some(series);
        [self.point(profile, series, x), Point { against, ..batches }]
    }

    /// A point that shows the latencies of this with as few of its clients as bring it to `mops`, or to its knee if it
    /// gets no further.
    pub fn latencies_at(self, profile: &'static str, series: impl Into<String>, mops: f64) -> Point {
        let plan = self.clone();
        Point {
            metrics: LATENCIES.into_iter().chain([Metric::Throughput]).collect(),
            work: Work::Other(Arc::new(move |job| plan.run_at(job, mops))),
            ..self.point(profile, series, mops)
        }
    }

    fn run_at(&self, job: &Job<'_>, mops: f64) -> Outcome {
        let with = |clients: usize| {
            Herd {
                clients,
                ..self.clone()
            }
            .run(job)
        };
        let most = with(self.clients);
        let wanted = mops.min(KNEE * most.mops);
        let (mut too_few, mut enough) = (0, (self.clients, most));
        while enough.0 - too_few > 1 {
            let middle = (too_few + enough.0) / 2;
            let outcome = with(middle);
            match outcome.mops < wanted {
                true => too_few = middle,
                false => enough = (middle, outcome),
            }
        }
        enough.1
    }

    /// What comes of it.
    pub fn run(&self, job: &Job<'_>) -> Outcome {
        outcome(self, &drover_room::run(&self.setup(job), &self.service()))
    }

    /// The system.
    pub fn service(&self) -> drover_room::Herd {
        drover_room::Herd {
            server: ServerOptions {
                partition_count: self.cores,
                inline_bytes_max: self.inline_bytes_max,
                ..self.style.server()
            },
            client: ClientOptions {
                window: self.window,
                ..self.style.client()
            },
        }
    }

    /// The room.
    pub fn setup(&self, job: &Job<'_>) -> Setup {
        let mut setup = Setup::on(job.profile.clone());
        setup.world.noise = Noise::ORDINARY;
        setup.world.ablations = job.ablations;
        setup.seed = job.seed;
        (setup.clients, setup.machines, setup.depth) = (self.clients, self.machines, self.depth);
        setup.load = self.load.clone();
        // What the clients have outstanding goes round several times before counting begins.
        let round = Ns(4 * (self.clients * self.depth) as u64 * 1_000 / SLOWEST_MOPS);
        let span = match job.quick {
            true => Ns::from_us(300),
            false => Ns::from_ms(1),
        };
        (setup.warm_up, setup.measured) = (span.max(round), span.max(round));
        setup
    }
}

/// What the slowest of the large set-ups does at least, for the length of its warm-up.
const SLOWEST_MOPS: u64 = 15;

impl Style {
    fn server(self) -> ServerOptions {
        let usual = ServerOptions {
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        match self {
            Style::Batches => usual,
            Style::Paper => ServerOptions {
                mode: ServeMode::Pipeline { drain: false },
                paper_format: true,
                ..usual
            },
        }
    }

    fn client(self) -> ClientOptions {
        match self {
            Style::Batches => ClientOptions::default(),
            Style::Paper => ClientOptions {
                format: Format::P,
                post_batch: 1,
                ..ClientOptions::default()
            },
        }
    }
}

/// What figures show of a run.
fn outcome(plan: &Herd, found: &drover_room::Outcome) -> Outcome {
    let binding = found.report.binding_of(0);
    let (least, most) = found
        .by_partition
        .iter()
        .fold((f64::MAX, 0.0f64), |(low, high), mops| {
            (low.min(*mops), high.max(*mops))
        });
    let outstanding = (plan.clients * plan.depth) as f64;
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
