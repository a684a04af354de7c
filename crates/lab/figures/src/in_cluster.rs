//! [`InCluster`]: real key-value systems in a simulated cluster, as points of a figure.
//!
//! Nothing is emulated: servers and clients are the systems' own, tables hold items, and every GET finds its value or counts
//! as a miss. Cores have the jitter of an ordinary system. (The emulations that the papers compare with have no tables and
//! compute no checksums: those are in [`micro`](crate::micro).)
//!
//! Verbs and memory accesses are charged. The work of a system's own code (checksums, decisions) is charged if its
//! [facts](drover_kv::Facts::work) list it; for other systems, latencies and rates bound by a core are slightly too good.

use crate::figure::{Job, Metric, Point, Work};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_kv::{Calls, ConnectOptions, FetchChoice, HANDLER, SteppedJob, SteppedSystem, SystemTable, Trial};
use drover_sim::Noise;
use drover_simcluster::{FRACTIONS, Load, Prescribed, Servers, Setup, run};
use drover_systems::System;
use drover_verbs_sim::Doorbells;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Fraction of the highest rate that counts as reaching it: latencies are taken at the knee, not at the last percent.
const KNEE: f64 = 0.98;

/// Metrics that show the mean, the 5th and the 95th percentile of the time of an operation, microseconds.
pub const LATENCIES: [Metric; 3] = [
    Metric::Named("latency mean", "us"),
    Metric::Named("latency p5", "us"),
    Metric::Named("latency p95", "us"),
];

/// What was chosen, among the parts of the model and the set-ups, only after a held-out value had been seen. Reports
/// list these, because results that depend on them are no predictions. Parameters chosen that way are not listed here;
/// the profiles mark them.
pub const SEEN: [&str; 3] = [
    "herd-12: the curves `window 4 to each core`",
    "first-level cache of a core, last-level cache for what cards write (docs/herd-costs.md)",
    "herd-7: prefetched lines are remembered until they are used",
];

/// Minimum rate of the slowest large set-up, Mops, for the length of its warm-up.
const SLOWEST_MOPS: u64 = 15;
/// Keys in all shards together: the tables are twenty times the size of a core's caches.
const MANY_KEYS: u64 = 120_000;
/// Keys in one shard: three quarters of 2^15 entries.
const FEW_KEYS: u64 = 24_576;
/// Keys of short runs of set-ups with few operations in flight, where filling the tables would take most of the time.
const KEYS_IF_QUICK: u64 = 3_000;
/// Limit of a step: some servers answer all waiting requests in one step, at most somewhat more than the published
/// set-up has in flight.
const STEP_CAP: Ns = Ns::from_us(500);

/// Warm-up and measured span where requests take long.
const SLOW_SPANS: (Ns, Ns) = (Ns::from_ms(4), Ns::from_ms(2));
/// Warm-up until the modes of calls have settled: a client changes them after two slow calls in a row to one shard, and
/// makes two or three calls in a millisecond to each of sixteen.
const MODES_SETTLE: Ns = Ns::from_ms(40);

/// A system of the table in one of its [forms](SteppedSystem::FORMS) (variants). Each form is a curve of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Name of the curve.
    pub name: &'static str,
    system: System,
}

impl Form {
    /// Every system with each of its forms, in the order of the table of systems.
    pub fn all() -> Vec<Form> {
        let forms = |&system: &System| {
            let names = system.stepped(Names).into_iter();
            names.map(move |name| Form { name, system })
        };
        System::ALL.iter().flat_map(forms).collect()
    }

    /// All forms of all systems except the system whose name in the table is `system`, such as `herd`.
    pub fn of_others(system: &str) -> Vec<Form> {
        let mut forms = Form::all();
        forms.retain(|form| form.system.facts().name != system);
        forms
    }

