//! Memory nodes and compute processes in one thread, over a fabric that is stepped or simulated: for tests of pools and of
//! the structures in them.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::{Dial, LocalListener};
use drover_memnode::Lease;
use drover_memnode::node::{Node, NodeOptions};
use drover_memnode::{
    Arena, LeaseTimes, Nodes, Opened, Opening, Pool, PoolError, PoolKind, PoolMembership, PoolOptions,
};
use drover_rt::{TaskCx, TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions, Provider};
use drover_verbs_shm::{Shm, ShmDevice, ShmOptions};
use drover_verbs_sim::{Sim, World, WorldOptions, profile::Profile};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

/// What the pools of a [`Bed`] hold, unless they are [of another kind](Bed::of_kind).
pub const KIND: PoolKind = PoolKind::new("test");
/// Nodes that a simulated cluster has at most; the machines after them are those of compute processes.
const NODES: usize = 4;
const MACHINES: usize = 12;

type BoxedActor<P> = Box<dyn Actor<<P as Provider>::Cpu>>;

/// A fabric and what runs over it.
pub trait Fabric {
    /// Its provider.
    type P: Provider;

    /// A device of this machine.
    fn device(&self, machine: usize) -> <Self::P as Provider>::Device;
    /// Steps `actor` on the core of `ctx` from now on.
    fn host(&self, ctx: &Rc<<Self::P as Provider>::Context>, actor: BoxedActor<Self::P>);
    /// Runs everything until `done`, for at most `time` of the fabric's clock; false if that passed.
    fn run(&self, time: Ns, done: &mut dyn FnMut() -> bool) -> bool;
}

/// An actor, and the context of its core.
type Hosted<P> = (Rc<<P as Provider>::Context>, BoxedActor<P>);

/// Actors that are stepped in turn.
pub struct Stepped<P: Provider> {
    device: P::Device,
    clock: P::Context,
    actors: RefCell<Vec<Hosted<P>>>,
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

/// Everything in one memory.
pub fn loopback() -> Stepped<Loopback> {
    Stepped::of(LoopbackDevice::new())
}

/// Shared memory.
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
        loop {
            let mut wake_at = end;
            for (ctx, actor) in self.actors.borrow_mut().iter_mut() {
                let now = ctx.cpu().refresh();
                wake_at = wake_at.min(match actor.step(ctx.cpu()) {
                    Progress::Busy => now,
                    Progress::Idle { wake_at } => wake_at,
                });
            }
            if done() {
                return true;
            }
            let now = self.clock.cpu().refresh();
            if now >= end {
                return false;
            }
            // Where time is real, others' messages may come meanwhile.
            if wake_at > now {
                self.clock.arm();
                self.clock.park(wake_at.min(now + Ns::from_us(100)));
            }
        }
    }
}

/// A simulated cluster.
pub struct Simulated(pub World);

/// A cluster of the usual cards.
pub fn sim() -> Simulated {
    simulated(7, |_| {})
}

/// A cluster with other options.
pub fn simulated(seed: u64, set: impl FnOnce(&mut WorldOptions)) -> Simulated {
    let mut options = WorldOptions::new(Profile::named("cx6").expect("built in"));
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
        done() || !self.0.run_while(self.0.now() + time, || !done())
    }
}

/// An actor that can be taken away, and looked at.
pub struct Removable<A>(pub Rc<RefCell<Option<A>>>);

impl<A> Clone for Removable<A> {
    fn clone(&self) -> Removable<A> {
        Removable(self.0.clone())
    }
}

impl<A> Removable<A> {
    /// An actor that is there.
    pub fn new(actor: A) -> Removable<A> {
        Removable(Rc::new(RefCell::new(Some(actor))))
    }

    /// Looks at the actor, or changes it.
    ///
    /// # Panics
    /// If it was taken away.
    pub fn with<R>(&self, act: impl FnOnce(&mut A) -> R) -> R {
        act(self.0.borrow_mut().as_mut().expect("it is there"))
    }
}

