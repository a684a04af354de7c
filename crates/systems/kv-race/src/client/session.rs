//! [`Session`]: how a thread comes into the pool, stays there, and comes back.
//!
//! ```text
//! resting -> entering -> draining -> joining -> opening -> ready -> mending -> ready
//!    ^          |           operations of the session before end       |          |
//!    +----------+---- failed ------------------------------- broken ---+----------+
//! ```
//! If a connection fails, while all nodes are there, the thread connects anew as the client that it is (*mending*). The fabric
//! reports a failure after it has tried long enough, so nothing of the old connection arrives later.
//!
//! If a node is lost, or a split has failed, whose locks nobody takes from a client that lives, the thread enters the pool anew,
//! as another client: the nodes shut the old one out, and what it has left is repaired as that of any client. As long as a node
//! does not answer, the old session goes on at the others. A process of several threads has a [`Keeper`] that does so for all of them:
//! a thread *follows* it.

use super::flushes::Flushes;
use super::report::Report;
use crate::POOL_KIND;
use crate::error::RaceError;
use crate::ops::Access;
use crate::options::RaceOptions;
use crate::race::{Race, RaceStats};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::{ControlError, Dial};
use drover_kv::{SetupError, SizeLimits, refused};
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_memnode::{
    Arena, ClientId, ClientState, Connection, Counted, Joining, Keeper, Lease, MemoryError, Nodes, Opening,
    Pool, PoolError, PoolNode, PoolOptions, Verdict,
};
use drover_rt::{TaskCx, TaskId, TaskPool};
use drover_verbs::{Context, Provider};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Time within which all nodes must answer; then another attempt begins.
const ANSWER_MAX: Ns = Ns::from_s(2);
/// First and longest time between two looks at the nodes' answers.
const LOOK_EVERY: [Ns; 2] = [Ns::from_us(20), Ns::from_ms(5)];
/// First and longest pause between two attempts.
const PAUSE: [Ns; 2] = [Ns::from_ms(1), Ns::from_ms(100)];
/// Time between two looks at what other clients have left, and at sweeps.
const KEEP_EVERY: Ns = Ns::from_ms(5);
/// Time between two looks whether the connections of the session before have been shut out.
const FENCE_EVERY: Ns = Ns::from_us(200);

/// A thread's session with all nodes of a pool.
pub(super) struct Session<P: Provider> {
    state: State<P>,
    live: Option<Live<P>>,
    /// Those of the thread, once it has joined.
    connections: Vec<Connection>,
    entrance: Entrance<P>,
    options: RaceOptions,
    access: Rc<Access<P>>,
    flushes: Rc<Flushes>,
    pause: Ns,
    next: Ns,
    lease_at: Ns,
    /// Who the thread was when operations last began.
    former: ClientId,
    error: Option<SetupError>,
    report: Report,
    ctx: Rc<P::Context>,
}

/// Who enters the pool.
pub(super) enum Entrance<P: Provider> {
    /// This thread, which is a process of its own and keeps the lease.
    Alone {
        /// Each with the name of the node.
        dials: Vec<(String, Arc<Mutex<Dial>>)>,
        secret: Vec<u8>,
    },
    /// The process of which this is a thread.
    Kept {
        keeper: Arc<Keeper<P>>,
        /// The one that the thread follows; 0: none yet.
        generation: u64,
    },
}

impl<P: Provider> Entrance<P> {
    pub(super) fn alone(dials: Vec<Dial>, secret: Vec<u8>) -> Entrance<P> {
        let dials = dials.into_iter();
        let dials = dials.map(|dial| (dial.server().to_owned(), Arc::new(Mutex::new(dial))));
        Entrance::Alone {
            dials: dials.collect(),
            secret,
        }
    }

    pub(super) fn kept(keeper: Arc<Keeper<P>>) -> Entrance<P> {
        Entrance::Kept {
            keeper,
            generation: 0,
        }
    }
}

/// A pool that the thread is in.
struct Live<P: Provider> {
    race: Option<Race<P>>,
    /// Background tasks.
    tasks: Vec<TaskId>,
    /// `None`: another thread keeps it.
    lease: Option<Lease<P>>,
    pool: Pool<P>,
}

impl<P: Provider> Live<P> {
    fn has_lost_a_node(&self) -> bool {
        self.pool.nodes().iter().any(|node| node.is_lost())
    }

