//! [`ClientThread`]: a client with a thread of its own, and [`ClientHandle`]s for all other threads.
//!
//! ```text
//! handle (any thread) -- queue --> thread: submit, poll, sleep when there is nothing to do -- answer, waker --> handle
//! ```

use crate::asynch::{Answer, Cell, OwnedOp, answer, as_value};
use crate::session::{Connected, Session};
use crate::{CallError, Error, Options};
use drover_base::Ns;
use drover_kv::{Completion, ConnectError, Op, SubmitError, Token};
use drover_verbs::Waker as FabricWaker;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::JoinHandle;

/// What handles and the client's thread share.
struct Queue {
    inner: Mutex<Inner>,
    /// Ends the thread's sleep; known once its context exists.
    bell: Mutex<Option<FabricWaker>>,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
    /// How often it has.
    parks: AtomicU64,
    capacity: usize,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Futures that found the queue full.
    space: Vec<Waker>,
    closed: bool,
}

struct Job {
    op: OwnedOp,
    slot: Arc<Slot>,
}

/// Where a [`Reply`] finds its answer.
#[derive(Default)]
struct Slot {
    cell: Mutex<Cell>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks; if something did, the data are still whole.
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

/// A thread of its own with a client in it. Stops when dropped.
pub struct ClientThread {
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    /// Connects to the service at `addr` in a thread of its own, and waits for that. At most `capacity` operations queue up
    /// before handles wait.
    ///
    /// # Errors
    /// No address, no service, no session with it, or no thread.
    pub fn connect(
        addr: &str,
        options: &Options,
        capacity: usize,
    ) -> Result<(ClientThread, ClientHandle), Error> {
        let (addr, options) = (addr.to_owned(), options.clone());
        ClientThread::start(capacity, move || Connected::to(&addr, &options))
    }

    /// The same with what `connect` makes in that thread.
    ///
    /// # Errors
    /// Those of `connect`, or no thread.
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
                        // The starter waits; it can only have gone with the whole process.
                        let _ = tell.send(Ok(()));
                        serve(&mut *session.0, &queue_too, &stop_too);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
                queue_too.close();
            })
            .map_err(|error| ConnectError::Setup(error.into()))?;
        let this = ClientThread {
            queue: queue.clone(),
            stop,
            thread: Some(thread),
        };
        told.recv().unwrap_or(Err(Error::Call(CallError::Gone)))?;
        Ok((this, ClientHandle { queue }))
    }

    /// How often the thread has slept, for want of anything to do or waiting for replies.
    pub fn parks(&self) -> u64 {
        self.queue.parks.load(Ordering::Relaxed)
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.queue.ring();
        if let Some(thread) = self.thread.take() {
            // It panics only by a bug, which has been printed then.
            let _ = thread.join();
        }
    }
}

/// Longest sleep of the thread: its control channel wants a look, and its stop flag.
const SLEEP_MAX: Ns = Ns::from_ms(100);
/// Spins this long before it sleeps.
const SPIN: Ns = Ns::from_us(50);

fn serve(session: &mut dyn Session, queue: &Queue, stop: &AtomicBool) {
    let mut slots: Vec<Option<Arc<Slot>>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut stuck: Option<Job> = None;
    let mut busy_at = session.refresh();
    while !stop.load(Ordering::SeqCst) {
        let took = take_jobs(session, queue, &mut slots, &mut free, &mut stuck);
        let mut settle = |c: Completion<'_>| {
            if let Some(slot) = slots.get_mut(c.token as usize).and_then(Option::take) {
                free.push(c.token as usize);
                slot.settle(answer(c.outcome));
            }
        };
        let done = session.poll(&mut settle);
        let now = session.refresh();
        if took || done > 0 {
            busy_at = now;
        } else if now.since(busy_at) > SPIN {
            if sleep(session, queue, stuck.is_some(), &mut settle) {
                busy_at = session.now();
            }
        } else {
            drover_mem::pause();
        }
    }
    let open = slots.into_iter().flatten().chain(stuck.map(|job| job.slot));
    open.for_each(|slot| slot.settle(Err(CallError::Gone)));
}

/// Announces sleep, looks once more, and sleeps until a reply, a job or a timer comes, unless one is there already.
/// Returns whether the look found replies.
fn sleep(
    session: &mut dyn Session,
    queue: &Queue,
    stuck: bool,
    settle: &mut dyn FnMut(Completion<'_>),
) -> bool {
    // SeqCst: pairs with the load in `ring`.
    queue.asleep.store(true, Ordering::SeqCst);
    session.arm();
    let done = session.poll(settle);
    let now = session.refresh();
    let until = session.next_timer().min(now + SLEEP_MAX);
    if done == 0 && until > now && (stuck || lock(&queue.inner).jobs.is_empty()) {
        // Relaxed: a number for people to look at.
        queue.parks.fetch_add(1, Ordering::Relaxed);
        session.park(until);
    } else {
        session.disarm();
    }
    queue.asleep.store(false, Ordering::SeqCst);
    done > 0
}

/// Submits what handles have queued; true if there was something.
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

/// Passes operations to a [`ClientThread`]. Clones share it; any thread and any async runtime may use it.
#[derive(Clone)]
pub struct ClientHandle {
    queue: Arc<Queue>,
}

impl ClientHandle {
    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// Why its result is not known.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        self.begin(&Op::Get { key }).await.map(as_value)
    }

    /// Stores a value for `ttl_s` seconds (0: for ever).
    ///
    /// # Errors
    /// Why its result is not known.
    pub async fn put(&self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), CallError> {
        self.begin(&Op::Put { key, value, ttl_s }).await.map(drop)
    }

    /// Removes a key; false if there was none.
    ///
    /// # Errors
    /// Why its result is not known.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, CallError> {
        Ok(self.begin(&Op::Delete { key }).await? == Answer::Done(true))
    }

    /// Waits for a future of this handle, in a thread that may block.
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

/// An operation in another thread.
struct Reply {
    queue: Arc<Queue>,
    slot: Arc<Slot>,
    unsent: Option<OwnedOp>,
}

impl Future for Reply {
    type Output = Result<Answer, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        // The waker first: the answer may come as soon as the operation is queued.
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
