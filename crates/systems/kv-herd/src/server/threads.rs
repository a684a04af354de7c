//! [`Server`]: workers and acceptor in threads of their own.

use super::acceptor::{Acceptor, Ask};
use super::colocated::Colocated;
use super::inbox::{Event, Inbox};
use super::options::ServerOptions;
use super::setup::Setup;
use super::stats::Silence;
use super::variant::{Mistake, Standard, Variant};
use super::worker::{Introduction, Worker};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::{ControlListener, ControlStream};
use drover_kv::{CoActor, CoreInfo, MakeCoActor, ServiceStats, StartError};
use drover_rt::{Idle, RunLoop, StopFlag, WakeFd};
use drover_shards::{Hello, ThreadGroup, wait_for_all};
use drover_verbs::{Context, Provider, Waker};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Most sweeps of an idle worker before it asks its co-actor: they linger, and the co-actor's clients wait meanwhile.
const SHARED_SWEEPS_MAX: usize = 16;
/// How long a co-actor may take to finish what it began when the server stops: for clients that are slow to take their
/// replies, and for other cores that owe some.
const LEAVING_MAX: Ns = Ns::from_s(2);
/// Longest sleep of the control thread while somebody's stream cannot be waited for.
const BLIND_WAIT: Duration = Duration::from_millis(1);
/// How long the control thread may take to say who has not answered: it needs nobody for that.
const CONTROL_PATIENCE: Duration = Duration::from_secs(1);
/// Restarts of a worker that panics before its server gives up. Each costs a partition's items.
const RESTARTS_MAX: usize = 16;

/// A server in pieces: what lets clients in, and the workers in the order of their partitions.
pub type Pieces<P, V = Standard> = (Acceptor<P, V>, Vec<Worker<P, V>>);

/// A running server. Stops when dropped.
pub struct Server<P: Provider> {
    asks: Arc<Inbox<Ask>>,
    group: ThreadGroup,
    _provider: PhantomData<fn() -> P>,
}

impl<P: Provider> Server<P> {
    /// Starts one thread per partition and one for the control channels, which come in at `listeners`. `on_worker` runs first in each worker's
    /// thread, with its partition's number: for pinning.
    pub fn start(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Server<P>, StartError> {
        Server::start_with(device, listeners, options, on_worker, None)
    }

    /// The same with a [`CoActor`] at each worker, which `co_actors` makes.
    pub fn start_with(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P>>,
    ) -> Result<Server<P>, StartError> {
        Server::start_as(device, listeners, options, on_worker, co_actors, Standard)
    }

    /// The same with [`Variant`], for tests.
    pub fn start_as(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P>>,
        variant: impl Variant,
    ) -> Result<Server<P>, StartError> {
        let setup = Setup::<P, _>::new(device, options, variant)?;
        let on_worker: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_worker);
        let mut group = ThreadGroup::new()?;
        let mut starting = Vec::new();
        for index in 0..options.partition_count {
            let (setup, on_worker, co_actors) = (setup.clone(), on_worker.clone(), co_actors.clone());
            let work = move |hello: &Hello<Introduction>| {
                on_worker(index);
                run_worker(&setup, index, co_actors.as_ref(), hello);
                Ok(())
            };
            starting.push(group.start(format!("drover-worker-{index}"), work));
        }
        // Workers end when this is dropped: by the control thread's end, or because the start fails.
        let (ready, result) = wait_for_all(starting);
        let workers = StopAtEnd(ready);
        result.map_err(|(_, error)| error)?;
        let listeners = listeners.into_iter().collect();
        let control = group.start("drover-control".to_owned(), move |hello| {
            run_acceptor(&setup, workers.0.clone(), listeners, hello)
        });
        let asks = control.wait()?;
        let stop = asks.clone();
        group.stop_by(Waker::new(move || stop.push(Ask::Stop)));
        Ok(Server {
            asks,
            group,
            _provider: PhantomData,
        })
    }

