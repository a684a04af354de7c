//! [`AsyncClient`]: a client for executors that poll on the client's own thread; it needs no runtime. Other threads use
//! a [`ClientHandle`](crate::ClientHandle).

use crate::item::{Answer, Effect, Item, PutOptions, item_operations};
use crate::session::{Connected, Ready, Session};
use crate::{CallError, Error, Options};
use drover_base::Ns;
use drover_kv::{Calls, Condition, Op, OwnedOp, SubmitError, Token};
use drover_verbs::Waker as FabricWaker;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

/// Result cell of one operation, shared with its future.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) answer: Option<Result<Answer, CallError>>,
    pub(crate) waker: Option<Waker>,
    /// The future was dropped; the result is discarded.
    abandoned: bool,
}

struct Local {
    session: Connected,
    cells: Vec<Option<Cell>>,
    free: Vec<usize>,
    /// Operations that wait because the window is full.
    backlog: VecDeque<(OwnedOp, usize)>,
    /// Wakers of finished operations. They are called after the borrow of this struct has ended.
    woken: Vec<Waker>,
}

/// Result cells of a thread's operations.
struct Cells<'a> {
    cells: &'a mut [Option<Cell>],
    free: &'a mut Vec<usize>,
    woken: &'a mut Vec<Waker>,
}

impl Cells<'_> {
    fn settle(&mut self, index: usize, result: Result<Answer, CallError>) {
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

impl Local {
    /// Splits into the client, the backlog and the result cells.
    fn parts(&mut self) -> (&mut dyn Session, &mut VecDeque<(OwnedOp, usize)>, Cells<'_>) {
        let cells = Cells {
            cells: &mut self.cells,
            free: &mut self.free,
            woken: &mut self.woken,
        };
        (&mut *self.session.0, &mut self.backlog, cells)
    }

    fn poll(&mut self) -> usize {
        let (client, backlog, mut cells) = self.parts();
        // The executor has no access to the clock that timeouts and retransmissions go by.
        client.refresh();
        while let Some((op, index)) = backlog.pop_front() {
            match client.submit(&op.as_op(), index as Token) {
                Ok(()) => {}
                Err(SubmitError::WindowFull) => {
                    backlog.push_front((op, index));
                    break;
                }
                Err(error) => cells.settle(index, Err(CallError::Submit(error))),
            }
        }
        client.poll(&mut |c| cells.settle(c.token as usize, Answer::of(c.outcome)))
    }

    /// Waits for something to happen, unless `waked` is set.
    fn rest(&mut self, waked: &AtomicBool) -> usize {
        let (client, _, mut cells) = self.parts();
        // SeqCst: pairs with the store in `Rouse::wake_by_ref`.
        let mut ready = || match waked.swap(false, Ordering::SeqCst) {
            true => Ready::Work,
            false => Ready::Nothing(Ns::MAX),
        };
        client.rest(&mut ready, &mut |c| {
            cells.settle(c.token as usize, Answer::of(c.outcome))
        })
    }
}

/// Wakes a thread that waits in [`AsyncClient::block_on`].
struct Rouse {
    waked: AtomicBool,
    bell: FabricWaker,
}

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SeqCst: pairs with the swap in `rest`: either the thread sees this, or we see that it sleeps.
        self.waked.store(true, Ordering::SeqCst);
        self.bell.wake();
    }
}

/// Sends, receives, or waits, then wakes. Waking comes last because a woken task may use the client at once.
fn drive(local: &RefCell<Local>, work: impl FnOnce(&mut Local) -> usize) -> usize {
    let mut borrowed = local.borrow_mut();
    let done = work(&mut borrowed);
    let woken = std::mem::take(&mut borrowed.woken);
    drop(borrowed);
    woken.into_iter().for_each(Waker::wake);
    done
}

/// A client whose operations are futures, for executors on this client's thread. A future starts its operation when it
/// is first polled and makes progress when [`drive`](AsyncClient::drive) is called; dropping it later does not stop the
/// operation. Clones share the client.
#[derive(Clone)]
pub struct AsyncClient {
    local: Rc<RefCell<Local>>,
}

impl From<Connected> for AsyncClient {
    fn from(session: Connected) -> AsyncClient {
        AsyncClient {
            local: Rc::new(RefCell::new(Local {
                session,
                cells: Vec::new(),
                free: Vec::new(),
                backlog: VecDeque::new(),
                woken: Vec::new(),
            })),
        }
    }
}