    /// The form whose curve is called `name`, such as `HERD in batches`.
    ///
    /// # Panics
    /// If no system has it.
    pub fn named(name: &str) -> Form {
        let form = Form::all().into_iter().find(|form| form.name == name);
        form.expect("a form of a system of the table")
    }
}

/// Names of a system's forms.
struct Names;

impl SteppedJob for Names {
    type Answer = Vec<&'static str>;

    fn run<S: SteppedSystem>(self) -> Self::Answer {
        S::FORMS.iter().map(|(name, _)| *name).collect()
    }
}

/// Set-up of a run of a system; profile and seed come from the [`Job`].
#[derive(Clone, Debug)]
pub struct InCluster {
    /// The system and its form.
    pub form: Form,
    /// Number of shards, doorbell registers and inline limit of the servers.
    pub servers: Servers,
    /// Number of client processes.
    pub clients: usize,
    /// Number of machines with clients.
    pub machines: usize,
    /// Number of clients of a machine that are threads of one process.
    pub threads: usize,
    /// Maximum operations in flight per client, over all shards.
    pub depth: usize,
    /// Operations in flight per shard (core of the server) that each client asks for: a power of two.
    pub window: usize,
    /// Operations of the clients.
    pub load: Load,
    /// How clients READ results, if they do; `None`: as they choose themselves.
    pub fetch: Option<FetchChoice>,
    /// Longest value that fits requests and results, bytes; 0: as the system chooses.
    pub slot_value_bytes: usize,
    /// Whether items are kept in the order of their use, to evict the oldest. There is memory for all of them.
    pub evicts: bool,
    /// Time that the servers work on each request in addition to executing it, microseconds; 0: there is no such work.
    pub handler_us: f64,
    /// Whether modes of calls change, so that the measurement begins only when they have settled.
    pub modes_settle: bool,
}

impl InCluster {
    /// HERD's published set-up: six cores, 51 clients on 17 machines, 4 operations in flight each, 5 % PUTs, items of
    /// 48 bytes; values up to 144 bytes inline `[HERD §5.1, §5.3]`. There are 120,000 keys *(our choice)*.
    pub fn published(form: Form) -> InCluster {
        InCluster {
            form,
            servers: Servers {
                inline_bytes_max: 144,
                ..Servers::new()
            },
            clients: 51,
            machines: 17,
            threads: 1,
            depth: 4,
            window: 4,
            load: Load {
                keys: MANY_KEYS,
                ..Load::new()
            },
            fetch: None,
            slot_value_bytes: 0,
            evicts: false,
            handler_us: 0.0,
            modes_settle: false,
        }
    }

    /// As [`published`](InCluster::published), but with one core, a doorbell register for each context, the default
    /// [window](ConnectOptions::window), and 24,576 keys, three quarters of 2^15 entries: for systems whose GETs need
    /// no core.
    pub fn on_one_core(form: Form) -> InCluster {
        let mut plan = InCluster::published(form);
        (plan.servers.shard_count, plan.load.keys) = (1, FEW_KEYS);
        plan.window = ConnectOptions::default().window;
        // As over libibverbs, where every context opens the device and so has registers of its own.
        plan.servers.doorbells = Doorbells::PerContext;
        plan
    }

    /// Runs the system in a simulated cluster and returns what was measured.
    pub fn run(&self, job: &Job<'_>) -> Outcome {
        let setup = self.setup(job);
        outcome(&setup, &run(&setup, self.form.system, Some(self.form.name)))
    }

