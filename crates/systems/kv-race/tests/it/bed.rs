//! Tables in a pool of memory nodes, and compute processes of one thread.

use crate::pool_bed::{self, Removable, Thread};
use drover_base::Cpu as _;
use drover_base::{HashSeed, Ns};
use drover_index::race::Shape;
use drover_kv_race::{ItemMeta, POOL_KIND, Race, RaceError, RaceOptions, TableHeader};
use drover_mem::Region;
use drover_memnode::node::NodeOptions;
use drover_memnode::{Arena, Lease, LeaseTimes, Pool};
use drover_rt::{TaskCx, TaskOptions, TaskPool, TaskStats};
use drover_verbs::{Context, Provider};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

pub use pool_bed::{Fabric, Simulated, shm, sim};

/// No flags, and never expires.
pub const META: ItemMeta = ItemMeta {
    flags: 0,
    expire_s: 0,
};

pub fn simulated(seed: u64) -> Simulated {
    pool_bed::simulated(seed, |_| {})
}

/// Words of a READ or WRITE become visible one by one, up to `apart` after each other.
pub fn torn(seed: u64, apart: Ns) -> Simulated {
    pool_bed::simulated(seed, |options| {
        (options.torn, options.torn_words) = (true, true);
        options.tear_max = apart;
    })
}

/// What a bed is made of.
#[derive(Clone)]
pub struct BedOptions {
    pub node_count: usize,
    pub node: NodeOptions,
    pub race: RaceOptions,
    pub tasks: TaskOptions,
}

impl BedOptions {
    /// One node of 4 MiB, for tables of subtables of `groups` groups.
    pub fn new(groups: u32) -> BedOptions {
        BedOptions {
            node_count: 1,
            node: NodeOptions {
                times: LeaseTimes {
                    renew_every: Ns::from_us(200),
                    ..LeaseTimes::default()
                },
                ..pool_bed::small()
            },
            race: RaceOptions {
                create: Some(TableHeader {
                    seed: HashSeed::new(1, 2),
                    shape: Shape::new(groups).expect("groups"),
                    depth_max: 8,
                    item_bytes_max: u32::MAX,
                    tables: 1,
                    evicts: false,
                }),
                ..RaceOptions::default()
            },
            tasks: TaskOptions::default(),
        }
    }
}

pub struct Bed<F: Fabric> {
    pub pool: pool_bed::Bed<F>,
    options: BedOptions,
}

impl<F: Fabric> Bed<F> {
    pub fn new(fabric: F, groups: u32) -> Bed<F> {
        Bed::with(fabric, BedOptions::new(groups))
    }

    pub fn with(fabric: F, options: BedOptions) -> Bed<F> {
        let pool = pool_bed::Bed::of_kind(fabric, POOL_KIND, options.node_count, &options.node);
        Bed { pool, options }
    }

    fn until<T>(&self, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
        let mut found = None;
        self.pool.until(what, || {
            found = poll();
            found.is_some()
        });
        found.expect("it was there")
    }

    /// A compute process of one thread.
    pub fn process(&self) -> Process<F::P> {
        self.process_with(|_| {})
    }

    /// A compute process that chooses other options.
    pub fn process_with(&self, set: impl FnOnce(&mut BedOptions)) -> Process<F::P> {
        let mut options = self.options.clone();
        set(&mut options);
        let pool_bed::Process { pool, lease } = self.pool.process();
        let entered = pool_bed::Process { pool, lease };
        let thread = self.pool.thread_with(&entered, &options.tasks);
        let flight = thread.tasks.with(|tasks| tasks.single_flight());
        let caps = thread.ctx.caps().clone();
        let opened = thread
            .spawn(|cx, _, arena| async move { Race::open(&cx, &arena, &caps, flight, options.race).await });
        let race = self.until("the table opens", || opened.take());
        Process {
            pool: entered.pool,
            race: race.expect("a table"),
            arena: thread.arena.clone(),
            lease: entered.lease,
            thread,
        }
    }

    /// Runs a task of `process` to its end.
    pub fn run<T: 'static, Fut: Future<Output = Result<T, RaceError>> + 'static>(
        &self,
        process: &Process<F::P>,
        task: impl FnOnce(TaskCx<F::P>, Race<F::P>) -> Fut,
    ) -> T {
        let out = process.spawn(task);
        let value = self.until("the task ends", || out.take());
        value.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The memory of a node.
    pub fn memory(&self, node: usize) -> Region {
        self.pool.nodes[node].with(|served| served.node.host().region().clone())
    }

    /// Lets `time` pass.
    pub fn pass(&self, time: Ns) {
        self.pool.pass(time);
    }

    /// Runs until all these tasks have ended.
    pub fn wait_for<T>(&self, outs: &[Rc<Cell<Option<T>>>]) {
        let mut left = outs.len();
        self.until("all tasks end", || {
            left -= outs.iter().filter(|out| out.take().is_some()).count();
            (left == 0).then_some(())
        });
    }
}

/// A compute process of one thread.
pub struct Process<P: Provider> {
    pub pool: Pool<P>,
    pub race: Race<P>,
    pub arena: Arena<P>,
    lease: Removable<Lease<P>>,
    thread: Thread<P>,
}

impl<P: Provider> Process<P> {
    /// The first node's clock, as the process knows it.
    pub fn node_clock_s(&self) -> u32 {
        self.pool.node(0).clock_s(self.thread.ctx.cpu().now())
    }

    /// Begins a task; what it returns arrives in the cell.
    pub fn spawn<T: 'static, Fut: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(TaskCx<P>, Race<P>) -> Fut,
    ) -> Rc<Cell<Option<T>>> {
        let race = self.race.clone();
        self.thread.spawn(|cx, _, _| task(cx, race))
    }

    /// Whether a READ may see words of a bucket from different times.
    pub fn reads_are_torn(&self) -> bool {
        self.thread.ctx.caps().reads.unit_bytes < 64
    }

    pub fn stats(&self) -> TaskStats {
        self.thread.tasks.with(|tasks| tasks.stats())
    }

    /// The process goes on, but its thread does nothing any more. What it has posted is executed.
    pub fn freeze(&self) -> Frozen<P> {
        Frozen(self.thread.tasks.0.take())
    }

    /// Ends the process in the middle of everything.
    pub fn kill(&self) {
        drop(self.thread.tasks.0.take());
        drop(self.lease.0.take());
    }
}

/// A thread that does nothing any more; its queue pairs are there until this is dropped.
pub struct Frozen<P: Provider>(#[expect(dead_code, reason = "it is kept")] Option<TaskPool<P>>);