    fn owns_nothing(&self) -> bool {
        self.pool.nodes().iter().all(|node| node.chunks_owned() == 0)
    }
}

enum State<P: Provider> {
    /// Until the time for another attempt.
    Resting(Ns),
    /// The nodes are asked; the time is that between two looks at their answers.
    Entering(Box<Opening<P>>, Ns),
    /// The process will enter; the time is that between two looks whether it has.
    Following(Ns),
    /// The pool was entered; operations of the session before must end.
    Draining(Pool<P>, Option<Lease<P>>),
    Joining(Joining<P>, ClientId),
    /// A task opens the tables.
    Opening(Opened<P>),
    Ready,
    /// Connections have failed: operations must end, then there are new ones.
    Mending(Option<Joining<P>>),
}

type Opened<P> = Rc<Cell<Option<Result<Race<P>, RaceError>>>>;

impl<P: Provider> Session<P> {
    pub(super) fn new(
        ctx: Rc<P::Context>,
        entrance: Entrance<P>,
        options: RaceOptions,
        (access, flushes): (Rc<Access<P>>, Rc<Flushes>),
    ) -> Session<P> {
        Session {
            state: State::Resting(Ns::ZERO),
            live: None,
            connections: Vec::new(),
            entrance,
            options,
            access,
            flushes,
            pause: PAUSE[0],
            next: Ns::ZERO,
            lease_at: Ns::ZERO,
            former: ClientId::NONE,
            error: None,
            report: Report::default(),
            ctx,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready) && !self.is_broken()
    }

    /// What the operations of this session have met.
    pub(super) fn stats(&self) -> Option<RaceStats> {
        Some(self.live.as_ref()?.race.as_ref()?.stats())
    }

    /// What the tables accept under a key of `key_bytes`; `None` before they are open.
    pub(super) fn size_limits(&self, key_bytes: usize) -> Option<SizeLimits> {
        self.access.size_limits(key_bytes)
    }

    pub(super) fn take_error(&mut self) -> Option<SetupError> {
        self.error.take()
    }

    /// Whether [`advance`](Session::advance) should be called though there is much else to do.
    #[inline]
    pub(super) fn is_due(&self, now: Ns) -> bool {
        now >= self.next_timer() || self.access.is_broken()
    }

    pub(super) fn next_timer(&self) -> Ns {
        self.lease_at.min(self.next)
    }

    fn is_broken(&self) -> bool {
        self.access.is_broken() || self.live.as_ref().is_some_and(Live::has_lost_a_node)
    }

