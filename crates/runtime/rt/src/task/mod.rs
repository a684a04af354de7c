//! [`TaskPool`]: one actor that hosts the asynchronous operations of one core.
//!
//! A client operation with several dependent round trips reads like pseudo-code:
//!
//! ```
//! # use drover_rt::{TaskCx, TaskError, PeerId};
//! # use drover_verbs::{Provider, RemoteAddr};
//! async fn follow<P: Provider>(cx: &TaskCx<P>, node: PeerId, head: RemoteAddr) -> Result<[u8; 8], TaskError> {
//!     let ticket = cx.read(node, cx.buffer(8)?, head)?;
//!     let pointer = cx.sync().await?.take(ticket);
//!     let offset = u64::from_le_bytes(pointer[..].try_into().expect("8 bytes"));
//!     let ticket = cx.read(node, cx.buffer(8)?, RemoteAddr { offset, ..head })?;
//!     let item = cx.sync().await?.take(ticket);
//!     Ok(item[..].try_into().expect("8 bytes"))
//! }
//! ```
//!
//! Requests are *staged* by `read`, `write`, `send`, `cas` and `faa`; `sync` submits them, and at the end of the pool's
//! step the requests submitted by all tasks are posted, one list per destination. Only the last request of a sync to a
//! destination is signaled. ([`Posting`] has other ways.) Several syncs of a task may wait at once.
//!
//! This is the framework of SMART: [`TaskOptions::credits`] and a [`Throttle`] bound what is outstanding, and a
//! [`ConflictGuard`] keeps operations that lose races from wasting requests. Each part is an option.
//!
//! **Order.** Requests of a pool to one destination are executed in the order in which they were submitted, those to
//! different ones in any. Whatever waits, waits in the order of asking: permits, conflict slots, messages.
//!
//! **Cost.** A suspension does not allocate: a task is woken by its index. Spawning allocates its future.
//!
//! **Cancellation.** If a task is dropped while its requests are in flight, the pool keeps their buffers until the
//! completions arrive; requests not posted yet are never posted.
//!
//! A [`TaskCx`] belongs to one task: only that task may await its futures.

mod buffers;
mod conflict;
mod core;
mod credits;
mod cx;
mod error;
mod fifo;
mod flight;
mod guard;
mod in_flight;
mod messages;
mod options;
mod peer;
mod permits;
mod ready;
mod requests;
mod sleep;
mod stats;
mod sync;
mod throttle;
mod tuner;
mod wakes;
mod watchdog;
mod word;

pub use conflict::{Backoff, ConflictOptions};
pub use cx::TaskCx;
pub use error::{Failure, StageError, TaskError, WcError};
pub use flight::{Join, Joined, Lead, SingleFlight};
pub use guard::{ConflictGuard, Entry};
pub use messages::{Message, Recv};
pub use options::{BUFFER_CLASSES, BufferClass, Posting, RecvOptions, TASK_SWITCH, TaskOptions};
pub use permits::{Acquire, Permit, Permits};
pub use requests::Ticket;
pub use sleep::{Sleep, Yield};
pub use stats::{ConflictStats, CreditStats, RequestStats, TaskStats};
pub use sync::{Completed, Drain, SyncFuture};
pub use throttle::{Throttle, TunerActor};
pub use tuner::{Choice, Tuner, TunerOptions};
pub use word::WordChange;

use self::core::{Core, POLL_BATCH};
use self::ready::Ready;
use crate::ResourceError;
use drover_base::{Actor, Cpu, Progress};
use drover_verbs::{Context, CreateError, Provider, QpKind, RemoteRegion, Wc};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task;
use wakes::Wakes;

/// Id of a destination of requests, which is a connected queue pair of the pool. The default is the first one added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PeerId(pub(crate) u32);

/// Identifies a task of a [`TaskPool`], also after it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

/// The pool already has [`TaskOptions::task_count_max`] tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the task pool is full")]
pub struct PoolFull;

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// An [`Actor`] that hosts the asynchronous operations (tasks) of one core: a step polls completions and timers, runs
/// the tasks that these wake, and posts the requests of all tasks, one list per destination.
pub struct TaskPool<P: Provider> {
    /// Declared before `core`: the destructor of a task returns resources to it.
    places: Vec<TaskSlot>,
    free: Vec<u32>,
    wakes: Arc<Wakes>,
    ready: Rc<Ready>,
    core: Rc<RefCell<Core<P>>>,
    /// Completions of the current poll.
    wcs: Box<[Wc]>,
}

