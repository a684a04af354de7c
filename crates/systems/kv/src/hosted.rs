//! [`Hosted`]: a [`KvClient`] whose operations are executed by the tasks of a [`TaskPool`], for systems whose clients do the
//! work by several dependent requests.
//!
//! ```text
//! submit: free place -> its operation -> first of its key? -> task of the place is woken
//! poll:   the pool's step: tasks run, requests are posted -> finished places: outcome to the sink, next of the key is woken
//! ```
//! A task is made once for each operation that may be in flight, and then waits for one operation after the other in the same
//! memory. So no operation allocates, unless it is longer than any before in its place.
//!
//! An operation that has not ended at its deadline is reported all the same, and its place is free once its task has ended.

use crate::key_order::KeyOrder;
use crate::{Completion, KEY_BYTES_MAX, KvClient, Op, Outcome, OwnedOp, Refusal, SubmitError, Token};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_rt::{PoolFull, TaskCx, TaskId, TaskPool};
use drover_verbs::Provider;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::task::Poll;

/// How a system executes operations: one at a time for each task, many tasks side by side.
pub trait AsyncOps<P: Provider>: 'static {
    /// Executes `op` and returns what came of it; the value of a GET is put into `value`, which is empty before. After
    /// `deadline` it should not go on trying: then a GET, or an update that certainly did not happen, is
    /// [`Refused`](Answer::Refused), any other update [`Indeterminate`](Answer::Indeterminate).
    ///
    /// Operations of the client on one key are executed one after the other, in the order of submission.
    fn execute(
        &self,
        cx: &TaskCx<P>,
        op: &OwnedOp,
        deadline: Ns,
        value: &mut Vec<u8>,
    ) -> impl Future<Output = Answer>;
}

/// An [`Outcome`] whose value, if it has one, is elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// GET: there is a value. Version and flags are reported if the operation asks for them.
    Found {
        /// Version of the item.
        version: u64,
        /// Flags that were stored with the value.
        flags: u32,
    },
    /// As [`Outcome::Stored`].
    Stored,
    /// As [`Outcome::Deleted`].
    Deleted,
    /// As [`Outcome::Touched`].
    Touched,
    /// As [`Outcome::NotFound`].
    NotFound,
    /// As [`Outcome::Exists`].
    Exists,
    /// As [`Outcome::Indeterminate`].
    Indeterminate,
    /// As [`Outcome::Refused`].
    Refused(Refusal),
}

impl Answer {
    /// The outcome whose value, if it has one, is `value`. `is_detailed`: the operation asked for version and flags.
    pub fn outcome(self, value: &[u8], is_detailed: bool) -> Outcome<'_> {
        match self {
            Answer::Found { version, flags } if is_detailed => Outcome::Found {
                value,
                version,
                flags,
            },
            Answer::Found { .. } => Outcome::Value(value),
            Answer::Stored => Outcome::Stored,
            Answer::Deleted => Outcome::Deleted,
            Answer::Touched => Outcome::Touched,
            Answer::NotFound => Outcome::NotFound,
            Answer::Exists => Outcome::Exists,
            Answer::Indeterminate => Outcome::Indeterminate,
            Answer::Refused(refusal) => Outcome::Refused(refusal),
        }
    }
}

/// What a place and its task exchange.
struct Exchange {
    /// The operation, which only the place writes, while the task has no share of it.
    op: Rc<OwnedOp>,
    deadline: Ns,
    /// Whether the operation waits for its task.
    is_given: bool,
    answer: Option<Answer>,
    value: Vec<u8>,
}

/// A place for an operation in flight.
struct InFlight {
    task: TaskId,
    exchange: Rc<RefCell<Exchange>>,
    token: Token,
    /// The operation's deadline, as long as there is one that was not reported.
    deadline: Option<Ns>,
}

/// Time between two looks at the deadlines of all operations.
const LOOK_EVERY: Ns = Ns::from_ms(1);

/// A [`KvClient`] over a [`TaskPool`]. It belongs to the pool's core.
pub struct Hosted<P: Provider, S> {
    pool: TaskPool<P>,
    ops: Rc<S>,
    places: Box<[InFlight]>,
    free: Vec<u32>,
    order: KeyOrder,
    /// Places whose operations have ended, in the order in which they did.
    ended: Rc<RefCell<Vec<u32>>>,
    /// Those that are being reported.
    reported: Vec<u32>,
    /// Operations not yet reported.
    in_flight: usize,
    patience: Ns,
    /// Time of the next look at all deadlines.
    next_look: Ns,
    next_timer: Ns,
}

impl<P: Provider, S: AsyncOps<P>> Hosted<P, S> {
    /// Creates a client with `window` operations in flight, each given up after `deadline`, and a task in `pool` for each of
    /// them.
    ///
    /// # Errors
    /// [`PoolFull`] if the pool has no place for so many tasks.
    ///
    /// # Panics
    /// If `window` is 0.
    pub fn new(mut pool: TaskPool<P>, ops: S, window: usize, deadline: Ns) -> Result<Hosted<P, S>, PoolFull> {
        assert!(window > 0, "a client without operations");
        let (ops, ended) = (Rc::new(ops), Rc::new(RefCell::new(Vec::with_capacity(window))));
        let mut places = Vec::with_capacity(window);
        for index in 0..window as u32 {
            let exchange = Rc::new(RefCell::new(Exchange {
                op: Rc::new(OwnedOp::new(&Op::Get { key: b"" })),
                deadline: Ns::ZERO,
                is_given: false,
                answer: None,
                value: Vec::new(),
            }));
            let (ops, ended, shared) = (ops.clone(), ended.clone(), exchange.clone());
            let task = pool.spawn(|cx| run(cx, ops, shared, ended, index))?;
            places.push(InFlight {
                task,
                exchange,
                token: 0,
                deadline: None,
            });
        }
        Ok(Hosted {
            pool,
            ops,
            places: places.into(),
            free: (0..window as u32).rev().collect(),
            order: KeyOrder::new(window),
            ended,
            reported: Vec::with_capacity(window),
            in_flight: 0,
            patience: deadline,
            next_look: Ns::ZERO,
            next_timer: Ns::ZERO,
        })
    }