    /// Goes on as far as possible. Never blocks, apart from dialling.
    pub(super) fn advance(&mut self, cpu: &P::Cpu, tasks: &mut TaskPool<P>) {
        let now = cpu.now();
        self.renew(cpu);
        self.next = Ns::MAX;
        let state = std::mem::replace(&mut self.state, State::Ready);
        self.state = self.advance_from(state, now, tasks).unwrap_or_else(|error| {
            tracing::debug!(%error, "no session with a pool");
            self.error = Some(error);
            let until = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE[1]);
            State::Resting(until)
        });
        if let State::Resting(until) = self.state {
            self.next = until;
        }
        if self.report.is_due(now)
            && let Some(race) = self.live.as_ref().and_then(|live| live.race.as_ref())
        {
            self.report.tell(race, now);
        }
        if let Some(error) = self.access.take_corrupt() {
            self.error = Some(refused_by(error.to_string(), false));
        }
    }

    /// Steps the leases.
    fn renew(&mut self, cpu: &P::Cpu) {
        let entered = match &mut self.state {
            State::Draining(_, lease) => lease.as_mut(),
            _ => None,
        };
        let live = self.live.as_mut().and_then(|live| live.lease.as_mut());
        self.lease_at = Ns::MAX;
        for lease in live.into_iter().chain(entered) {
            let wake_at = match lease.step(cpu) {
                Progress::Busy => cpu.now(),
                Progress::Idle { wake_at } => wake_at,
            };
            self.lease_at = self.lease_at.min(wake_at);
        }
    }

    fn advance_from(
        &mut self,
        state: State<P>,
        now: Ns,
        tasks: &mut TaskPool<P>,
    ) -> Result<State<P>, SetupError> {
        match state {
            State::Resting(until) if now < until => Ok(State::Resting(until)),
            State::Resting(_) => Ok(self.enter(now)),
            State::Entering(mut opening, interval) => match opening.poll(now) {
                None => {
                    self.next = now + interval;
                    let interval = Ns(interval.0 * 3 / 2).min(LOOK_EVERY[1]);
                    Ok(State::Entering(opening, interval))
                }
                Some(Ok((pool, lease))) => self.drain(pool, Some(lease), now, tasks),
                Some(Err(error)) => {
                    if is_full(&error) {
                        self.give_up_place(tasks);
                    }
                    Err(setup_error(error))
                }
            },
            State::Following(interval) => match self.followed() {
                None => {
                    self.next = now + interval;
                    let interval = Ns(interval.0 * 3 / 2).min(LOOK_EVERY[1]);
                    Ok(State::Following(interval))
                }
                Some(pool) => self.drain(pool, None, now, tasks),
            },
            State::Draining(pool, lease) => self.drain(pool, lease, now, tasks),
            State::Joining(mut joining, old) => match joining.poll(tasks, now) {
                None => {
                    self.next = now + LOOK_EVERY[0];
                    Ok(State::Joining(joining, old))
                }
                Some(Ok(nodes)) => self.open(&nodes, old, tasks),
                Some(Err(error)) => {
                    self.end(tasks);
                    Err(self.not_joined(error))
                }
            },
            State::Opening(opened) => match opened.take() {
                None => Ok(State::Opening(opened)),
                Some(Ok(race)) => self.begin(race, tasks),
                Some(Err(error)) => {
                    self.end(tasks);
                    self.forget_generation();
                    Err(refused_by(error.to_string(), false))
                }
            },
            State::Ready if !self.is_broken() => Ok(State::Ready),
            State::Ready | State::Mending(_) if self.must_leave() => Ok(self.enter(now)),
            State::Ready => self.mend(None, now, tasks),
            State::Mending(joining) => self.mend(joining, now, tasks),
        }
    }

    /// Whether new connections would not be enough.
    fn must_leave(&self) -> bool {
        self.access.has_left_locks() || self.live.as_ref().is_none_or(Live::has_lost_a_node)
    }

    /// Makes new connections in place of the old ones.
    fn mend(
        &mut self,
        joining: Option<Joining<P>>,
        now: Ns,
        tasks: &mut TaskPool<P>,
    ) -> Result<State<P>, SetupError> {
        self.next = now + LOOK_EVERY[0];
        if !self.access.close() {
            return Ok(State::Mending(None));
        }
        let live = self.live.as_ref().expect("the thread is in the pool");
        let joining = match joining {
            Some(joining) => Ok(joining),
            None => live
                .pool
                .join_again(&self.ctx, tasks, &self.connections, now + ANSWER_MAX),
        };
        let joined = joining.map(|mut joining| match joining.poll(tasks, now) {
            None => Ok(Some(joining)),
            Some(nodes) => nodes.map(|_| None),
        });
        match joined.and_then(|joined| joined) {
            Ok(None) => {
                let race = live.race.clone().expect("the session was ready");
                self.access.open(race);
                Ok(State::Ready)
            }
            Ok(joining) => Ok(State::Mending(joining)),
            Err(error) => {
                tracing::debug!(%error, "no new connections with the nodes of a pool");
                // Nobody else of the process knows of it.
                if let Entrance::Kept { .. } = self.entrance {
                    live.pool.give_up(&error);
                }
                Ok(self.enter(now))
            }
        }
    }

    /// The pool that the process is in, unless it is the one that the thread has followed to.
    fn followed(&mut self) -> Option<Pool<P>> {
        let Entrance::Kept { keeper, generation } = &mut self.entrance else {
            return None;
        };
        let newest = keeper.generation();
        (newest != std::mem::replace(generation, newest)).then(|| keeper.pool())
    }

    /// Begins to enter the pool.
    fn enter(&mut self, now: Ns) -> State<P> {
        self.next = now;
        let Entrance::Alone { dials, secret } = &self.entrance else {
            if let Some(live) = self.live.as_ref().filter(|_| self.access.has_left_locks()) {
                live.pool.give_up(&"a split has failed");
            }
            return State::Following(LOOK_EVERY[0]);
        };
        let dials = dials.iter().map(|(server, dial)| {
            let dial = dial.clone();
            let attempt = move || dial.lock().expect("no attempt panics").attempt();
            Dial::new(server.clone(), attempt)
        });
        let options = PoolOptions {
            secret: secret.clone(),
            timeout: ANSWER_MAX,
            ..PoolOptions::new(POOL_KIND)
        };
        let opening = Opening::of_thread(self.ctx.clone(), dials.collect(), options);
        State::Entering(Box::new(opening), LOOK_EVERY[0])
    }

    /// The nodes have no place for another client, and this thread has one that it is about to leave: it leaves first. To the
    /// nodes it lives, so they wait for it to repair what dead clients have left.
    fn give_up_place(&mut self, tasks: &mut TaskPool<P>) {
        if self.access.close() {
            self.end(tasks);
        }
    }

    /// Lets no operation begin any more; goes on once none is under way.
    fn drain(
        &mut self,
        pool: Pool<P>,
        lease: Option<Lease<P>>,
        now: Ns,
        tasks: &mut TaskPool<P>,
    ) -> Result<State<P>, SetupError> {
        if !self.access.close() {
            self.next = now + LOOK_EVERY[0];
            return Ok(State::Draining(pool, lease));
        }
        self.end(tasks);
        let joining = pool.join_again(&self.ctx, tasks, &self.connections, now + ANSWER_MAX);
        let joining = joining.map_err(|error| self.not_joined(error))?;
        self.live = Some(Live {
            tasks: Vec::new(),
            race: None,
            lease,
            pool,
        });
        (self.next, self.lease_at) = (now, now);
        Ok(State::Joining(joining, self.former))
    }

    /// Leaves the pool.
    fn end(&mut self, tasks: &mut TaskPool<P>) {
        self.access.close();
        if let Some(live) = self.live.take() {
            if let Some(race) = &live.race {
                self.report.end(race);
            }
            live.tasks.iter().for_each(|task| {
                tasks.cancel(*task);
            });
            match live.race {
                // What is left of a process with a keeper is none of its threads' business: it leaves when all have
                // followed.
                _ if live.lease.is_none() => self.former = ClientId::NONE,
                Some(_) => self.former = live.pool.client(),
                // It has changed nothing. Each attempt would take a place until somebody repairs.
                None if live.owns_nothing() => live.pool.leave(),
                None => {}
            }
        }
    }

    fn open(
        &mut self,
        nodes: &Nodes<P>,
        old: ClientId,
        tasks: &mut TaskPool<P>,
    ) -> Result<State<P>, SetupError> {
        self.connections = nodes.connections();
        let opened = Opened::<P>::default();
        let (arena, ctx) = (Arena::new(nodes), self.ctx.clone());
        let (refreshing, options, put) = (tasks.single_flight(), self.options, opened.clone());
        let task = tasks.spawn(|cx| async move {
            let race = async {
                wait_until_fenced(&cx, arena.nodes(), old).await?;
                let race = Race::open(&cx, &arena, ctx.caps(), refreshing, options).await?;
                race.charge_to(&ctx);
                Ok(race)
            };
            put.set(Some(race.await));
        });
        let live = self.live.as_mut().expect("the pool was entered");
        live.tasks.push(task.expect("a pool with a place for this task"));
        Ok(State::Opening(opened))
    }

    /// The pool that the process is in has to be joined once more, unless there is a newer one then.
    fn forget_generation(&mut self) {
        if let Entrance::Kept { generation, .. } = &mut self.entrance {
            *generation = 0;
        }
    }

    fn not_joined(&mut self, error: PoolError) -> SetupError {
        self.forget_generation();
        setup_error(error)
    }

    /// Lets operations begin.
    fn begin(&mut self, race: Race<P>, tasks: &mut TaskPool<P>) -> Result<State<P>, SetupError> {
        let live = self.live.as_mut().expect("the pool was entered");
        let arena = race.arena().clone();
        let every = KEEP_EVERY.min(live.pool.node(0).times().renew_every);
        let maintain = tasks.spawn(|cx| async move { arena.maintain(&cx, every).await });
        let own = race.clone();
        let access = self.access.clone();
        let repair = tasks.spawn(|cx| async move { repair(&cx, &own, &access, every).await });
        let own = race.clone();
        let attend = tasks.spawn(|cx| async move { own.attend(&cx).await });
        let (own, flushes) = (race.clone(), self.flushes.clone());
        let flush = tasks.spawn(|cx| async move { flushes.run(&cx, &own).await });
        for task in [maintain, repair, attend, flush] {
            live.tasks.push(task.expect("a pool with places for these tasks"));
        }
        live.race = Some(race.clone());
        self.access.open(race);
        self.pause = PAUSE[0];
        Ok(State::Ready)
    }
}

