//! [`RaceClient`]: a [`KvClient`](drover_kv::KvClient) of a service, which is a compute process of one thread: its tasks execute the
//! operations, and this file and [`session`] keep the thread in the pool.

mod flushes;
mod report;
mod session;

use crate::mistake::Mistake;
use crate::ops::{Access, LAST_PART, RaceOps};
use crate::options::RaceOptions;
use drover_base::{Cpu, Ns};
use drover_control::Dial;
use drover_kv::{
    Completion, ConnectOptions, Hosted, KvClient, Op, ServiceClient, SetupError, SizeLimits, SubmitError,
    Token, Verbs,
};
use drover_memnode::Keeper;
use drover_rt::{BufferClass, TaskOptions, TaskPool};
use drover_verbs::Provider;
use flushes::Flushes;
use session::{Entrance, Session};
use std::rc::Rc;
use std::sync::Arc;

/// Tasks beside those of operations: opening tables, keeping memory in order, repairs, flushes.
const OTHER_TASKS: usize = 5;

/// A client of all nodes of a service.
pub struct RaceClient<P: Provider> {
    /// Before the session, whose lease takes the nodes' memory away.
    hosted: Option<Hosted<P, RaceOps<P>>>,
    session: Session<P>,
    flushes: Rc<Flushes>,
    /// Number of flushes that were not reported.
    flushing: usize,
    /// A flush was asked for since the last poll.
    flush_is_new: bool,
    /// Time after which an operation is given up.
    patience: Ns,
    /// Why there are no tasks.
    error: Option<SetupError>,
}

impl<P: Provider> RaceClient<P> {
    pub(crate) fn new(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Option<Mistake>,
    ) -> RaceClient<P> {
        let race = RaceOptions {
            mistake,
            ..RaceOptions::default()
        };
        let nodes = dials.len();
        let entrance = Entrance::alone(dials, options.secret.clone());
        RaceClient::with(ctx, entrance, nodes, Access::new(mistake), options, race)
    }

    /// The client of a thread of a process that `keeper` keeps in a pool; `ctx` is a [context](drover_memnode::Pool::context) of the
    /// pool. Of `options`, window, depth and deadline count. Operations on a lost node are refused at once, not at their deadlines, so
    /// that they do not take the places of others.
    pub fn in_pool(
        keeper: &Arc<Keeper<P>>,
        ctx: Rc<P::Context>,
        options: &ConnectOptions,
        race: RaceOptions,
    ) -> RaceClient<P> {
        let (nodes, access) = (keeper.pool().node_count(), Access::refusing_at_once());
        RaceClient::with(ctx, Entrance::kept(keeper.clone()), nodes, access, options, race)
    }

    fn with(
        ctx: Rc<P::Context>,
        entrance: Entrance<P>,
        nodes: usize,
        access: Rc<Access<P>>,
        options: &ConnectOptions,
        race: RaceOptions,
    ) -> RaceClient<P> {
        let mut window = options.effective_window() * nodes.max(1);
        if options.depth > 0 {
            window = window.min(options.depth);
        }
        let ops = RaceOps(access.clone());
        let tasks = TaskPool::new(&*ctx, &task_options(window, nodes, options.deadline));
        let hosted = tasks.map(|tasks| {
            let hosted = Hosted::new(tasks, ops, window, options.deadline);
            hosted.expect("a pool with a place for each task")
        });
        let race = RaceOptions {
            // It knows better than the window what came of an operation that has waited for too long.
            deadline: Ns(options.deadline.0 - options.deadline.0 / LAST_PART),
            ..race
        };
        let (hosted, error) = match hosted {
            Ok(hosted) => (Some(hosted), None),
            Err(error) => (None, Some(error.into())),
        };
        let flushes = Rc::<Flushes>::default();
        RaceClient {
            hosted,
            session: Session::new(ctx, entrance, race, (access, flushes.clone())),
            flushes,
            flushing: 0,
            flush_is_new: false,
            patience: options.deadline,
            error,
        }
    }
}

/// Options of the pool of tasks for `window` operations at `nodes` nodes.
fn task_options(window: usize, nodes: usize, deadline: Ns) -> TaskOptions {
    let class = |bytes, count| BufferClass { bytes, count };
    let usual = TaskOptions::default();
    TaskOptions {
        task_count_max: window + OTHER_TASKS,
        peer_count_max: nodes.max(1),
        // Pairs of buckets and most blocks; an operation that splits has 32 requests of a bucket outstanding.
        buffers: [
            class(64, 4 * window + 64),
            class(256, 8 * window + 32),
            class(1024, 4 * window + 32),
            class(16 << 10, 4 * window + 8),
        ],
        atomic_count_max: 4 * window + 64,
        patience: usual.patience.max(deadline * 2),
        ..usual
    }
}

impl<P: Provider> KvClient<P> for RaceClient<P> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        match &mut self.hosted {
            Some(hosted) => hosted.submit(cpu, op, token),
            None => Err(SubmitError::Closed),
        }
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let Some(hosted) = &mut self.hosted else { return 0 };
        let mut done = hosted.poll(cpu, sink);
        if self.flushing > 0 {
            let ended = self.flushes.report(cpu.now(), sink);
            (self.flushing, self.flush_is_new) = (self.flushing - ended, false);
            done += ended;
        }
        if done == 0 || self.session.is_due(cpu.now()) {
            self.session.advance(cpu, hosted.pool_mut());
        }
        done
    }

    fn flush(&mut self, cpu: &P::Cpu, delay_s: u32, token: Token) -> Result<(), SubmitError> {
        match self.hosted {
            Some(_) => self.flushes.ask(delay_s, token, cpu.now() + self.patience),
            None => return Err(SubmitError::Closed),
        }
        (self.flushing, self.flush_is_new) = (self.flushing + 1, true);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        let operations = self.hosted.as_ref().map_or(0, |hosted| hosted.in_flight());
        operations + self.flushing
    }

    fn next_timer(&self) -> Ns {
        let own = match self.flush_is_new {
            true => Ns::ZERO,
            false => self.session.next_timer(),
        };
        self.hosted
            .as_ref()
            .map_or(Ns::MAX, |hosted| hosted.next_timer().min(own))
    }
}

impl<P: Provider> ServiceClient<P> for RaceClient<P> {
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> Self {
        RaceClient::new(ctx, dials, options, None)
    }

    fn is_ready(&mut self) -> bool {
        self.hosted.is_some() && self.session.is_ready()
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.session.size_limits(op.key().len())
    }

    const COUNTS_VERBS: bool = true;

    fn verbs(&self) -> Option<Verbs> {
        let requests = self.hosted.as_ref()?.pool().stats().requests;
        Some(Verbs {
            posted: requests.posted,
            lists: requests.doorbells,
            collisions: self.session.stats()?.collisions,
        })
    }

    fn take_error(&mut self) -> Option<SetupError> {
        self.error.take().or_else(|| self.session.take_error())
    }
}