impl<C: Cpu, A: Actor<C>> Actor<C> for Removable<A> {
    fn step(&mut self, cpu: &C) -> Progress {
        match &mut *self.0.borrow_mut() {
            Some(actor) => actor.step(cpu),
            None => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}

/// A node, and where clients reach it.
pub struct Served<P: Provider> {
    /// The node.
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

/// A pool of nodes on a fabric.
pub struct Bed<F: Fabric> {
    /// The fabric.
    pub fabric: F,
    /// The nodes, in order.
    pub nodes: Vec<Removable<Served<F::P>>>,
    kind: PoolKind,
    listeners: Vec<LocalListener>,
    processes: Cell<usize>,
}

/// Options of a small node.
pub fn small() -> NodeOptions {
    NodeOptions {
        client_count: 8,
        look_every: Ns::from_us(20),
        ..NodeOptions::new(4 << 20)
    }
}

impl<F: Fabric> Bed<F> {
    /// A pool of `count` small nodes.
    pub fn new(fabric: F, count: usize) -> Bed<F> {
        Bed::with(fabric, count, &small())
    }

    /// A pool of `count` nodes with these options.
    pub fn with(fabric: F, count: usize, options: &NodeOptions) -> Bed<F> {
        Bed::of_kind(fabric, KIND, count, options)
    }

    /// A pool that holds something else.
    pub fn of_kind(fabric: F, kind: PoolKind, count: usize, options: &NodeOptions) -> Bed<F> {
        let mut bed = Bed {
            fabric,
            kind,
            nodes: Vec::new(),
            listeners: Vec::new(),
            processes: Cell::new(0),
        };
        for index in 0..count {
            let place = PoolMembership {
                pool: 77,
                index: index as u32,
                count: count as u32,
                kind,
            };
            bed.add_node(&NodeOptions {
                place: Some(place),
                ..options.clone()
            });
        }
        bed
    }

    /// Adds a node.
    pub fn add_node(&mut self, options: &NodeOptions) {
        let node = Node::<F::P>::new(&self.fabric.device(self.nodes.len()), options).expect("a node");
        let ctx = node.context();
        let listener = LocalListener::new();
        self.listeners.push(listener.clone());
        let served = Removable::new(Served { node, listener });
        self.fabric.host(&ctx, Box::new(served.clone()));
        self.nodes.push(served);
    }

    /// How to reach the nodes.
    pub fn dials(&self) -> Vec<Dial> {
        let named = |(index, listener): (usize, &LocalListener)| {
            let listener = listener.clone();
            Dial::new(format!("node{index}"), move || Ok(listener.connect()))
        };
        self.listeners.iter().enumerate().map(named).collect()
    }

    /// A domain of a machine that no other process has.
    pub fn domain(&self) -> <F::P as Provider>::Domain {
        let machine = NODES + self.processes.replace(self.processes.get() + 1);
        let device = self.fabric.device(machine);
        device.domain(&DomainOptions::default()).expect("a domain")
    }

    /// Enters the pool as a new process.
    pub fn try_open(&self, dials: Vec<Dial>, options: PoolOptions) -> Result<Opened<F::P>, PoolError> {
        let mut opening = Opening::<F::P>::new(&self.domain(), dials, options).expect("a context");
        let ctx = opening.context().clone();
        let mut opened = None;
        self.fabric.run(Ns::from_s(20), &mut || {
            opened = opening.poll(ctx.cpu().refresh());
            opened.is_some()
        });
        opened.expect("an answer in time")
    }

    /// A process that has entered the pool.
    pub fn process(&self) -> Process<F::P> {
        let opened = self.try_open(self.dials(), PoolOptions::new(self.kind));
        self.host(opened.unwrap_or_else(|error| panic!("{error}")))
    }

    /// A process that has entered the pool as a test wants it.
    pub fn host(&self, (pool, lease): Opened<F::P>) -> Process<F::P> {
        let ctx = lease.context().clone();
        let lease = Removable::new(lease);
        self.fabric.host(&ctx, Box::new(lease.clone()));
        Process { pool, lease }
    }

    /// A thread of `process`, with the usual tasks.
    pub fn thread(&self, process: &Process<F::P>) -> Thread<F::P> {
        self.thread_with(process, &TaskOptions::default())
    }

    /// A thread of `process`.
    pub fn thread_with(&self, process: &Process<F::P>, options: &TaskOptions) -> Thread<F::P> {
        let ctx = Rc::new(process.pool.context().expect("a context"));
        let mut tasks = TaskPool::<F::P>::new(&ctx, options).expect("tasks");
        let deadline = ctx.cpu().refresh() + Ns::from_s(5);
        let mut joining = process.pool.join(&ctx, &tasks, deadline).expect("asked");
        let mut nodes = None;
        self.fabric.run(Ns::from_s(20), &mut || {
            nodes = joining.poll(&mut tasks, ctx.cpu().refresh());
            nodes.is_some()
        });
        let nodes = nodes.expect("an answer in time").expect("connections");
        let tasks = Removable::new(tasks);
        self.fabric.host(&ctx, Box::new(tasks.clone()));
        Thread {
            arena: Arena::new(&nodes),
            nodes,
            tasks,
            ctx,
        }
    }

    /// Runs a task of `thread` to its end.
    pub fn run<T: 'static, Fut: Future<Output = T> + 'static>(
        &self,
        thread: &Thread<F::P>,
        task: impl FnOnce(TaskCx<F::P>, Nodes<F::P>, Arena<F::P>) -> Fut,
    ) -> T {
        let out = thread.spawn(task);
        let mut value = None;
        self.fabric.run(Ns::from_s(60), &mut || {
            value = out.take();
            value.is_some()
        });
        value.expect("the task ends in time")
    }

    /// Lets `time` pass.
    pub fn pass(&self, time: Ns) {
        self.fabric.run(time, &mut || false);
    }

    /// Runs until `done`.
    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        assert!(self.fabric.run(Ns::from_s(60), &mut done), "never: {what}");
    }
}

/// A compute process.
pub struct Process<P: Provider> {
    /// The pool as it sees it.
    pub pool: Pool<P>,
    /// What keeps it in the pool.
    pub lease: Removable<Lease<P>>,
}

/// A thread of a compute process.
pub struct Thread<P: Provider> {
    /// Its memory.
    pub arena: Arena<P>,
    /// Its connections.
    pub nodes: Nodes<P>,
    /// Its tasks.
    pub tasks: Removable<TaskPool<P>>,
    /// Its context.
    pub ctx: Rc<P::Context>,
}

impl<P: Provider> Thread<P> {
    /// Begins a task; what it returns arrives in the cell.
    pub fn spawn<T: 'static, Fut: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(TaskCx<P>, Nodes<P>, Arena<P>) -> Fut,
    ) -> Rc<Cell<Option<T>>> {
        let out = Rc::new(Cell::new(None));
        let put = out.clone();
        let (nodes, arena) = (self.nodes.clone(), self.arena.clone());
        self.tasks.with(|tasks| {
            let spawned = tasks.spawn(|cx| {
                let work = task(cx, nodes, arena);
                async move { put.set(Some(work.await)) }
            });
            spawned.expect("space");
        });
        self.ctx.waker().wake();
        out
    }
}

/// Short times, for tests in which a lease runs out.
pub fn short_times() -> LeaseTimes {
    LeaseTimes {
        renew_every: Ns::from_ms(2),
        stop_after: Ns::from_ms(50),
        suspect_after: Ns::from_ms(100),
    }
}

/// Stamps tests that are functions of a [`Fabric`] for each of them.
#[macro_export]
macro_rules! on_pool_fabrics {
    ($($test:ident)+) => {
        mod loopback {
            $(#[test] fn $test() { super::$test($crate::beds::pool::loopback()); })+
        }
        mod shm {
            $(#[test] fn $test() { super::$test($crate::beds::pool::shm()); })+
        }
        mod sim {
            $(#[test] fn $test() { super::$test($crate::beds::pool::sim()); })+
        }
    };
}