struct TaskSlot {
    future: Option<BoxedTask>,
    generation: u32,
    waker: task::Waker,
}

impl<P: Provider> TaskPool<P> {
    /// Creates a pool without tasks on the core of `ctx`, with registered buffers and a completion queue.
    ///
    /// # Errors
    /// [`ResourceError`] if the buffers or the completion queue cannot be created.
    pub fn new(ctx: &P::Context, options: &TaskOptions) -> Result<TaskPool<P>, ResourceError> {
        let count = options.task_count_max;
        let wakes = Arc::new(Wakes::new(count, ctx.waker()));
        let place = |index| TaskSlot {
            future: None,
            generation: 0,
            waker: wakes.waker(index),
        };
        let core = Core::new(ctx, options)?;
        Ok(TaskPool {
            places: (0..count as u32).map(place).collect(),
            free: (0..count as u32).rev().collect(),
            ready: core.in_flight.ready.clone(),
            core: Rc::new(RefCell::new(core)),
            wcs: vec![Wc::default(); POLL_BATCH].into(),
            wakes,
        })
    }

    /// Creates a queue pair whose requests complete in this pool. Connect it, then [`add_peer`](TaskPool::add_peer) it.
    ///
    /// # Errors
    /// [`CreateError`] of the provider.
    pub fn create_qp(&self, ctx: &P::Context, kind: QpKind) -> Result<P::Qp, CreateError> {
        self.core.borrow_mut().create_qp(ctx, kind)
    }

    /// Takes over a connected queue pair of [`create_qp`](TaskPool::create_qp) as a destination, and returns its id.
    ///
    /// # Panics
    /// Beyond [`TaskOptions::peer_count_max`] destinations, or if another pool created the queue pair.
    pub fn add_peer(&mut self, qp: P::Qp) -> PeerId {
        self.core.borrow_mut().add_peer(qp)
    }

    /// Gives `peer` a new, connected queue pair of [`create_qp`](TaskPool::create_qp) after the old one failed, and
    /// destroys the old one. Requests outstanding on the old one fail with
    /// [`WcStatus::Flushed`](drover_verbs::WcStatus::Flushed); requests not posted yet go to the new one.
    ///
    /// # Panics
    /// If the pool has no destination `peer`, or another pool created the queue pair.
    pub fn replace_peer(&mut self, peer: PeerId, qp: P::Qp) {
        self.core.borrow_mut().replace_peer(peer, qp);
    }

    /// Calls `task` and adds the future that it returns as a new task, which starts in the pool's next step. Allocates.
    ///
    /// # Errors
    /// [`PoolFull`] if the pool has [`TaskOptions::task_count_max`] tasks; `task` is then not called.
    pub fn spawn<F, T>(&mut self, task: F) -> Result<TaskId, PoolFull>
    where
        F: FnOnce(TaskCx<P>) -> T,
        T: Future<Output = ()> + 'static,
    {
        let index = self.free.pop().ok_or(PoolFull)?;
        let future = task(TaskCx::new(self.core.clone(), index));
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        place.future = Some(Box::pin(future));
        self.ready.push(index);
        self.core.borrow_mut().task_count += 1;
        let generation = place.generation;
        Ok(TaskId { index, generation })
    }

    /// Ends `task` by dropping its future. Returns false if it had already ended.
    pub fn cancel(&mut self, task: TaskId) -> bool {
        let place = &mut self.places[task.index as usize];
        if place.generation != task.generation || place.future.is_none() {
            return false;
        }
        self.end(task.index);
        true
    }

