//! Pools of memory nodes: machines with a node each, compute processes of threads with tasks, and processes that end
//! while their machine lives.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::{Dial, LocalListener};
use drover_memnode::node::{Loader, Node, NodeOptions};
use drover_memnode::{Joining, Lease, Nodes, Opening, Pool, PoolMembership, PoolOptions};
use drover_rt::{TaskOptions, TaskPool, TaskStats, Throttle, TunerActor, TunerOptions};
use drover_sim::VirtualCpu;
use drover_verbs::{Context, Device, DomainOptions};
use drover_verbs_sim::{Doorbells, Sim, SimContext, SimDomain, World, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;

/// Virtual time within which all threads must be connected with all nodes; takes far less.
const CONNECT_MAX: Ns = Ns::from_s(1);

/// Description of a pool's nodes, one on each of the first machines, and of its compute processes, one on each of the
/// others. It does not say what the pool holds, nor what the threads do.
#[derive(Clone)]
pub struct PoolSetup {
    /// Hardware and faults of all machines, and prices of the code that runs.
    pub world: WorldOptions,
    /// Seed of everything random.
    pub seed: u64,
    /// Sizes and times of each node; its place in the pool is set.
    pub node: NodeOptions,
    /// What the nodes are members of; its index does not matter.
    pub membership: PoolMembership,
    /// Number of compute processes.
    pub processes: usize,
    /// Threads of each process, each on a core of its own with a pool of tasks.
    pub threads: usize,
    /// Sizes and choices of each thread's pool of tasks.
    pub tasks: TaskOptions,
    /// Assignment of a process's doorbell registers.
    pub doorbells: Doorbells,
    /// Search of each process for the limit of its threads' outstanding requests; `None`: none.
    pub tuner: Option<TunerOptions>,
}

/// A simulated cluster that [`PoolSetup::open`] has built. Declared in the order of dropping.
pub struct PoolCluster {
    /// The compute processes.
    pub processes: Vec<Process>,
    /// The machines: nodes first.
    pub world: World,
}

/// A compute process.
pub struct Process {
    /// Its threads, until it ends.
    pub threads: Vec<Thread>,
    /// The pool of nodes that it is in.
    pub pool: Pool<Sim>,
    lease: Kept<Lease<Sim>>,
}

/// A thread of a compute process, connected with all nodes.
pub struct Thread {
    /// Its context.
    pub ctx: Rc<SimContext>,
    /// Its connections.
    pub nodes: Nodes<Sim>,
    tasks: Kept<TaskPool<Sim>>,
}

impl PoolSetup {
    /// Builds the cluster and runs it until every thread is connected with every node. `load` writes what a node holds
    /// before anybody connects.
    ///
    /// # Panics
    /// If a node or a process cannot be opened.
    pub fn open(&self, mut load: impl FnMut(usize, &mut Loader<'_>)) -> PoolCluster {
        let count = self.membership.count as usize;
        let world = World::with_options(self.world.clone(), count + self.processes, self.seed);
        let listeners: Vec<LocalListener> = (0..count)
            .map(|index| self.start_node(&world, index, &mut load))
            .collect();
        let pools = self.enter(&world, &listeners);
        let mut processes = Vec::new();
        for (nth, (pool, lease)) in pools.into_iter().enumerate() {
            let lease_ctx = lease.context().clone();
            let (actor, lease) = Kept::new(lease);
            world.spawn(&lease_ctx, Box::new(actor));
            let throttle = self.tuner.map(|options| {
                let throttle = Throttle::new(u32::MAX);
                world.spawn(&lease_ctx, Box::new(TunerActor::new(&throttle, options)));
                throttle
            });
            let threads = self.connect(&world, &pool, throttle.as_ref());
            assert_eq!(threads.len(), self.threads, "process {nth}");
            processes.push(Process { threads, pool, lease });
        }
        PoolCluster { processes, world }
    }

    fn start_node(
        &self,
        world: &World,
        index: usize,
        load: &mut impl FnMut(usize, &mut Loader<'_>),
    ) -> LocalListener {
        let options = NodeOptions {
            place: Some(PoolMembership {
                index: index as u32,
                ..self.membership
            }),
            ..self.node.clone()
        };
        let mut node = Node::<Sim>::new(&world.device(index), &options).expect("a node");
        node.change(|state| load(index, &mut state.loader()));
        let (ctx, listener) = (node.context(), LocalListener::new());
        let served = Served {
            node,
            listener: listener.clone(),
        };
        world.spawn(&ctx, Box::new(served));
        listener
    }

    /// All processes enter the pool.
    fn enter(&self, world: &World, listeners: &[LocalListener]) -> Vec<(Pool<Sim>, Lease<Sim>)> {
        let kind = self.membership.kind;
        let open = |process: usize| {
            let device = world.device(listeners.len() + process);
            let domain: SimDomain = device
                .domain(&DomainOptions::with(self.doorbells))
                .expect("the cluster lives on this thread");
            let dial = |listener: &LocalListener| {
                let listener = listener.clone();
                Dial::new("node".to_owned(), move || Ok(listener.connect()))
            };
            let dials = listeners.iter().map(dial).collect();
            Opening::<Sim>::new(&domain, dials, PoolOptions::new(kind)).expect("a context")
        };
        let mut openings: Vec<_> = (0..self.processes).map(open).collect();
        let mut pools: Vec<Option<_>> = (0..self.processes).map(|_| None).collect();
        until(world, "the processes enter the pool", || {
            for (opening, pool) in openings.iter_mut().zip(&mut pools) {
                if pool.is_none() {
                    let now = opening.context().cpu().refresh();
                    *pool = opening
                        .poll(now)
                        .map(|opened| opened.unwrap_or_else(|error| panic!("{error}")));
                }
            }
            pools.iter().all(Option::is_some)
        });
        pools.into_iter().flatten().collect()
    }

    /// Connects the threads of a process, which then run whatever tasks they get.
    fn connect(&self, world: &World, pool: &Pool<Sim>, throttle: Option<&Throttle>) -> Vec<Thread> {
        let deadline = world.now() + CONNECT_MAX;
        let start = |_| {
            let ctx = Rc::new(pool.context().expect("a context"));
            let mut tasks = TaskPool::<Sim>::new(&ctx, &self.tasks).expect("a pool of tasks");
            if let Some(throttle) = throttle {
                tasks.set_throttle(throttle);
            }
            let joining = pool.join(&ctx, &tasks, deadline).expect("a node that lives");
            (ctx, tasks, joining, None)
        };
        type Starting = (Rc<SimContext>, TaskPool<Sim>, Joining<Sim>, Option<Nodes<Sim>>);
        let mut starting: Vec<Starting> = (0..self.threads).map(start).collect();
        until(world, "the threads connect", || {
            for (ctx, tasks, joining, nodes) in &mut starting {
                if nodes.is_none() {
                    *nodes = joining
                        .poll(tasks, ctx.cpu().refresh())
                        .map(|joined| joined.unwrap_or_else(|error| panic!("{error}")));
                }
            }
            starting.iter().all(|(.., nodes)| nodes.is_some())
        });
        let run = |(ctx, tasks, _, nodes): Starting| {
            let (actor, tasks) = Kept::new(tasks);
            world.spawn(&ctx, Box::new(actor));
            Thread {
                nodes: nodes.expect("connected"),
                ctx,
                tasks,
            }
        };
        starting.into_iter().map(run).collect()
    }
}

impl PoolCluster {
    /// Runs until `done`.
    ///
    /// # Panics
    /// If that is not within a virtual second; the message says `what`.
    pub fn run_until(&self, what: &str, done: impl FnMut() -> bool) {
        until(&self.world, what, done);
    }
}

impl Process {
    /// Ends the process in the middle of everything; its machine lives on.
    pub fn end(&mut self) {
        for thread in self.threads.drain(..) {
            drop(thread.tasks.0.take());
        }
        drop(self.lease.0.take());
    }
}

impl Thread {
    /// Calls `what` with the thread's pool of tasks, and wakes its core.
    pub fn with<R>(&self, what: impl FnOnce(&mut TaskPool<Sim>) -> R) -> R {
        let result = what(self.tasks.0.borrow_mut().as_mut().expect("a process that lives"));
        self.ctx.waker().wake();
        result
    }

    /// Counters of the thread's pool of tasks.
    pub fn stats(&self) -> TaskStats {
        let tasks = self.tasks.0.borrow();
        tasks.as_ref().expect("a process that lives").stats()
    }
}

fn until(world: &World, what: &str, mut done: impl FnMut() -> bool) {
    let waiting = world.run_while(world.now() + CONNECT_MAX, || !done());
    assert!(!waiting, "within a second: {what}");
}

/// A node and where clients reach it.
struct Served {
    node: Node<Sim>,
    listener: LocalListener,
}

impl Actor<VirtualCpu> for Served {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.node.adopt(stream);
        }
        self.node.step(cpu)
    }
}

/// An actor that can be taken away while its core lives.
struct Kept<A>(Rc<RefCell<Option<A>>>);

impl<A> Kept<A> {
    /// The actor, and the handle that takes it away.
    fn new(actor: A) -> (Kept<A>, Kept<A>) {
        let shared = Rc::new(RefCell::new(Some(actor)));
        (Kept(shared.clone()), Kept(shared))
    }
}

impl<A: Actor<VirtualCpu>> Actor<VirtualCpu> for Kept<A> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        match &mut *self.0.borrow_mut() {
            Some(actor) => actor.step(cpu),
            None => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}
