//! Clients for async code, with no runtime of their own: [`AsyncClient`] for executors of the same thread, and
//! [`ClientThread`] with [`Handle`]s that any thread and any runtime may use.

use super::blocking::found;
use super::{ClientOptions, Dial, HerdClient, SetupError};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv::{Completion, KvClient, Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_verbs::{Context, Device, Provider, Waker as FabricWaker};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::JoinHandle;

/// Why an operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// It certainly had no effect.
    #[error(transparent)]
    Refused(Refusal),
    /// Nobody can know whether it had.
    #[error("the server failed meanwhile: it may or may not have happened")]
    Indeterminate,
    /// It was not taken at all.
    #[error(transparent)]
    Submit(SubmitError),
    /// The client's thread is gone.
    #[error("the client is gone")]
    Gone,
}

/// An operation that owns its key and value.
#[derive(Clone, Debug)]
struct OwnedOp {
    kind: OpKind,
    key: Vec<u8>,
    value: Vec<u8>,
    ttl_s: u32,
}

impl OwnedOp {
    fn new(op: &Op<'_>) -> OwnedOp {
        let (value, ttl_s) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            Op::Get { .. } | Op::Delete { .. } => (&[][..], 0),
        };
        OwnedOp {
            kind: op.kind(),
            key: op.key().to_vec(),
            value: value.to_vec(),
            ttl_s,
        }
    }

    fn as_op(&self) -> Op<'_> {
        let key = &self.key[..];
        match self.kind {
            OpKind::Get => Op::Get { key },
            OpKind::Put => Op::Put {
                key,
                value: &self.value,
                ttl_s: self.ttl_s,
            },
            OpKind::Delete => Op::Delete { key },
        }
    }
}

/// What an operation came to: the value of a GET, or whether the key was there.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Value(Vec<u8>),
    Done(bool),
}

fn answer(outcome: Outcome<'_>) -> Result<Answer, OpError> {
    match outcome {
        Outcome::Value(value) => Ok(Answer::Value(value.to_vec())),
        other => found(other).map(Answer::Done),
    }
}

fn as_value(answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Value(value) => Some(value),
        Answer::Done(_) => None,
    }
}

/// The place where a future finds its answer.
#[derive(Debug, Default)]
struct Cell {
    answer: Option<Result<Answer, OpError>>,
    waker: Option<Waker>,
    /// The future was dropped: nobody wants the answer.
    abandoned: bool,
}

struct Local<P: Provider> {
    client: HerdClient<P>,
    cells: Vec<Option<Cell>>,
    free: Vec<usize>,
    /// Operations that found the window full.
    backlog: VecDeque<(OwnedOp, usize)>,
    /// Whose operations are done: woken when nobody holds a borrow of this.
    woken: Vec<Waker>,
}

/// The answers of a thread's operations.
struct Cells<'a> {
    cells: &'a mut [Option<Cell>],
    free: &'a mut Vec<usize>,
    woken: &'a mut Vec<Waker>,
}

impl Cells<'_> {
    fn settle(&mut self, index: usize, result: Result<Answer, OpError>) {
        let Some(cell) = self.cells.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if cell.abandoned {
            self.cells[index] = None;
            self.free.push(index);
            return;
        }
        cell.answer = Some(result);
        self.woken.extend(cell.waker.take());
    }
}

impl<P: Provider> Local<P> {
    /// The client, the backlog, and the rest.
    fn parts(&mut self) -> (&mut HerdClient<P>, &mut VecDeque<(OwnedOp, usize)>, Cells<'_>) {
        let cells = Cells {
            cells: &mut self.cells,
            free: &mut self.free,
            woken: &mut self.woken,
        };
        (&mut self.client, &mut self.backlog, cells)
    }

    fn poll(&mut self, cpu: &P::Cpu) -> usize {
        let (client, backlog, mut cells) = self.parts();
        while let Some((op, index)) = backlog.pop_front() {
            match client.submit(cpu, &op.as_op(), index as Token) {
                Ok(()) => {}
                Err(SubmitError::WindowFull) => {
                    backlog.push_front((op, index));
                    break;
                }
                Err(error) => cells.settle(index, Err(OpError::Submit(error))),
            }
        }
        client.poll(cpu, &mut |c| cells.settle(c.token as usize, answer(c.outcome)))
    }
}

/// Sends, receives, and wakes, in this order: whoever is woken may use the client at once.
fn drive<P: Provider>(local: &RefCell<Local<P>>, cpu: &P::Cpu) -> usize {
    let mut borrowed = local.borrow_mut();
    let done = borrowed.poll(cpu);
    let woken = std::mem::take(&mut borrowed.woken);
    drop(borrowed);
    woken.into_iter().for_each(Waker::wake);
    done
}

