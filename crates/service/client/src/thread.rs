//! [`ClientThread`]: a client with its own thread, and [`ClientHandle`]s for all other threads.
//!
//! ```text
//! handle (any thread) -- queue --> thread: submit, poll, sleep when there is nothing to do -- answer, waker --> handle
//! ```

use crate::asynch::Cell;
use crate::item::{Answer, Effect, Item, PutOptions, item_operations};
use crate::session::{Connected, Ready, Session};
use crate::{CallError, Error, Options};
use drover_base::Ns;
use drover_kv::{Completion, Condition, ConnectError, Op, OwnedOp, SetupError, SubmitError, Token};
use drover_verbs::Waker as FabricWaker;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::JoinHandle;

/// State shared by the handles and the client's thread.
struct Queue {
    inner: Mutex<Inner>,
    /// Wakes the thread; set once its context exists.
    bell: Mutex<Option<FabricWaker>>,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
    /// Number of times the thread has slept.
    parks: AtomicU64,
    capacity: usize,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Wakers of futures that found the queue full.
    space: Vec<Waker>,
    closed: bool,
}

struct Job {
    op: OwnedOp,
    slot: Arc<Slot>,
}

/// Result cell of a [`Reply`].
#[derive(Default)]
struct Slot {
    cell: Mutex<Cell>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks; if some did, the data would still be consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn settle(&self, result: Result<Answer, CallError>) {
        let mut cell = lock(&self.cell);
        cell.answer = Some(result);
        let waker = cell.waker.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Queue {
    fn ring(&self) {
        // SeqCst: pairs with the store in `sleep`: either the thread sees the job, or we see it asleep.
        if self.asleep.load(Ordering::SeqCst)
            && let Some(waker) = &*lock(&self.bell)
        {
            waker.wake();
        }
    }

    /// Notes that the thread is about to sleep, unless there are jobs for it; a `stuck` thread can take none.
    fn is_ready(&self, stuck: bool) -> Ready {
        // SeqCst: pairs with the load in `ring`.
        self.asleep.store(true, Ordering::SeqCst);
        if !stuck && !lock(&self.inner).jobs.is_empty() {
            return Ready::Work;
        }
        // Relaxed: a statistic.
        self.parks.fetch_add(1, Ordering::Relaxed);
        Ready::Nothing(SLEEP_MAX)
    }

    fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let jobs = std::mem::take(&mut inner.jobs);
        let space = std::mem::take(&mut inner.space);
        drop(inner);
        jobs.into_iter()
            .for_each(|job| job.slot.settle(Err(CallError::Gone)));
        space.into_iter().for_each(Waker::wake);
    }
}

/// A client with its own thread, which executes the operations of all [`ClientHandle`]s. Dropping this stops the thread
/// and waits for its end; operations without a result then fail with [`CallError::Gone`], although the server may have
/// executed them. Dropping the handles does not stop it.
pub struct ClientThread {
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    /// Starts a thread, connects it to the service at `addr`, and waits until it is connected. `capacity`: number of
    /// operations that may be queued for the thread (0 counts as 1); the futures of further ones wait for space.
    ///
    /// # Errors
    /// The address is malformed, no service answers there, no session can be set up, or no thread can be started.
    pub fn connect(
        addr: &str,
        options: &Options,
        capacity: usize,
    ) -> Result<(ClientThread, ClientHandle), Error> {
        let (addr, options) = (addr.to_owned(), options.clone());
        ClientThread::start(capacity, move || Connected::to(&addr, &options))
    }