    /// The pool, for counters.
    pub fn pool(&self) -> &TaskPool<P> {
        &self.pool
    }

    /// The pool, for its destinations and limits.
    pub fn pool_mut(&mut self) -> &mut TaskPool<P> {
        &mut self.pool
    }

    /// The system's part.
    pub fn ops(&self) -> &S {
        &self.ops
    }

    /// Gives the operation of place `at` to its task.
    fn give(&mut self, at: usize) {
        let place = &self.places[at];
        place.exchange.borrow_mut().is_given = true;
        self.pool.wake(place.task);
        self.next_timer = Ns::ZERO;
    }

    /// Reports the operations that have ended, and begins those that waited for them; returns the number reported.
    fn report(&mut self, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let mut reported = std::mem::take(&mut self.reported);
        std::mem::swap(&mut reported, &mut self.ended.borrow_mut());
        for at in &reported {
            let at = *at as usize;
            let places = &self.places;
            let key_of = |other: usize| places[other].exchange.borrow().op.clone();
            let own = key_of(at);
            let next = self.order.leave(at, |other| key_of(other).key() == own.key());
            drop(own);
            let place = &mut self.places[at];
            if place.deadline.take().is_some() {
                let exchange = place.exchange.borrow();
                let answer = exchange.answer.expect("an operation that has ended");
                sink(Completion {
                    token: place.token,
                    outcome: answer.outcome(&exchange.value, exchange.op.is_detailed()),
                });
                self.in_flight -= 1;
            }
            self.free.push(at as u32);
            if let Some(next) = next {
                self.give(next);
            }
        }
        let count = reported.len();
        reported.clear();
        self.reported = reported;
        count
    }
}

impl<P: Provider, S: AsyncOps<P>> Hosted<P, S> {
    /// Reports the operations that have not ended by their deadlines; returns their number. Their tasks go on.
    #[cold]
    fn give_up(&mut self, now: Ns, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let mut count = 0;
        for place in &mut self.places {
            if place.deadline.is_some_and(|deadline| deadline <= now) {
                place.deadline = None;
                count += 1;
                let is_update = place.exchange.borrow().op.kind().is_update();
                sink(Completion {
                    token: place.token,
                    outcome: match is_update {
                        true => Outcome::Indeterminate,
                        false => Outcome::Refused(Refusal::Unavailable),
                    },
                });
            }
        }
        self.in_flight -= count;
        count
    }
}

/// The task of place `index`.
async fn run<P: Provider, S: AsyncOps<P>>(
    cx: TaskCx<P>,
    ops: Rc<S>,
    exchange: Rc<RefCell<Exchange>>,
    ended: Rc<RefCell<Vec<u32>>>,
    index: u32,
) {
    let mut value = Vec::new();
    loop {
        let (op, deadline) = std::future::poll_fn(|_| {
            let mut exchange = exchange.borrow_mut();
            if std::mem::take(&mut exchange.is_given) {
                return Poll::Ready((exchange.op.clone(), exchange.deadline));
            }
            Poll::Pending
        })
        .await;
        value.clear();
        // It may have waited for an earlier operation on its key.
        let answer = match cx.now() < deadline {
            true => ops.execute(&cx, &op, deadline, &mut value).await,
            false => Answer::Refused(Refusal::Unavailable),
        };
        drop(op);
        let mut exchange = exchange.borrow_mut();
        std::mem::swap(&mut exchange.value, &mut value);
        exchange.answer = Some(answer);
        ended.borrow_mut().push(index);
    }
}

impl<P: Provider, S: AsyncOps<P>> KvClient<P> for Hosted<P, S> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let at = self.free.pop().ok_or(SubmitError::WindowFull)? as usize;
        let deadline = cpu.now() + self.patience;
        {
            let mut exchange = self.places[at].exchange.borrow_mut();
            exchange.deadline = deadline;
            exchange.answer = None;
            let own = Rc::get_mut(&mut exchange.op);
            own.expect("the task has given its share back").replace(op);
        }
        (self.places[at].token, self.places[at].deadline) = (token, Some(deadline));
        self.in_flight += 1;
        let places = &self.places;
        let same = |other: usize| places[other].exchange.borrow().op.key() == key;
        if self.order.enter(at, key, same) {
            self.give(at);
        }
        Ok(())
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let mut done = 0;
        loop {
            self.next_timer = match self.pool.step(cpu) {
                Progress::Busy => Ns::ZERO,
                Progress::Idle { wake_at } => wake_at,
            };
            let count = self.report(sink);
            done += count;
            // Of the operations that are reported some have let others begin: their requests go out now. Each round ends some, so
            // there are at most as many as places.
            if count == 0 || self.in_flight == 0 {
                break;
            }
        }
        let now = cpu.now();
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            done += self.give_up(now, sink);
        }
        done
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn next_timer(&self) -> Ns {
        match self.in_flight {
            0 => self.next_timer,
            _ => self.next_timer.min(self.next_look),
        }
    }
}