impl<P: Provider> Drop for Session<P> {
    fn drop(&mut self) {
        // A client that owns no memory has nothing to repair; the others repair what it has left.
        let own = self.live.as_ref().filter(|live| live.lease.is_some());
        if let Some(live) = own.filter(|_| !self.access.is_broken())
            && live.owns_nothing()
        {
            live.pool.leave();
        }
    }
}

/// Whether a node has no place for another client.
fn is_full(error: &PoolError) -> bool {
    let PoolError::Refused { verdict, .. } = error else {
        return false;
    };
    *verdict == Verdict::ClientsMax
}

/// Waits until nothing of client `old` lands any more, at no node.
async fn wait_until_fenced<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    old: ClientId,
) -> Result<(), MemoryError> {
    if old.is_none() {
        return Ok(());
    }
    for node in 0..nodes.pool().node_count() {
        loop {
            let line = nodes.client_line(cx, node, old.id).await?;
            let lives = |state| matches!(state, ClientState::Live | ClientState::Suspected);
            if !line.is_some_and(|line| line.client == old && lives(line.state)) {
                break;
            }
            cx.sleep(FENCE_EVERY).await;
        }
    }
    Ok(())
}

/// Repairs what dead clients have left, whenever a node has shut one out. Never ends.
async fn repair<P: Provider>(cx: &TaskCx<P>, race: &Race<P>, access: &Access<P>, every: Ns) {
    let nodes = race.arena().nodes();
    let mut repaired = vec![None; nodes.pool().node_count()];
    loop {
        let is_left =
            |(node, epoch): (&PoolNode, &Option<u64>)| !node.is_lost() && *epoch != Some(node.epoch());
        for (index, node) in nodes.pool().nodes().iter().zip(&repaired).enumerate() {
            access.set_repaired(index, !is_left(node));
        }
        for (index, repaired) in repaired.iter_mut().enumerate() {
            let node = nodes.node(index);
            let epoch = node.epoch();
            if *repaired == Some(epoch) || node.is_lost() {
                continue;
            }
            match recover(cx, race.arena(), index, race, RecoveryOptions::default()).await {
                Ok(Recovery::Done(done)) => {
                    let count = done.clients.len() as u64;
                    nodes.pool().activity().add(Counted::Repairs, count);
                    *repaired = Some(epoch);
                    access.set_repaired(index, node.epoch() == epoch);
                }
                Ok(Recovery::Busy { .. } | Recovery::Unready) => {}
                Err(error) => {
                    tracing::debug!(%error, node = index, "repairing what a client left");
                    if race.has_left_locks() || race.arena().has_lost_blocks(index) {
                        access.leave_locks();
                        return;
                    }
                    // As this client, over another connection: each that gave up would leave one more to repair, and a place
                    // that is in use until then.
                    access.note_failure(&error);
                }
            }
        }
        cx.sleep(every).await;
    }
}

fn refused_by(text: String, is_final: bool) -> SetupError {
    SetupError::Refused {
        code: 0,
        text,
        is_final,
    }
}

fn setup_error(error: PoolError) -> SetupError {
    let text = error.to_string();
    let refused = |code| {
        let reason = text.clone();
        SetupError::Control(ControlError::Refused { code, reason })
    };
    match error {
        PoolError::Dial { error, .. } => error.into(),
        PoolError::Timeout { .. } => SetupError::Timeout,
        PoolError::WrongSecret { .. } => refused(refused::WRONG_SECRET),
        PoolError::WrongVersion { .. } => refused(refused::WRONG_VERSION),
        PoolError::Control { error, .. } => error.into(),
        PoolError::Message { error, .. } => error.into(),
        PoolError::Fabric { error } => error.into(),
        PoolError::Resource(error) => error.into(),
        PoolError::Header { .. } | PoolError::NoPool { .. } | PoolError::WrongKind { .. } => {
            refused_by(text, true)
        }
        _ => refused_by(text, false),
    }
}
