//! The thread of a [`Worker`]: steps it until it is told to stop, and restarts it after a panic.

use super::colocated::Colocated;
use super::mail::Event;
use super::options::ServerOptions;
use super::setup::Setup;
use super::variant::{Mistake, Variant};
use super::worker::{Worker, WorkerHandle};
use drover_base::{Cpu, Ns};
use drover_kv::{CoActor, CoreInfo, MakeCoActor, StartError};
use drover_rt::{Idle, RunLoop, StopFlag};
use drover_shards::Hello;
use drover_verbs::{Context, Provider};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most sweeps per step of a worker with a co-actor: the co-actor's clients wait during the sweeps.
const SHARED_SWEEPS_MAX: usize = 16;
/// Longest time for which a co-actor may finish its work when the server stops: clients may be slow to take replies,
/// and other cores may owe some.
const LEAVING_MAX: Ns = Ns::from_s(2);
/// Number of panics of a worker after which its server ends. Each costs the partition's items.
const RESTARTS_MAX: usize = 16;

/// Main function of the thread of worker `index`. When it stops, leaves the partition in the memory file, if there is
/// one; if it cannot go on, tells the control thread why.
pub(super) fn run_worker<P: Provider, V: Variant>(
    setup: &Setup<P, V>,
    index: usize,
    co_actors: Option<&MakeCoActor<P, V::Sharing>>,
    hello: &Hello<WorkerHandle>,
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
    if !hello.say(Ok(worker.handle())) {
        return;
    }
    match work_and_restart(&mut worker, co_actor.as_deref_mut(), options, index) {
        Ok(()) => worker.leave(),
        Err(reason) => {
            tracing::error!(index, reason, "a worker gives up");
            let worker = index;
            // The control thread may have ended.
            let _ = setup.events.send(Event::GaveUp { worker, reason });
        }
    }
}

type BoxedCoActor<P, V> = Box<dyn CoActor<<P as Provider>::Cpu, <V as Variant>::Sharing>>;

fn make_co_actor<P: Provider, V: Variant>(
    worker: &Worker<P, V>,
    options: &ServerOptions,
    index: usize,
    co_actors: Option<&MakeCoActor<P, V::Sharing>>,
) -> Result<Option<BoxedCoActor<P, V>>, StartError> {
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

/// Steps the worker until it is told to stop, and restarts it after each panic.
///
/// # Errors
/// The reason why the worker cannot go on.
fn work_and_restart<P: Provider, V: Variant>(
    worker: &mut Worker<P, V>,
    mut co_actor: Option<&mut (dyn CoActor<P::Cpu, V::Sharing> + 'static)>,
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

/// Steps the worker until it is told to stop. Sleeps when idle as `options.idle` says, or dozes if the fabric cannot
/// wake actors that poll memory.
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

/// As [`poll_until_stopped`], with a co-actor, whose descriptor ends the sleep, too. Afterwards lets the co-actor
/// finish.
fn share_until_stopped<P: Provider, V: Variant>(
    worker: &mut Worker<P, V>,
    co_actor: &mut dyn CoActor<P::Cpu, V::Sharing>,
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
