//! A memory node and compute processes in one thread, over a fabric that is stepped or simulated.

use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_control::{Dial, LocalListener};
use drover_index::race::Shape;
use drover_kv_race::{POOL_KIND, Race, RaceError, RaceOptions, TableHeader};
use drover_memnode::node::{Node, NodeOptions};
use drover_memnode::{Arena, Lease, LeaseTimes, Opening, Pool, PoolMembership, PoolOptions};
use drover_rt::{TaskCx, TaskOptions, TaskPool, TaskStats};
use drover_verbs::{Context, Device, DomainOptions, Provider};
use drover_verbs_shm::{Shm, ShmDevice, ShmOptions};
use drover_verbs_sim::{Sim, World, WorldOptions, profile::Profile};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

type BoxedActor<P> = Box<dyn Actor<<P as Provider>::Cpu>>;
type Shared<A> = Rc<RefCell<A>>;
/// Actors, each with the context that it is stepped in.
type Actors<P> = Vec<(Rc<<P as Provider>::Context>, BoxedActor<P>)>;

/// A fabric and what runs over it.
pub trait Fabric {
    type P: Provider;

    fn device(&self, machine: usize) -> <Self::P as Provider>::Device;
    fn host(&self, ctx: &Rc<<Self::P as Provider>::Context>, actor: BoxedActor<Self::P>);
    /// Runs everything until `done`, for at most `time`; false if that passed.
    fn run(&self, time: Ns, done: &mut dyn FnMut() -> bool) -> bool;
}

/// Actors that are stepped in turn.
pub struct Stepped<P: Provider> {
    device: P::Device,
    clock: P::Context,
    actors: RefCell<Actors<P>>,
}

impl<P: Provider> Stepped<P> {
    fn of(device: P::Device) -> Stepped<P> {
        Stepped {
            clock: device.context().expect("context"),
            device,
            actors: RefCell::default(),
        }
    }
}

pub fn loopback() -> Stepped<Loopback> {
    Stepped::of(LoopbackDevice::new())
}

pub fn shm() -> Stepped<Shm> {
    Stepped::of(ShmDevice::open(ShmOptions::default()))
}

impl<P: Provider> Fabric for Stepped<P> {
    type P = P;

    fn device(&self, _: usize) -> P::Device {
        self.device.clone()
    }

    fn host(&self, ctx: &Rc<P::Context>, actor: BoxedActor<P>) {
        self.actors.borrow_mut().push((ctx.clone(), actor));
    }

    fn run(&self, time: Ns, done: &mut dyn FnMut() -> bool) -> bool {
        let end = self.clock.cpu().refresh() + time;
        while !done() {
            for (ctx, actor) in self.actors.borrow_mut().iter_mut() {
                ctx.cpu().refresh();
                actor.step(ctx.cpu());
            }
            if self.clock.cpu().refresh() >= end {
                return false;
            }
        }
        true
    }
}

/// A simulated cluster.
pub struct Simulated(World);

const MACHINES: usize = 6;

pub fn sim() -> Simulated {
    simulated(7)
}

pub fn simulated(seed: u64) -> Simulated {
    with(seed, |_| {})
}

/// Words of a READ or WRITE become visible one by one, up to `apart` after each other.
pub fn torn(seed: u64, apart: Ns) -> Simulated {
    with(seed, |options| {
        (options.torn, options.torn_words) = (true, true);
        options.tear_max = apart;
    })
}

fn with(seed: u64, set: impl FnOnce(&mut WorldOptions)) -> Simulated {
    let profile = Profile::named("cx6").expect("built in");
    let mut options = WorldOptions::new(profile);
    set(&mut options);
    Simulated(World::with_options(options, MACHINES, seed))
}

impl Fabric for Simulated {
    type P = Sim;

    fn device(&self, machine: usize) -> <Sim as Provider>::Device {
        self.0.device(machine)
    }

    fn host(&self, ctx: &Rc<<Sim as Provider>::Context>, actor: BoxedActor<Sim>) {
        self.0.spawn(ctx, actor);
    }

    fn run(&self, time: Ns, done: &mut dyn FnMut() -> bool) -> bool {
        let end = self.0.now() + time;
        self.0.run_while(end, || !done())
    }
}

/// An actor that the test keeps a handle of, and can take away.
struct Kept<A>(Shared<Option<A>>);

impl<A> Kept<A> {
    fn new(actor: A) -> (Kept<A>, Shared<Option<A>>) {
        let shared = Rc::new(RefCell::new(Some(actor)));
        (Kept(shared.clone()), shared)
    }
}

impl<C: Cpu, A: Actor<C>> Actor<C> for Kept<A> {
    fn step(&mut self, cpu: &C) -> Progress {
        match &mut *self.0.borrow_mut() {
            Some(actor) => actor.step(cpu),
            None => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}

/// A node, and where clients reach it.
pub struct Served<P: Provider> {
    pub node: Node<P>,
    listener: LocalListener,
}

impl<P: Provider> Actor<P::Cpu> for Served<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.node.adopt(stream);
        }
        self.node.step(cpu)
    }
}

pub struct Bed<F: Fabric> {
    pub fabric: F,
    pub node: Shared<Option<Served<F::P>>>,
    listener: LocalListener,
    processes: Cell<usize>,
    groups: u32,
}