    /// Lets `task` run in the pool's next step, unless it has ended. A task's waker does the same from any thread, with
    /// atomics and a look whether the core sleeps.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        let place = &self.places[task.index as usize];
        if place.generation == task.generation && place.future.is_some() {
            self.ready.push(task.index);
        }
    }

    /// Number of tasks that have not ended.
    pub fn task_count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Makes the length of a region known: requests that leave it are refused at the call, as
    /// [`OutOfRange`](StageError::OutOfRange). Requests to other regions fail when they are executed.
    pub fn add_region(&mut self, region: &RemoteRegion) {
        self.core.borrow_mut().buffers.add_region(region);
    }

    /// Bounds the outstanding requests of this pool by `throttle`, in place of [`TaskOptions::credits`].
    pub fn set_throttle(&mut self, throttle: &Throttle) {
        self.core.borrow_mut().set_throttle(throttle);
    }

    /// Sets the most requests that may be outstanding, at least 1 (and, with several destinations, two fewer for each of
    /// them); `None`: only the queues limit them. It may be below the number that is outstanding. A
    /// [throttle](TaskPool::set_throttle) replaces it in the next step.
    pub fn set_credits(&mut self, credits: Option<u32>) {
        self.core
            .borrow_mut()
            .credits
            .set_ceiling(credits.unwrap_or(u32::MAX));
    }

    /// Creates `count` permits for the tasks of this pool.
    pub fn permits(&self, count: usize) -> Permits<P> {
        Permits::new(self.core.clone(), count, self.places.len())
    }

    /// Creates a [`SingleFlight`] for the tasks of this pool.
    pub fn single_flight<K: PartialEq + Clone, V: Clone>(&self) -> SingleFlight<P, K, V> {
        SingleFlight::new(self.core.clone())
    }

    /// Counters since the pool was created, and its present limits.
    pub fn stats(&self) -> TaskStats {
        let core = self.core.borrow();
        let limit = |max: u32| if max == u32::MAX { u64::MAX } else { u64::from(max) };
        let conflicts = &core.races.conflicts;
        let mut stats = core.stats;
        stats.requests.outstanding = u64::from(core.credits.taken());
        stats.credits.max = limit(core.credits.ceiling());
        stats.detached_failures = core.in_flight.detached_failures;
        stats.conflicts = ConflictStats {
            retries: conflicts.retries_total,
            finished_by_retries: conflicts.finished_by_retries,
            tasks_max: limit(conflicts.tasks_max()),
            backoff_max: conflicts.backoff_max(),
            ..stats.conflicts
        };
        stats
    }

    /// Number of buffers of all lengths that are not in use.
    pub fn free_buffer_count(&self) -> usize {
        self.core.borrow().buffers.free_count()
    }

    fn end(&mut self, index: u32) {
        // Dropping the future releases its requests, which borrows the core.
        drop(self.places[index as usize].future.take());
        let mut core = self.core.borrow_mut();
        core.forget_task(index);
        core.task_count -= 1;
        drop(core);
        self.free.push(index);
    }

    /// Runs the tasks that were ready when the step began; with `each`, requests are posted after each of them. Returns
    /// whether there were any, and how many suspended again.
    #[inline]
    fn run_ready(&mut self, cpu: &P::Cpu, each: bool) -> (bool, u32) {
        let (first, end) = self.ready.bounds();
        let (mut position, mut suspensions) = (first, 0);
        while position < end {
            let stop = if each { position + 1 } else { end };
            let suspended = self.run(position, stop);
            suspensions += suspended;
            // Most of a switch comes before the posts of the task that it resumed.
            cpu.charge(TASK_SWITCH.cost, suspended);
            if each {
                self.core.borrow_mut().post(cpu);
            }
            position = stop;
        }
        (first < end, suspensions)
    }

    /// Runs the tasks at these positions of the ready ones. Returns the number of those that suspended again.
    #[inline(always)]
    fn run(&mut self, first: usize, end: usize) -> u32 {
        let mut ended = 0;
        for position in first..end {
            let index = self.ready.take(position);
            let place = &mut self.places[index as usize];
            let Some(future) = &mut place.future else {
                ended += 1;
                continue;
            };
            let mut cx = task::Context::from_waker(&place.waker);
            if future.as_mut().poll(&mut cx).is_ready() {
                self.end(index);
                ended += 1;
            }
        }
        (end - first) as u32 - ended
    }
}

impl<P: Provider> Actor<P::Cpu> for TaskPool<P> {
    /// Polls completions and timers, runs the tasks that they wake, posts one list per destination.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let mut core = self.core.borrow_mut();
        let mut busy = core.begin_step(cpu, cpu.now(), &mut self.wcs);
        let each = core.posting == Posting::PerSync;
        drop(core);
        self.wakes.take(|index| self.ready.push(index));
        let (ran, suspensions) = self.run_ready(cpu, each);
        let mut core = self.core.borrow_mut();
        core.stats.suspensions += u64::from(suspensions);
        busy |= ran | core.post(cpu);
        if core.receiving.is_some() {
            core.post_recvs(cpu);
        }
        if busy || !self.ready.is_empty() {
            return Progress::Busy;
        }
        Progress::Idle {
            wake_at: core.next_step(),
        }
    }
}

impl<P: Provider> std::fmt::Debug for TaskPool<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TaskPool({} tasks on {})", self.task_count(), P::NAME)
    }
}