/// A client whose operations are futures, for executors that run in this client's thread. The futures move on
/// when [`drive`](AsyncClient::drive) is called, or the client runs as an [`Actor`]; clones share it.
pub struct AsyncClient<P: Provider> {
    local: Rc<RefCell<Local<P>>>,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Clone for AsyncClient<P> {
    fn clone(&self) -> AsyncClient<P> {
        AsyncClient {
            local: self.local.clone(),
            ctx: self.ctx.clone(),
        }
    }
}

impl<P: Provider> AsyncClient<P> {
    /// Wraps a client.
    pub fn new(client: HerdClient<P>) -> AsyncClient<P> {
        AsyncClient {
            ctx: client.context().clone(),
            local: Rc::new(RefCell::new(Local {
                client,
                cells: Vec::new(),
                free: Vec::new(),
                backlog: VecDeque::new(),
                woken: Vec::new(),
            })),
        }
    }

    /// The value of `key`, if there is one.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OpError> {
        self.begin(&Op::Get { key }).await.map(as_value)
    }

    /// Stores a value for `ttl_s` seconds (0: for ever).
    pub async fn put(&self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), OpError> {
        self.begin(&Op::Put { key, value, ttl_s }).await.map(drop)
    }

    /// Removes a key; false if there was none.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, OpError> {
        Ok(self.begin(&Op::Delete { key }).await? == Answer::Done(true))
    }

    /// Reads many keys at once: `result[i]` is of `keys[i]`.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Option<Vec<u8>>, OpError>> {
        let pending: Vec<Pending<P>> = keys.iter().map(|key| self.begin(&Op::Get { key })).collect();
        let mut results = Vec::with_capacity(keys.len());
        for one in pending {
            results.push(one.await.map(as_value));
        }
        results
    }

    /// Sends, receives, wakes the futures whose operations are done. Returns how many there were.
    pub fn drive(&self) -> usize {
        drive(&self.local, self.ctx.cpu())
    }

    /// Runs one future to its end, driving the client. For main functions and tests; executors use
    /// [`drive`](AsyncClient::drive).
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let waker = Waker::noop();
        loop {
            self.ctx.cpu().refresh();
            if let Poll::Ready(result) = future.as_mut().poll(&mut TaskContext::from_waker(waker)) {
                return result;
            }
            if self.drive() == 0 {
                drover_mem::pause();
            }
        }
    }

    /// Takes an operation: it is on its way whether or not the future is polled.
    fn begin(&self, op: &Op<'_>) -> Pending<P> {
        let mut local = self.local.borrow_mut();
        let index = local.free.pop().unwrap_or(local.cells.len());
        if index == local.cells.len() {
            local.cells.push(None);
        }
        local.cells[index] = Some(Cell::default());
        let taken = match local.backlog.is_empty() {
            true => local.client.submit(self.ctx.cpu(), op, index as Token),
            false => Err(SubmitError::WindowFull),
        };
        match taken {
            Ok(()) => {}
            Err(SubmitError::WindowFull) => local.backlog.push_back((OwnedOp::new(op), index)),
            Err(error) => local.parts().2.settle(index, Err(OpError::Submit(error))),
        }
        Pending {
            local: self.local.clone(),
            index,
        }
    }
}

impl<P: Provider> Actor<P::Cpu> for AsyncClient<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if drive(&self.local, cpu) > 0 {
            return Progress::Busy;
        }
        Progress::Idle {
            wake_at: self.local.borrow().client.next_timer(),
        }
    }
}

/// An operation under way.
struct Pending<P: Provider> {
    local: Rc<RefCell<Local<P>>>,
    index: usize,
}