    /// As [`ClientThread::connect`], with the client that the closure `connect` makes on the new thread.
    ///
    /// # Errors
    /// Those of the closure, no thread can be started, or [`CallError::Gone`] if the closure panics.
    pub fn start(
        capacity: usize,
        connect: impl FnOnce() -> Result<Connected, Error> + Send + 'static,
    ) -> Result<(ClientThread, ClientHandle), Error> {
        let queue = Arc::new(Queue {
            inner: Mutex::default(),
            bell: Mutex::new(None),
            asleep: AtomicBool::new(false),
            parks: AtomicU64::new(0),
            capacity: capacity.max(1),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let (queue_too, stop_too) = (queue.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("drover-client".to_owned())
            .spawn(move || {
                match connect() {
                    Ok(mut session) => {
                        *lock(&queue_too.bell) = Some(session.0.waker());
                        // The starter is waiting; the channel can only be closed if the whole process ends.
                        let _ = tell.send(Ok(()));
                        serve(&mut *session.0, &queue_too, &stop_too);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
                queue_too.close();
            })
            .map_err(|source| {
                ConnectError::Setup(SetupError::System {
                    what: "starting the client's thread",
                    source,
                })
            })?;
        let this = ClientThread {
            queue: queue.clone(),
            stop,
            thread: Some(thread),
        };
        told.recv().unwrap_or(Err(Error::Call(CallError::Gone)))?;
        Ok((this, ClientHandle { queue }))
    }

    /// Number of times the thread has slept, because it was idle or waited for replies.
    pub fn parks(&self) -> u64 {
        self.queue.parks.load(Ordering::Relaxed)
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.queue.ring();
        if let Some(thread) = self.thread.take() {
            // The thread panics only by a bug, and the panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Longest sleep of the thread: it must check its control channel and its stop flag.
const SLEEP_MAX: Ns = Ns::from_ms(100);
fn serve(session: &mut dyn Session, queue: &Queue, stop: &AtomicBool) {
    let mut slots: Vec<Option<Arc<Slot>>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut stuck: Option<Job> = None;
    session.refresh();
    while !stop.load(Ordering::SeqCst) {
        let took = take_jobs(session, queue, &mut slots, &mut free, &mut stuck);
        let mut settle = |c: Completion<'_>| {
            if let Some(slot) = slots.get_mut(c.token as usize).and_then(Option::take) {
                free.push(c.token as usize);
                slot.settle(Answer::of(c.outcome));
            }
        };
        let done = session.poll(&mut settle);
        if took || done > 0 {
            session.worked();
        } else {
            session.rest(&mut || queue.is_ready(stuck.is_some()), &mut settle);
            if queue.asleep.load(Ordering::Relaxed) {
                // Relaxed: a handle that reads a stale `true` wakes a thread that is awake.
                queue.asleep.store(false, Ordering::Relaxed);
            }
        }
    }
    let open = slots.into_iter().flatten().chain(stuck.map(|job| job.slot));
    open.for_each(|slot| slot.settle(Err(CallError::Gone)));
}

/// Submits the operations that handles have queued. Returns whether there were any.
fn take_jobs(
    session: &mut dyn Session,
    queue: &Queue,
    slots: &mut Vec<Option<Arc<Slot>>>,
    free: &mut Vec<usize>,
    stuck: &mut Option<Job>,
) -> bool {
    let mut took = false;
    loop {
        let Some(job) = stuck.take().or_else(|| pop(queue)) else {
            return took;
        };
        let index = free.pop().unwrap_or(slots.len());
        if index == slots.len() {
            slots.push(None);
        }
        match session.submit(&job.op.as_op(), index as Token) {
            Ok(()) => {
                slots[index] = Some(job.slot);
                took = true;
            }
            Err(SubmitError::WindowFull) => {
                free.push(index);
                *stuck = Some(job);
                return took;
            }
            Err(error) => {
                free.push(index);
                job.slot.settle(Err(CallError::Submit(error)));
            }
        }
    }
}

fn pop(queue: &Queue) -> Option<Job> {
    let mut inner = lock(&queue.inner);
    let job = inner.jobs.pop_front();
    let space = match job.is_some() && !inner.space.is_empty() {
        true => std::mem::take(&mut inner.space),
        false => Vec::new(),
    };
    drop(inner);
    space.into_iter().for_each(Waker::wake);
    job
}

/// Passes operations to a [`ClientThread`] from any thread and any async runtime. A future queues its operation when it
/// is first polled, or as soon as the queue has space; dropping it after that does not stop the operation. Clones share
/// the thread.
#[derive(Clone)]
pub struct ClientHandle {
    queue: Arc<Queue>,
}

impl ClientHandle {
    /// Returns the value of `key`, or `None` if the key does not exist.
    ///
    /// # Errors
    /// The operation failed, its result is unknown, or the thread has ended.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        self.begin(&Op::Get { key }).await.map(Answer::value)
    }

    /// Stores `value` under `key` for `ttl_s` seconds (0: for ever).
    ///
    /// # Errors
    /// The operation failed, its result is unknown, or the thread has ended.
    pub async fn put(&self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), CallError> {
        self.begin(&Op::put_for(key, value, ttl_s)).await.map(drop)
    }

    /// Removes `key`. Returns whether it existed.
    ///
    /// # Errors
    /// The operation failed, its result is unknown, or the thread has ended.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, CallError> {
        Ok(self.begin(&Op::delete(key)).await?.effect() == Effect::Done)
    }

    item_operations!();

    /// Blocks the calling thread until `future` is done and returns its result. For futures of any handle, in programs
    /// without an async runtime.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    fn begin(&self, op: &Op<'_>) -> Reply {
        Reply {
            queue: self.queue.clone(),
            slot: Arc::default(),
            unsent: Some(OwnedOp::new(op)),
        }
    }
}

/// Future of an operation that runs on the client's thread.
struct Reply {
    queue: Arc<Queue>,
    slot: Arc<Slot>,
    unsent: Option<OwnedOp>,
}

impl Future for Reply {
    type Output = Result<Answer, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        // Store the waker first: the answer may come as soon as the operation is queued.
        {
            let mut cell = lock(&self.slot.cell);
            if let Some(answer) = cell.answer.take() {
                return Poll::Ready(answer);
            }
            cell.waker = Some(cx.waker().clone());
        }
        let Some(op) = self.unsent.take() else {
            return Poll::Pending;
        };
        let mut inner = lock(&self.queue.inner);
        if inner.closed {
            return Poll::Ready(Err(CallError::Gone));
        }
        if inner.jobs.len() >= self.queue.capacity {
            inner.space.push(cx.waker().clone());
            drop(inner);
            self.unsent = Some(op);
            return Poll::Pending;
        }
        let slot = self.slot.clone();
        inner.jobs.push_back(Job { op, slot });
        drop(inner);
        self.queue.ring();
        Poll::Pending
    }
}