impl AsyncClient {
    /// Connects to the service at `addr`, as [`Client::connect_with`](crate::Client::connect_with). Blocks until
    /// connected.
    ///
    /// # Errors
    /// The address is malformed, no service answers there, or no session can be set up.
    pub fn connect(addr: &str, options: &Options) -> Result<AsyncClient, Error> {
        Connected::to(addr, options).map(AsyncClient::from)
    }

    /// Returns the value of `key`, or `None` if the key does not exist.
    ///
    /// # Errors
    /// The operation failed or its result is unknown.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        self.begin(&Op::Get { key }).await.map(Answer::value)
    }

    /// Stores `value` under `key` for `ttl_s` seconds (0: for ever).
    ///
    /// # Errors
    /// The operation failed or its result is unknown.
    pub async fn put(&self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), CallError> {
        self.begin(&Op::put_for(key, value, ttl_s)).await.map(drop)
    }

    /// Removes `key`. Returns whether it existed.
    ///
    /// # Errors
    /// The operation failed or its result is unknown.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, CallError> {
        Ok(self.begin(&Op::delete(key)).await?.effect() == Effect::Done)
    }

    item_operations!();

    /// As [`Client::calls`](crate::Client::calls).
    pub fn calls(&self) -> Option<Calls> {
        self.local.borrow_mut().session.0.calls()
    }

    /// Reads many keys at once: `result[i]` is the result for `keys[i]`. Keys beyond the window wait for space in it.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Option<Vec<u8>>, CallError>> {
        let pending: Vec<Pending> = keys.iter().map(|key| self.begin(&Op::Get { key })).collect();
        let mut results = Vec::with_capacity(keys.len());
        for one in pending {
            results.push(one.await.map(Answer::value));
        }
        results
    }

    /// Sends operations, receives replies, and wakes the futures of finished operations. Returns how many submitted
    /// operations finished, including those whose future was dropped. Never blocks.
    pub fn drive(&self) -> usize {
        drive(&self.local, Local::poll)
    }

    /// Time, on the clock of the client's context, by which [`drive`](AsyncClient::drive) must be called again even if
    /// nothing arrives; [`Ns::MAX`]: no such time.
    pub fn next_timer(&self) -> Ns {
        self.local.borrow().session.0.next_timer()
    }

    /// Runs one future to completion and returns its result; drives the client meanwhile, and waits as a blocking
    /// [`Client`](crate::Client) does. For main functions and tests; executors use [`drive`](AsyncClient::drive).
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let rouse = Arc::new(Rouse {
            waked: AtomicBool::new(false),
            bell: self.local.borrow().session.0.waker(),
        });
        let waker = Waker::from(rouse.clone());
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
                return result;
            }
            match self.drive() {
                0 => {
                    drive(&self.local, |local| local.rest(&rouse.waked));
                }
                _ => self.local.borrow_mut().session.0.worked(),
            }
        }
    }

    /// Starts an operation. It is sent whether or not its future is polled.
    fn begin(&self, op: &Op<'_>) -> Pending {
        let mut local = self.local.borrow_mut();
        let index = local.free.pop().unwrap_or(local.cells.len());
        if index == local.cells.len() {
            local.cells.push(None);
        }
        local.cells[index] = Some(Cell::default());
        let taken = match local.backlog.is_empty() {
            true => {
                // An operation's deadline counts from now, and the last `drive` may be long ago, unless others are in flight.
                if local.free.len() + 1 == local.cells.len() {
                    local.session.0.refresh();
                }
                local.session.0.submit(op, index as Token)
            }
            false => Err(SubmitError::WindowFull),
        };
        match taken {
            Ok(()) => {}
            Err(SubmitError::WindowFull) => local.backlog.push_back((OwnedOp::new(op), index)),
            Err(error) => local.parts().2.settle(index, Err(CallError::Submit(error))),
        }
        Pending {
            local: self.local.clone(),
            index,
        }
    }
}

/// An operation under way.
struct Pending {
    local: Rc<RefCell<Local>>,
    index: usize,
}

impl Future for Pending {
    type Output = Result<Answer, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let mut local = self.local.borrow_mut();
        let Some(cell) = &mut local.cells[self.index] else {
            return Poll::Ready(Err(CallError::Gone));
        };
        match cell.answer.take() {
            Some(answer) => {
                // `drop` frees the cell.
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

impl Drop for Pending {
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