impl<P: Provider> Future for Pending<P> {
    type Output = Result<Answer, OpError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut local = self.local.borrow_mut();
        let Some(cell) = &mut local.cells[self.index] else {
            return Poll::Ready(Err(OpError::Gone));
        };
        match cell.answer.take() {
            Some(answer) => {
                // The place is given back by drop.
                cell.abandoned = true;
                Poll::Ready(answer)
            }
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<P: Provider> Drop for Pending<P> {
    fn drop(&mut self) {
        let mut local = self.local.borrow_mut();
        let Some(cell) = &mut local.cells[self.index] else {
            return;
        };
        if cell.abandoned || cell.answer.is_some() {
            local.cells[self.index] = None;
            local.free.push(self.index);
        } else {
            cell.abandoned = true;
        }
    }
}

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
    room: Vec<Waker>,
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
    fn settle(&self, result: Result<Answer, OpError>) {
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
        let room = std::mem::take(&mut inner.room);
        drop(inner);
        jobs.into_iter()
            .for_each(|job| job.slot.settle(Err(OpError::Gone)));
        room.into_iter().for_each(Waker::wake);
    }
}

/// A thread of its own with a client in it. Stops when dropped.
pub struct ClientThread {
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    /// Starts the thread, connects, and waits for that. At most `capacity` operations queue up before handles wait.
    pub fn start<P: Provider>(
        device: P::Device,
        dial: Dial,
        options: ClientOptions,
        capacity: usize,
        timeout: Ns,
    ) -> Result<(ClientThread, Handle), SetupError> {
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
                match connect::<P>(&device, dial, options, timeout) {
                    Ok(client) => {
                        *lock(&queue_too.bell) = Some(client.context().waker());
                        // The starter waits; it can only have gone with the whole process.
                        let _ = tell.send(Ok(()));
                        serve(client, &queue_too, &stop_too);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
                queue_too.close();
            })
            .map_err(|source| SetupError::System {
                what: "starting a thread",
                source,
            })?;
        let this = ClientThread {
            queue: queue.clone(),
            stop,
            thread: Some(thread),
        };
        told.recv().unwrap_or(Err(SetupError::Ended))?;
        Ok((this, Handle { queue }))
    }
}

impl ClientThread {
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

fn connect<P: Provider>(
    device: &P::Device,
    dial: Dial,
    options: ClientOptions,
    timeout: Ns,
) -> Result<HerdClient<P>, SetupError> {
    let ctx = Rc::new(device.context()?);
    HerdClient::connect_blocking(ctx, dial, options, timeout)
}

/// Longest sleep of the thread: its control channel wants a look, and its stop flag.
const SLEEP_MAX: Ns = Ns::from_ms(100);
/// Spins this long before it sleeps.
const SPIN: Ns = Ns::from_us(50);

fn serve<P: Provider>(mut client: HerdClient<P>, queue: &Queue, stop: &AtomicBool) {
    let ctx = client.context().clone();
    let mut slots: Vec<Option<Arc<Slot>>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut stuck: Option<Job> = None;
    let mut busy_at = ctx.cpu().refresh();
    while !stop.load(Ordering::SeqCst) {
        let took = take_jobs(&mut client, &ctx, queue, &mut slots, &mut free, &mut stuck);
        let mut settle = |c: Completion<'_>| {
            if let Some(slot) = slots.get_mut(c.token as usize).and_then(Option::take) {
                free.push(c.token as usize);
                slot.settle(answer(c.outcome));
            }
        };
        let done = client.poll(ctx.cpu(), &mut settle);
        let now = ctx.cpu().refresh();
        if took || done > 0 {
            busy_at = now;
        } else if now.since(busy_at) > SPIN {
            if sleep(&mut client, &ctx, queue, stuck.is_some(), &mut settle) {
                busy_at = ctx.cpu().now();
            }
        } else {
            drover_mem::pause();
        }
    }
    let open = slots.into_iter().flatten().chain(stuck.map(|job| job.slot));
    open.for_each(|slot| slot.settle(Err(OpError::Gone)));
}

/// Announces sleep, looks once more, and sleeps until a reply, a job or a timer comes, unless one is there already.
/// Returns whether the look found replies.
fn sleep<P: Provider>(
    client: &mut HerdClient<P>,
    ctx: &Rc<P::Context>,
    queue: &Queue,
    stuck: bool,
    settle: &mut impl FnMut(Completion<'_>),
) -> bool {
    // SeqCst: pairs with the load in `ring`.
    queue.asleep.store(true, Ordering::SeqCst);
    ctx.arm();
    let done = client.poll(ctx.cpu(), settle);
    let now = ctx.cpu().refresh();
    let until = client.next_timer().min(now + SLEEP_MAX);
    if done == 0 && until > now && (stuck || lock(&queue.inner).jobs.is_empty()) {
        // Relaxed: a number for people to look at.
        queue.parks.fetch_add(1, Ordering::Relaxed);
        ctx.park(until);
    } else {
        ctx.disarm();
    }
    queue.asleep.store(false, Ordering::SeqCst);
    done > 0
}

/// Submits what handles have queued; true if there was something.
fn take_jobs<P: Provider>(
    client: &mut HerdClient<P>,
    ctx: &Rc<P::Context>,
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
        match client.submit(ctx.cpu(), &job.op.as_op(), index as Token) {
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
                job.slot.settle(Err(OpError::Submit(error)));
            }
        }
    }
}

fn pop(queue: &Queue) -> Option<Job> {
    let mut inner = lock(&queue.inner);
    let job = inner.jobs.pop_front();
    let room = match job.is_some() && !inner.room.is_empty() {
        true => std::mem::take(&mut inner.room),
        false => Vec::new(),
    };
    drop(inner);
    room.into_iter().for_each(Waker::wake);
    job
}

/// Talks to a [`ClientThread`]. Clones do the same; any thread and any async runtime may use it.
#[derive(Clone)]
pub struct Handle {
    queue: Arc<Queue>,
}

impl Handle {
    /// The value of `key`, if there is one.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OpError> {
        self.begin(&Op::Get { key }).await.map(as_value)
    }

    /// Stores a value for `ttl_s` seconds (0: for ever).
    pub async fn put(&self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), OpError> {
        self.begin(&Op::Put { key, value, ttl_s }).await.map(drop)
    }

    /// Removes a key; false if there was none.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, OpError> {
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
    type Output = Result<Answer, OpError>;

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
            return Poll::Ready(Err(OpError::Gone));
        }
        if inner.jobs.len() >= self.queue.capacity {
            inner.room.push(cx.waker().clone());
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
