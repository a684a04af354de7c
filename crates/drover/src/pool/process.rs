//! A compute process for one piece of work: it enters a pool, opens its tables, does the work in a task, and leaves.

use super::NodesArgs;
use crate::exit::{self, Failure};
use crate::pool::tables::{POOL_KIND, Race, RaceError, RaceOptions, TableHeader};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_client::{Fabric, Job};
use drover_control::Dial;
use drover_mem::NativeCpu;
use drover_memnode::{Arena, Keeper, Nodes, Pool, PoolOptions};
use drover_rt::{TaskCx, TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions, Provider};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::thread::park_timeout;
use std::time::Duration;

/// What a task has of a pool.
pub(super) struct Entered<P: Provider> {
    pub(super) cx: TaskCx<P>,
    pub(super) race: Race<P>,
    pub(super) arena: Arena<P>,
}

/// A piece of work in a pool.
pub(super) trait Work: 'static {
    type Answer: 'static;

    fn run<P: Provider<Cpu = NativeCpu>>(
        self,
        entered: Entered<P>,
    ) -> impl Future<Output = Result<Self::Answer, RaceError>> + 'static;
}

/// Does `work` in the pool of these nodes. `create`: the tables to create where there are none.
pub(super) fn work_in_pool<W: Work>(
    nodes: &NodesArgs,
    create: Option<TableHeader>,
    work: W,
) -> Result<W::Answer, Failure> {
    let first = nodes.device.of(&nodes.nodes[0])?;
    let fabric = Fabric::towards_pool(&first)?;
    fabric.run(OneOff { nodes, create, work })
}

struct OneOff<'a, W> {
    nodes: &'a NodesArgs,
    create: Option<TableHeader>,
    work: W,
}

impl<W: Work> Job for OneOff<'_, W> {
    type Answer = Result<W::Answer, Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let unavailable = |error: &dyn std::fmt::Display| Failure::new(exit::UNAVAILABLE, error);
        let domain = device.domain(&DomainOptions::default());
        let domain = domain.map_err(|error| unavailable(&error))?;
        let options = PoolOptions {
            timeout: Ns::from_ms(self.nodes.timeout_ms),
            alone: self.nodes.alone,
            ..PoolOptions::new(POOL_KIND)
        };
        let addrs = self.nodes.addrs()?;
        let dials = move || addrs.iter().cloned().map(Dial::to).collect();
        let keeper = Keeper::<P>::start(&domain, dials, options).map_err(|error| unavailable(&error))?;
        let patience = Ns::from_ms(self.nodes.timeout_ms);
        let answer = Thread::join(&keeper.pool(), patience).and_then(|mut thread| {
            let options = RaceOptions {
                create: self.create,
                deadline: patience,
                ..RaceOptions::default()
            };
            thread.work(options, self.work)
        });
        // All that the thread had of the pool is dropped.
        keeper.leave();
        answer
    }
}

/// This thread, as one of the process's.
struct Thread<P: Provider> {
    nodes: Nodes<P>,
    tasks: TaskPool<P>,
    ctx: Rc<P::Context>,
}

impl<P: Provider<Cpu = NativeCpu>> Thread<P> {
    fn join(pool: &Pool<P>, patience: Ns) -> Result<Thread<P>, Failure> {
        let refuse = |error: &dyn std::fmt::Display| Failure::new(exit::UNAVAILABLE, error);
        let ctx = Rc::new(pool.context().map_err(|error| refuse(&error))?);
        let mut tasks = TaskPool::<P>::new(&ctx, &TaskOptions::default()).map_err(|error| refuse(&error))?;
        let deadline = ctx.cpu().refresh() + patience;
        let mut joining = pool
            .join(&ctx, &tasks, deadline)
            .map_err(|error| refuse(&error))?;
        loop {
            if let Some(nodes) = joining.poll(&mut tasks, ctx.cpu().refresh()) {
                let nodes = nodes.map_err(|error| refuse(&error))?;
                return Ok(Thread { nodes, tasks, ctx });
            }
            park_timeout(Duration::from_micros(100));
        }
    }

    fn work<W: Work>(&mut self, options: RaceOptions, work: W) -> Result<W::Answer, Failure> {
        let answer = Rc::new(RefCell::new(None));
        let (put, arena) = (answer.clone(), Arena::new(&self.nodes));
        let (caps, flight) = (self.ctx.caps().clone(), self.tasks.single_flight());
        let spawned = self.tasks.spawn(|cx| async move {
            let done = match Race::open(&cx, &arena, &caps, flight, options).await {
                Ok(race) => work.run(Entered { cx, race, arena }).await,
                Err(error) => Err(error),
            };
            *put.borrow_mut() = Some(done);
        });
        spawned.expect("the only task");
        loop {
            self.ctx.cpu().refresh();
            let progress = self.tasks.step(self.ctx.cpu());
            if let Some(answer) = answer.borrow_mut().take() {
                return answer.map_err(|error| Failure::new(exit::UNAVAILABLE, error));
            }
            if progress != Progress::Busy {
                park_timeout(Duration::from_micros(20));
            }
        }
    }
}
