//! [`InPool`]: a table of RACE in two memory nodes, and compute processes whose tasks look up and update it.

mod operations;

pub use operations::BY_RETRIES;

use crate::catalogue::FACTOR;
use crate::figure::{Job, Metric, Point, Work};
use crate::micro::Outcome;
use drover_base::{HashSeed, Ns, Rng};
use drover_index::race::Shape;
use drover_kv_race::{BUDGET, POOL_KIND, Race, RaceOptions, TableHeader};
use drover_memnode::node::NodeOptions;
use drover_memnode::{Arena, PoolMembership};
use drover_rt::{ConflictOptions, Posting, TaskOptions, TunerOptions};
use drover_sim::{Noise, Ps};
use drover_simcluster::pools::{PoolCluster, PoolSetup};
use drover_simcluster::{Draws, Load, Popularity, costs};
use drover_verbs::Context;
use drover_verbs_sim::{ATOMIC_LOCK, Doorbells, Report, WorldOptions};
use operations::{Bare, Counts, Loop};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Number of memory nodes. *[SMART §6.2]*
pub const NODES: usize = 2;
/// Number of keys that operations name, as published.
pub const RANKS: u64 = 100_000_000;
/// Number of keys that are stored.
pub const KEYS: u64 = 100_000;
/// Number of the most popular keys, which have a rank of their own. The other ranks share the rest of the keys.
pub const EXACT: u64 = 16_384;
/// Groups of each node's table: 9 % of its slots are in use, as published.
const GROUPS: u64 = 26_000;
/// Bytes of a node.
const NODE_BYTES: usize = 256 << 20;
/// Bytes of keys and values. *[SMART §6.2]*
pub const BYTES: usize = 8;
/// Purpose of the streams of addresses of [`Keys::Bare`].
const ADDRESSES: u64 = 0x0061_6464_7273;
/// Name of the doorbell registers in results.
const DOORBELL: &str = "clients' doorbell";
/// Busy fraction from which on a part counts as the bottleneck.
const BINDS_FROM: f64 = 0.85;
/// Longest step of a core.
const STEP_CAP: Ns = Ns::from_ms(1);
/// Time after which runs with updates are steady. Operations on the hottest keys come in faster than they end, so more and
/// more tasks wait for them, for tens of milliseconds; conflict avoidance changes a limit once in a millisecond.
const SETTLE: Ns = Ns::from_ms(40);
/// Time to connect and to fill queues before a search begins.
const FILLING: Ns = Ns::from_us(20);

/// What a client does about doorbells, credits and lost races. RACE and Smart-HT are the same code with other options.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Technique {
    /// Assignment of doorbell registers.
    pub doorbells: Doorbells,
    /// Whether requests go out in lists, one doorbell for each.
    pub posting: Posting,
    /// Whether a search limits the outstanding requests.
    pub throttled: bool,
    /// What operations do that lose races.
    pub conflicts: ConflictOptions,
}

impl Technique {
    /// RACE: the driver's doorbells, no limit, retries at once. One doorbell for each list of requests.
    pub const RACE: Technique = Technique {
        doorbells: Doorbells::Driver,
        posting: Posting::PerSync,
        throttled: false,
        conflicts: ConflictOptions::OFF,
    };
    /// The same, with one doorbell for each request.
    pub const RACE_PER_REQUEST: Technique = Technique {
        posting: Posting::PerRequest,
        ..Technique::RACE
    };
    /// With a doorbell for each thread.
    pub const ALLOCATED: Technique = Technique {
        doorbells: Doorbells::PerContext,
        ..Technique::RACE
    };
    /// And with a limit of outstanding requests.
    pub const THROTTLED: Technique = Technique {
        throttled: true,
        ..Technique::ALLOCATED
    };
    /// Smart-HT: and with waits before retries and fewer tasks that race.
    pub fn smart_ht() -> Technique {
        Technique {
            conflicts: ConflictOptions::default(),
            ..Technique::THROTTLED
        }
    }
}

/// What operations name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Keys {
    /// Keys of Zipf's distribution over [`RANKS`] with this exponent; 0: all keys are equally likely.
    Zipf(f64),
    /// The same key.
    One,
    /// As `Zipf(0.99)`, but only the READs are posted that a lookup posts at the key's node, at addresses drawn at random.
    Bare,
}

/// Description of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InPool {
    /// The clients' options.
    pub technique: Technique,
    /// Number of compute machines, with one process each.
    pub machines: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Tasks of each thread, each with one operation at a time.
    pub tasks: usize,
    /// Share of updates in percent; the other operations are lookups.
    pub update_percent: u64,
    /// What operations name.
    pub keys: Keys,
    /// Pause of a task after each operation.
    pub idle: Ns,
}