    /// Becomes readable when the server has ended by itself; [`why`](Server::why) tells the reason.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.group.ended()
    }

    /// Why the server has ended by itself, if it has.
    pub fn why(&self) -> Option<String> {
        self.group.why()
    }

    /// The same in pieces, which the caller steps by hand in one thread.
    pub fn in_pieces(device: &P::Device, options: &ServerOptions) -> Result<Pieces<P>, StartError> {
        Server::in_pieces_as(device, options, Standard)
    }

    /// The same of a [`Variant`], for tests.
    pub fn in_pieces_as<V: Variant>(
        device: &P::Device,
        options: &ServerOptions,
        variant: V,
    ) -> Result<Pieces<P, V>, StartError> {
        let setup = Setup::<P, V>::new(device, options, variant)?;
        let workers = (0..options.partition_count)
            .map(|index| Worker::new(&setup, index))
            .collect::<Result<Vec<_>, _>>()?;
        let introductions = workers.iter().map(Worker::introduction).collect();
        let acceptor = Acceptor::new(&setup, introductions, Vec::new())?;
        Ok((acceptor, workers))
    }

    /// Serves a client in this process, at the other end of `stream`.
    pub fn adopt(&self, stream: ControlStream) {
        self.asks.push(Ask::Adopt(stream));
    }

    /// Asks all workers what they did; waits for the answers, at most a few seconds.
    pub fn stats(&self) -> Option<ServiceStats> {
        let (asker, answer) = mpsc::channel();
        self.asks.push(Ask::Stats(asker));
        answer.recv_timeout(Duration::from_secs(5)).ok()
    }

    /// The same, waiting for at most `patience`, and as long again (at least a second) for the error. Errors: who did
    /// not answer, which is how a thread that hangs is found.
    pub fn ask(&self, patience: Duration) -> Result<ServiceStats, Silence> {
        let (asker, answer) = mpsc::channel();
        self.asks.push(Ask::Stats(asker));
        if let Ok(stats) = answer.recv_timeout(patience) {
            return Ok(stats);
        }
        let (asker, answer) = mpsc::channel();
        self.asks.push(Ask::Silent(asker));
        match answer.recv_timeout(patience.max(CONTROL_PATIENCE)) {
            Ok(workers) => Err(Silence::Workers(workers)),
            Err(_) => Err(Silence::Control),
        }
    }

    /// Says goodbye to all clients and ends all threads.
    pub fn stop(mut self) {
        self.group.stop();
    }
}

/// Stops workers when the control thread ends, however it does.
struct StopAtEnd(Vec<Introduction>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        for worker in &self.0 {
            worker.inbox.push(super::inbox::Command::Stop);
        }
    }
}

fn run_worker<P: Provider, V: Variant>(
    setup: &Setup<P, V>,
    index: usize,
    co_actors: Option<&MakeCoActor<P>>,
    hello: &Hello<Introduction>,
) {
    let options = &setup.options;
    let made = Worker::new(setup, index);
    let made = made.and_then(|worker| Ok((make_co_actor(&worker, options, index, co_actors)?, worker)));
    let (mut co_actor, mut worker) = match made {
        Ok(made) => made,
        Err(error) => {
            hello.say(Err(error));
            return;
        }
    };
    if !hello.say(Ok(worker.introduction())) {
        return;
    }
    match work_and_restart(&mut worker, co_actor.as_deref_mut(), options, index) {
        Ok(()) => worker.leave(),
        Err(reason) => {
            tracing::error!(index, reason, "a worker gives up");
            let worker = index;
            setup.events.push(Event::GaveUp { worker, reason });
        }
    }
}

type BoxedCoActor<P> = Box<dyn CoActor<<P as Provider>::Cpu>>;

fn make_co_actor<P: Provider, V: Variant>(
    worker: &Worker<P, V>,
    options: &ServerOptions,
    index: usize,
    co_actors: Option<&MakeCoActor<P>>,
) -> Result<Option<BoxedCoActor<P>>, StartError> {
    let Some(make) = co_actors else { return Ok(None) };
    let core_info = CoreInfo {
        index,
        count: options.partition_count,
        waker: worker.context().waker(),
        started: worker.started(),
    };
    make(core_info)
        .map(Some)
        .map_err(|reason| StartError::CoActor { reason })
}

