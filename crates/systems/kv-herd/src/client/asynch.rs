//! [`AsyncClient`]: a client for async code, with no runtime of its own, for executors of its thread. Other threads
//! use a [`Handle`](super::Handle).

use super::HerdClient;
use super::blocking::found;
use drover_base::{Actor, Cpu, Progress};
use drover_kv::{KvClient, Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_verbs::{Context, Provider};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

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
pub(super) struct OwnedOp {
    kind: OpKind,
    key: Vec<u8>,
    value: Vec<u8>,
    ttl_s: u32,
}

impl OwnedOp {
    pub(super) fn new(op: &Op<'_>) -> OwnedOp {
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

    pub(super) fn as_op(&self) -> Op<'_> {
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
pub(super) enum Answer {
    Value(Vec<u8>),
    Done(bool),
}

pub(super) fn answer(outcome: Outcome<'_>) -> Result<Answer, OpError> {
    match outcome {
        Outcome::Value(value) => Ok(Answer::Value(value.to_vec())),
        other => found(other).map(Answer::Done),
    }
}

pub(super) fn as_value(answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Value(value) => Some(value),
        Answer::Done(_) => None,
    }
}

/// The place where a future finds its answer.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) answer: Option<Result<Answer, OpError>>,
    pub(super) waker: Option<Waker>,
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