impl InPool {
    /// One compute machine with 96 threads of 8 tasks, lookups with an exponent of 0.99. *[SMART §6.2]*
    pub fn published(technique: Technique) -> InPool {
        InPool {
            technique,
            machines: 1,
            threads: 96,
            tasks: 8,
            update_percent: 0,
            keys: Keys::Zipf(0.99),
            idle: Ns::ZERO,
        }
    }

    /// A point that shows `metrics`.
    pub fn point(self, series: impl Into<String>, x: f64, metrics: &[Metric]) -> Point {
        Point {
            series: series.into(),
            against: None,
            x,
            metrics: metrics.to_vec(),
            profile: "cx6",
            changed: Vec::new(),
            work: Work::Other(Arc::new(move |job| self.run(job))),
        }
    }

    fn load(&self) -> Load {
        let keys = if self.keys == Keys::One { 1 } else { KEYS };
        let zipf = |exponent| Popularity::Zipf {
            exponent,
            ranks: RANKS,
            exact: EXACT,
        };
        let popularity = match self.keys {
            Keys::Zipf(exponent) if exponent > 0.0 => zipf(exponent),
            Keys::Bare => zipf(0.99),
            Keys::Zipf(_) | Keys::One => Popularity::Uniform,
        };
        Load {
            put_percent: self.update_percent,
            value_bytes: BYTES,
            keys,
            popularity,
        }
    }

    /// The time before measuring, and that of measuring.
    fn spans(&self, quick: bool) -> (Ns, Ns) {
        let outstanding = (self.machines * self.threads * self.tasks) as u64;
        let search = match self.technique.throttled {
            true => TunerOptions::PAPER.faster(FACTOR).search() + FILLING,
            false => Ns::ZERO,
        };
        let settle = match self.update_percent {
            0 => Ns::ZERO,
            _ if quick => Ns(SETTLE.0 / 2),
            _ => SETTLE,
        };
        // Few operations at a time need longer for as many results.
        let few = (128 / outstanding).clamp(1, 16);
        let measured = match (quick, self.update_percent) {
            (true, 0) => Ns::from_us(200 * few),
            (true, _) => Ns::from_us(1_000 * few.div_ceil(4)),
            (false, 0) => Ns::from_us(500 * few),
            (false, _) => Ns::from_us(4_000 * few.div_ceil(4)),
        };
        let slow = self.idle * 3;
        ((search + settle + Ns::from_us(200)).max(slow), measured.max(slow))
    }

    /// Runs it and returns what was measured.
    pub fn run(&self, job: &Job<'_>) -> Outcome {
        self.run_for(job, self.spans(job.quick))
    }

    /// Runs it with these times before and of measuring.
    pub fn run_for(&self, job: &Job<'_>, (warm_up, measured): (Ns, Ns)) -> Outcome {
        let load = self.load();
        let cluster = self.cluster(job, &load);
        let counts = Rc::new(RefCell::new(Counts::default()));
        self.start(&cluster, job.seed, &load, &counts);
        cluster.world.run_for(warm_up);
        let before = cluster.world.report();
        counts.replace(Counts::begin(&cluster));
        cluster.world.run_for(measured);
        let report = cluster.world.report().since(&before);
        let counts = counts.take();
        counts.outcome(&cluster, measured, self.binding(&report))
    }

    /// The nodes with their tables, and the processes.
    fn cluster(&self, job: &Job<'_>, load: &Load) -> PoolCluster {
        let mut world = WorldOptions::new(job.profile.clone());
        (world.noise, world.ablations, world.step_cap) = (Noise::ORDINARY, job.ablations, STEP_CAP);
        world.costs = costs::of(job.profile, BUDGET);
        let membership = PoolMembership {
            pool: 1,
            index: 0,
            count: NODES as u32,
            kind: POOL_KIND,
        };
        let setup = PoolSetup {
            world,
            seed: job.seed,
            node: NodeOptions {
                look_every: Ns::from_us(20),
                ..NodeOptions::new(NODE_BYTES)
            },
            membership,
            processes: self.machines,
            threads: self.threads,
            tasks: TaskOptions {
                task_count_max: self.tasks + 1,
                peer_count_max: NODES,
                posting: self.technique.posting,
                conflicts: self.technique.conflicts,
                ..TaskOptions::default()
            },
            doorbells: self.technique.doorbells,
            tuner: (self.technique.throttled).then(|| TunerOptions::PAPER.faster(FACTOR)),
        };
        let groups = (GROUPS * load.keys / KEYS).max(64) as u32;
        let header = TableHeader {
            seed: hash_seed(job.seed),
            shape: Shape::new(groups).expect("fewer than the most"),
            depth_max: 8,
            item_bytes_max: u32::MAX,
            tables: 1,
            evicts: false,
        };
        let value = load.value();
        let keys: Vec<[u8; BYTES]> = (0..load.keys).map(key).collect();
        setup.open(|index, loader| {
            let place = PoolMembership {
                index: index as u32,
                ..membership
            };
            let items = keys.iter().map(|key| (&key[..], &value[..]));
            drover_kv_race::load(loader, &header, place, items).expect("space for all");
        })
    }