/// Works until told to stop. Errors: why it cannot go on.
fn work_and_restart<P: Provider, V: Variant>(
    worker: &mut Worker<P, V>,
    mut co_actor: Option<&mut (dyn CoActor<P::Cpu> + 'static)>,
    options: &ServerOptions,
    index: usize,
) -> Result<(), String> {
    for _ in 0..RESTARTS_MAX {
        // A panic is a bug of ours; it costs this partition's items, not the service.
        let ended = catch_unwind(AssertUnwindSafe(|| match &mut co_actor {
            None => poll_until_stopped(worker, options),
            Some(co_actor) => share_until_stopped(worker, &mut **co_actor, options),
        }));
        if ended.is_ok() {
            return Ok(());
        }
        tracing::error!(index, "a worker panicked; its partition begins again, empty");
        worker
            .restart()
            .map_err(|error| format!("it panicked and cannot begin again: {error}"))?;
        if let Some(co_actor) = &mut co_actor {
            co_actor.restarted();
        }
    }
    Err(format!("it panicked {RESTARTS_MAX} times"))
}

/// Polls; sleeps as `idle` says, if the fabric can wake who polls memory.
fn poll_until_stopped<P: Provider, V: Variant>(worker: &mut Worker<P, V>, options: &ServerOptions) {
    if worker.variant.makes(Mistake::PanicsAlways) {
        std::panic::resume_unwind(Box::new("on purpose")); // without a word on standard error
    }
    let ctx = worker.context();
    let mut run_loop = RunLoop::<P>::new(&ctx, options.idle.for_memory_pollers(ctx.caps()));
    // Its own end comes as a command, so that it is in order with others.
    let never = StopFlag::new();
    while !worker.is_stopped() {
        run_loop.round(&mut [&mut *worker], &never);
        worker.note_round(run_loop.stats());
    }
}

/// The same with a co-actor, for whose descriptor it sleeps, too.
fn share_until_stopped<P: Provider, V: Variant>(
    worker: &mut Worker<P, V>,
    co_actor: &mut dyn CoActor<P::Cpu>,
    options: &ServerOptions,
) {
    let ctx = worker.context();
    // Its own: the co-actor is borrowed by each round. If there is none left, nothing could wake the core.
    let fd = co_actor.fd().try_clone_to_owned().ok();
    let idle = match fd {
        Some(_) => options.idle.for_memory_pollers(ctx.caps()),
        None => Idle::Spin,
    };
    let mut run_loop = RunLoop::<P>::new(&ctx, idle);
    if let Some(fd) = &fd {
        run_loop = run_loop.beside(fd.as_fd());
    }
    let never = StopFlag::new();
    let mut colocated = Colocated::new(worker, co_actor, options.idle_sweeps.min(SHARED_SWEEPS_MAX));
    while !colocated.worker().is_stopped() {
        run_loop.round(&mut [&mut colocated], &never);
        colocated.worker().note_round(run_loop.stats());
    }
    colocated.leave();
    let until = ctx.cpu().refresh() + LEAVING_MAX;
    while !colocated.has_left() && ctx.cpu().refresh() < until {
        run_loop.round(&mut [&mut colocated], &never);
    }
}

fn run_acceptor<P: Provider, V: Variant>(
    setup: &Setup<P, V>,
    workers: Vec<Introduction>,
    listeners: Vec<ControlListener>,
    hello: &Hello<Arc<Inbox<Ask>>>,
) -> Result<(), String> {
    let made = Acceptor::new(setup, workers, listeners);
    let made = made.and_then(|acceptor| Ok((acceptor, alarm()?)));
    let (mut acceptor, alarm) = match made {
        Ok(made) => made,
        Err(error) => {
            hello.say(Err(error));
            return Ok(());
        }
    };
    setup.events.set_waker(alarm.waker());
    acceptor.asks.set_waker(alarm.waker());
    if !hello.say(Ok(acceptor.asks.clone())) {
        return Ok(());
    }
    let ctx = acceptor.context();
    let cpu = ctx.cpu();
    loop {
        let now = cpu.refresh();
        if let Progress::Idle { wake_at } = acceptor.step(cpu) {
            if acceptor.is_stopped() {
                return acceptor.failure.map_or(Ok(()), Err);
            }
            wait(&alarm, &acceptor, wake_at.since(now).to_duration());
        }
    }
}

fn alarm() -> Result<WakeFd, StartError> {
    WakeFd::new().map_err(|source| StartError::System {
        what: "waiting for clients",
        source,
    })
}

/// Sleeps until a channel has something, `alarm` rings, or `timeout`.
fn wait<P: Provider, V: Variant>(alarm: &WakeFd, acceptor: &Acceptor<P, V>, timeout: Duration) {
    let mut fds = vec![PollFd::from_borrowed_fd(alarm.fd(), PollFlags::IN)];
    let listeners = acceptor.listeners.fds(acceptor.context().cpu().now());
    fds.extend(listeners.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let mut blind = false;
    for stream in acceptor.streams() {
        // A stream may hold frames that it has read already: its socket says nothing of them.
        blind |= stream.has_more();
        let mut wanted = PollFlags::IN;
        if stream.wants_write() {
            wanted |= PollFlags::OUT;
        }
        match stream.fd() {
            Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, wanted)),
            None => blind = true,
        }
    }
    let longest = if blind { BLIND_WAIT } else { Duration::from_secs(1) };
    let timeout = timeout.min(longest);
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // An interrupted wait is a short wait.
    let _ = rustix::event::poll(&mut fds, Some(&timeout));
    alarm.clear();
}