impl<F: Fabric> Bed<F> {
    /// A pool of one node, for tables of subtables of `groups` groups.
    pub fn new(fabric: F, groups: u32) -> Bed<F> {
        let place = PoolMembership {
            pool: 1,
            index: 0,
            count: 1,
            kind: POOL_KIND,
        };
        let options = NodeOptions {
            client_count: 8,
            look_every: Ns::from_us(20),
            times: LeaseTimes {
                renew_every: Ns::from_us(200),
                stop_after: Ns::from_ms(700),
                suspect_after: Ns::from_s(1),
            },
            place: Some(place),
            ..NodeOptions::new(4 << 20)
        };
        let node = Node::<F::P>::new(&fabric.device(0), &options).expect("a node");
        let ctx = node.context();
        let listener = LocalListener::new();
        let served = Served {
            node,
            listener: listener.clone(),
        };
        let (kept, node) = Kept::new(served);
        fabric.host(&ctx, Box::new(kept));
        let processes = Cell::new(0);
        Bed {
            fabric,
            node,
            listener,
            processes,
            groups,
        }
    }

    fn options(&self) -> RaceOptions {
        let shape = Shape::new(self.groups).expect("groups");
        RaceOptions {
            create: Some(TableHeader {
                seed: HashSeed::new(1, 2),
                shape,
                depth_max: 8,
                item_bytes_max: u32::MAX,
            }),
            ..RaceOptions::default()
        }
    }

    fn until<T>(&self, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
        let mut found = None;
        self.fabric.run(Ns::from_s(60), &mut || {
            found = poll();
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("never: {what}"))
    }

    /// A compute process of one thread.
    pub fn process(&self) -> Process<F::P> {
        let machine = 1 + self.processes.replace(self.processes.get() + 1);
        let device = self.fabric.device(machine);
        let domain = device.domain(&DomainOptions::default()).expect("a domain");
        let listener = self.listener.clone();
        let dial = Dial::new("node".to_owned(), move || Ok(listener.connect()));
        let mut opening =
            Opening::<F::P>::new(&domain, vec![dial], PoolOptions::new(POOL_KIND)).expect("a context");
        let ctx = opening.context().clone();
        let opened = self.until("the pool opens", || opening.poll(ctx.cpu().refresh()));
        let (pool, lease) = opened.unwrap_or_else(|error| panic!("{error}"));
        let lease_ctx = lease.context().clone();
        let (kept, lease) = Kept::new(lease);
        self.fabric.host(&lease_ctx, Box::new(kept));
        let ctx = Rc::new(pool.context().expect("a context"));
        let mut tasks = TaskPool::<F::P>::new(&ctx, &TaskOptions::default()).expect("tasks");
        let deadline = ctx.cpu().refresh() + Ns::from_s(5);
        let mut joining = pool.join(&ctx, &tasks, deadline).expect("asked");
        let nodes = self.until("the thread joins", || {
            joining.poll(&mut tasks, ctx.cpu().refresh())
        });
        let arena = Arena::new(&nodes.expect("connections"));
        let flight = tasks.single_flight();
        let (kept, tasks) = Kept::new(tasks);
        self.fabric.host(&ctx, Box::new(kept));
        let (caps, options) = (ctx.caps().clone(), self.options());
        let own = arena.clone();
        let opened = spawn(&tasks, &ctx, |cx| async move {
            Race::open(&cx, &own, &caps, flight, options).await
        });
        let race = self.until("the table opens", || opened.take());
        Process {
            pool,
            race: race.expect("a table"),
            arena,
            lease,
            tasks,
            ctx,
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

    /// Lets `time` pass.
    pub fn pass(&self, time: Ns) {
        self.fabric.run(time, &mut || false);
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

fn spawn<P: Provider, T: 'static, Fut: Future<Output = T> + 'static>(
    tasks: &Shared<Option<TaskPool<P>>>,
    ctx: &Rc<P::Context>,
    task: impl FnOnce(TaskCx<P>) -> Fut,
) -> Rc<Cell<Option<T>>> {
    let out = Rc::new(Cell::new(None));
    let put = out.clone();
    let mut tasks = tasks.borrow_mut();
    let spawned = tasks.as_mut().expect("alive").spawn(|cx| {
        let work = task(cx);
        async move { put.set(Some(work.await)) }
    });
    spawned.expect("space for a task");
    ctx.waker().wake();
    out
}

/// A compute process of one thread.
pub struct Process<P: Provider> {
    pub pool: Pool<P>,
    pub race: Race<P>,
    pub arena: Arena<P>,
    lease: Shared<Option<Lease<P>>>,
    tasks: Shared<Option<TaskPool<P>>>,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Process<P> {
    /// Begins a task; what it returns arrives in the cell.
    pub fn spawn<T: 'static, Fut: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(TaskCx<P>, Race<P>) -> Fut,
    ) -> Rc<Cell<Option<T>>> {
        let race = self.race.clone();
        spawn(&self.tasks, &self.ctx, |cx| task(cx, race))
    }

    /// Whether a READ may see words of a bucket from different times.
    pub fn reads_are_torn(&self) -> bool {
        self.ctx.caps().reads.unit_bytes < 64
    }

    pub fn stats(&self) -> TaskStats {
        self.tasks.borrow().as_ref().expect("alive").stats()
    }

    /// Ends the process in the middle of everything.
    pub fn kill(&self) {
        drop(self.tasks.take());
        drop(self.lease.take());
    }
}

/// Stamps a test over a fabric for each of them.
#[macro_export]
macro_rules! on_all_fabrics {
    ($($test:ident)+) => {
        mod loopback {
            $(#[test] fn $test() { super::$test($crate::bed::loopback()); })+
        }
        mod shm {
            $(#[test] fn $test() { super::$test($crate::bed::shm()); })+
        }
        mod sim {
            $(#[test] fn $test() { super::$test($crate::bed::sim()); })+
        }
    };
}