    /// Converts this set-up to that of the simulator, with the profile, seed and removed limits of `job`. Warm-up and
    /// measured span are equal: 1 ms (0.3 ms if quick), longer if many operations are outstanding; 4 ms and 2 ms if servers have a handler.
    pub fn setup(&self, job: &Job<'_>) -> Setup {
        let mut setup = Setup::on(job.profile.clone());
        setup.world.noise = Noise::ORDINARY;
        setup.world.ablations = job.ablations;
        setup.world.step_cap = STEP_CAP;
        setup.seed = job.seed;
        // The outstanding operations complete several times before counting begins.
        let round = Ns(4 * (self.clients * self.depth) as u64 * 1_000 / SLOWEST_MOPS);
        let span = match job.quick {
            true => Ns::from_us(300),
            false => Ns::from_ms(1),
        };
        (setup.warm_up, setup.measured) = (span.max(round), span.max(round));
        if self.handler_us > 0.0 {
            (setup.warm_up, setup.measured) = SLOW_SPANS;
        }
        if self.modes_settle && !job.quick {
            setup.warm_up = MODES_SETTLE;
        }
        setup.servers = self.servers.clone();
        (setup.clients, setup.machines) = (self.clients, self.machines);
        (setup.depth, setup.window) = (self.depth, self.window);
        setup.load = self.load.clone();
        if job.quick && self.threads > 1 {
            setup.load.keys = setup.load.keys.min(KEYS_IF_QUICK);
        }
        setup.prescribed = Prescribed {
            threads: self.threads,
            fetch: self.fetch,
            trial: Trial {
                slot_value_bytes: self.slot_value_bytes,
                evicts: self.evicts,
                has_handler: self.handler_us > 0.0,
            },
        };
        let handler = (HANDLER.name.to_owned(), self.handler_us * 1e3);
        setup.world.costs.push(handler);
        setup
    }

    /// A point that shows the throughput of this system.
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

    /// Points that show at each of [`FRACTIONS`] the time within which that fraction of operations completes, and the
    /// one at 0.5 also the mean. All are of one run.
    pub fn latencies_by_fraction(self, profile: &'static str, series: &str) -> Vec<Point> {
        // By seed: all else is the same for all points.
        let runs = Arc::new(Mutex::new(BTreeMap::new()));
        let point = |(index, fraction): (usize, &f64)| {
            let (plan, runs) = (self.clone(), runs.clone());
            let work = move |job: &Job<'_>| {
                let mut runs = runs.lock().expect("no thread panics with the lock");
                let (shown, at) = runs.entry(job.seed).or_insert_with(|| {
                    let setup = plan.setup(job);
                    let found = run(&setup, plan.form.system, Some(plan.form.name));
                    (outcome(&setup, &found), found.latency.at)
                });
                Outcome {
                    latency_us: at[index],
                    ..shown.clone()
                }
            };
            let mean = (*fraction == 0.5).then_some(LATENCIES[0]);
            Point {
                metrics: [Metric::Latency(1.0)].into_iter().chain(mean).collect(),
                work: Work::Other(Arc::new(work)),
                ..self.clone().point(profile, series, *fraction)
            }
        };
        FRACTIONS.iter().enumerate().map(point).collect()
    }

    /// A point at x = `mops` that shows [`LATENCIES`] and throughput. Its run has the fewest clients with which the
    /// rate reaches `mops`, or 98 % of the rate with all [`clients`](InCluster::clients) if that is less. Costs one
    /// run, and one more per step of a binary search for that number.
    pub fn latencies_at(self, profile: &'static str, series: impl Into<String>, mops: f64) -> Point {
        let plan = self.clone();
        Point {
            metrics: LATENCIES.into_iter().chain([Metric::Throughput]).collect(),
            work: Work::Other(Arc::new(move |job| plan.run_at(job, mops))),
            ..self.point(profile, series, mops)
        }
    }

    fn run_at(&self, job: &Job<'_>, mops: f64) -> Outcome {
        let most = self.run(job);
        let wanted = mops.min(KNEE * most.mops);
        let (mut too_few, mut enough) = (0, (self.clients, most));
        while enough.0 - too_few > 1 {
            let middle = (too_few + enough.0) / 2;
            let fewer = InCluster {
                clients: middle,
                ..self.clone()
            };
            let outcome = fewer.run(job);
            match outcome.mops < wanted {
                true => too_few = middle,
                false => enough = (middle, outcome),
            }
        }
        enough.1
    }
}