    /// Opens the tables in each thread, and starts its tasks.
    fn start(&self, cluster: &PoolCluster, seed: u64, load: &Load, counts: &Rc<RefCell<Counts>>) {
        let threads = cluster.processes.iter().flat_map(|process| &process.threads);
        let opened: Vec<Rc<Cell<Option<Race<_>>>>> = threads.clone().map(|_| Rc::default()).collect();
        for (thread, opened) in threads.clone().zip(&opened) {
            let (arena, caps) = (Arena::new(&thread.nodes), thread.ctx.caps().clone());
            let opened = opened.clone();
            thread.with(|tasks| {
                let flight = tasks.single_flight();
                let spawned = tasks.spawn(|cx| async move {
                    let race = Race::open(&cx, &arena, &caps, flight, RaceOptions::default()).await;
                    opened.set(Some(race.expect("the tables that were loaded")));
                });
                spawned.expect("an empty pool");
            });
        }
        let mut left = opened.len();
        let mut races: Vec<Option<Race<_>>> = opened.iter().map(|_| None).collect();
        cluster.run_until("all threads open the tables", || {
            for (race, opened) in races.iter_mut().zip(&opened) {
                if let Some(found) = opened.take() {
                    (*race, left) = (Some(found), left - 1);
                }
            }
            left == 0
        });
        if self.keys == Keys::Bare {
            return self.start_bare(cluster, seed, load, counts);
        }
        for (index, (thread, race)) in threads.zip(races.into_iter().flatten()).enumerate() {
            race.charge_to(&thread.ctx);
            for task in 0..self.tasks {
                let draws = Draws::new(load, seed, (index * self.tasks + task) as u64);
                let operations = Loop::new(race.clone(), draws, load.value(), self.idle, counts);
                let spawned = thread.with(|tasks| tasks.spawn(|cx| operations.run(cx)));
                spawned.expect("space for a task");
            }
        }
    }

    /// Starts tasks that READ what a lookup READs.
    fn start_bare(&self, cluster: &PoolCluster, seed: u64, load: &Load, counts: &Rc<RefCell<Counts>>) {
        let threads = cluster.processes.iter().flat_map(|process| &process.threads);
        for (index, thread) in threads.enumerate() {
            for task in 0..self.tasks {
                let number = (index * self.tasks + task) as u64;
                let reads = Bare {
                    nodes: thread.nodes.clone(),
                    draws: Draws::new(load, seed, number),
                    hasher: hash_seed(seed).hasher(),
                    rng: Rng::new(seed, number, ADDRESSES),
                    counts: counts.clone(),
                };
                let spawned = thread.with(|tasks| tasks.spawn(|cx| reads.run(cx)));
                spawned.expect("space for a task");
            }
        }
    }

    /// The busiest part of the cluster and its busy fraction. Of a process's cores the mean counts: some threads have a
    /// doorbell register of their own and are busy all the time, whatever the others wait for. Doorbells are as busy as
    /// the busiest register, or as much of the cores' time as is spent waiting for one, whichever is more.
    fn binding(&self, report: &Report) -> (String, f64) {
        let share = |busy: Ps| busy.0 as f64 / report.time.0.max(1) as f64;
        let of_threads = |time: u64| share(Ps(time)) / self.threads as f64;
        let mut parts = vec![(DOORBELL.to_string(), share(report.doorbell))];
        for (index, machine) in report.machines.iter().enumerate() {
            let whose = if index < NODES { "nodes'" } else { "clients'" };
            let of_card = machine.parts.by_name().into_iter();
            parts.extend(of_card.map(|(name, usage)| (format!("{whose} {name}"), share(usage.busy))));
            let lock = machine.busiest_atomic_lock();
            parts.extend(lock.map(|(_, held)| (format!("{whose} {ATOMIC_LOCK}"), share(held))));
            if index >= NODES {
                let waited = machine.cores.iter().map(|core| core.waited.0).sum();
                let busy: u64 = machine.cores.iter().map(|core| core.busy.0).sum();
                parts.push((format!("{whose} cpu"), of_threads(busy - waited)));
                parts.push((DOORBELL.to_string(), of_threads(waited)));
            }
        }
        let busiest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (name, share) = busiest.expect("a cluster has parts");
        match share < BINDS_FROM {
            true => (format!("latency ({name})"), share),
            false => (name, share),
        }
    }
}

/// Seed of the keys' hashes.
fn hash_seed(seed: u64) -> HashSeed {
    HashSeed::new(seed, 7)
}

/// Key number `index`.
pub fn key(index: u64) -> [u8; BYTES] {
    drover_base::mix(index).to_le_bytes()
}