/// Converts the results `found` of a run of `setup` to those that figures show. The bottleneck is that of the server.
fn outcome(setup: &Setup, found: &drover_simcluster::Outcome) -> Outcome {
    let binding = binding(setup, found);
    let (least, most) = found
        .by_partition
        .iter()
        .fold((f64::MAX, 0.0f64), |(low, high), mops| {
            (low.min(*mops), high.max(*mops))
        });
    let outstanding = (setup.clients * setup.depth) as f64;
    let mut named = vec![
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
    if let Some(calls) = &found.calls {
        named.extend(of_calls(calls));
        let of_clients = found.pushed_by_client.iter();
        let ends = of_clients.fold((1.0f64, 0.0f64), |(least, most), share| {
            (least.min(*share), most.max(*share))
        });
        named.extend([(OF_MODES[1].name(), ends.0), (OF_MODES[2].name(), ends.1)]);
        named.extend(found.client_cpu.map(|share| (CLIENT_CPU.name(), 100.0 * share)));
    }
    Outcome {
        mops: found.mops,
        latency_us: found.latency.mean_us,
        binding: Some(binding),
        by_part: found.by_partition.clone(),
        named,
        ..Outcome::default()
    }
}

/// Metric that shows how many of the clients' cores their calls take.
pub const CLIENT_CPU: Metric = Metric::Named("client cpu", "%");
/// Metrics that show how many verbs calls take.
pub const OF_CALLS: [Metric; 4] = [
    Metric::Named("operations per call", "1"),
    Metric::Named("calls with more than two operations", "fraction"),
    Metric::Named("calls with more than one READ", "fraction"),
    Metric::Named("most READs of a call", "1"),
];

/// Metrics that show in which mode results come: the share of all that are pushed, of the client with the smallest share and
/// of that with the largest, and how often modes changed while it was measured.
pub const OF_MODES: [Metric; 4] = [
    Metric::Named("pushed results", "fraction"),
    Metric::Named("pushed results of the client with fewest", "fraction"),
    Metric::Named("pushed results of the client with most", "fraction"),
    Metric::Named("changes of modes", "1"),
];

/// The values of [`OF_CALLS`], the mode that results came in, and how often it changed.
fn of_calls(calls: &Calls) -> impl Iterator<Item = (&'static str, f64)> + use<> {
    let share = |count: u64| count as f64 / calls.ended().max(1) as f64;
    let again = calls.failed_reads[1..].iter().sum::<u64>();
    let most = calls.failed_reads.iter().rposition(|count| *count > 0);
    let values = [
        share(calls.operations),
        share(again + calls.second_reads),
        share(again),
        most.map_or(0.0, |fails| fails as f64 + 1.0),
    ];
    let of_modes = [
        (OF_MODES[0].name(), share(calls.pushed)),
        (OF_MODES[3].name(), calls.switches.iter().sum::<u64>() as f64),
    ];
    let names = OF_CALLS.map(Metric::name).into_iter();
    names.zip(values).chain(of_modes)
}

/// The busiest part and its busy fraction: of the server, or of all if clients are threads that wait for each other and
/// the server is not busy.
fn binding(setup: &Setup, found: &drover_simcluster::Outcome) -> (String, f64) {
    let at_server = found.report.binding_of(0);
    if setup.prescribed.threads <= 1 || at_server.resource != WAITING {
        return (at_server.resource.to_string(), at_server.share);
    }
    let of_all = found.report.binding();
    let of_clients = of_all.machine.is_some_and(|machine| machine > 0) && of_all.resource != WAITING;
    let whose = if of_clients { "clients' " } else { "" };
    (format!("{whose}{}", of_all.resource), of_all.share)
}

/// What reports say of a machine without a busy part.
const WAITING: &str = "latency";
