//! [`RaceOps`]: the operations of `kv` as tasks over a [`Race`]. An operation that certainly had no effect is executed again,
//! after the pool was entered anew if need be, until its deadline.

use crate::error::RaceError;
use crate::mistake::Mistake;
use crate::race::{ItemMeta, Race, Updated};
use drover_base::Ns;
use drover_kv::{Answer, AsyncOps, Op, OpKind, OwnedOp, Refusal, SizeLimits};
use drover_memnode::MemoryError;
use drover_rt::{TaskCx, TaskError};
use drover_verbs::Provider;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Wait of an operation before it looks again whether it can be executed.
const WAIT: Ns = Ns::from_us(50);

/// No attempt begins in the last part of an operation's time.
pub(crate) const LAST_PART: u64 = 8;

/// What the operations of a thread and the one who keeps it in the pool tell each other.
pub(crate) struct Access<P: Provider> {
    /// The tables; `None`: there is no session now, or it is about to end, and nothing begins.
    race: RefCell<Option<Race<P>>>,
    /// Operations under way.
    running: Cell<usize>,
    /// Whether an operation has met something that only another session can mend.
    is_broken: Cell<bool>,
    /// Whether locks are held that no operation of this client will release.
    has_left_locks: Cell<bool>,
    /// Nodes at which the memory of dead clients has been found, as far as this thread knows of any.
    repaired: RefCell<Vec<bool>>,
    /// The last structure that was found broken.
    corrupt: Cell<Option<MemoryError>>,
    mistake: Option<Mistake>,
    /// Whether operations on a lost node wait until their deadlines for its return.
    waits: bool,
}

impl<P: Provider> Access<P> {
    pub(crate) fn new(mistake: Option<Mistake>) -> Rc<Access<P>> {
        Access::create(mistake, true)
    }

    /// For a thread that refuses operations on lost nodes at once, instead of waiting for these nodes.
    pub(crate) fn refusing_at_once() -> Rc<Access<P>> {
        Access::create(None, false)
    }

    fn create(mistake: Option<Mistake>, waits: bool) -> Rc<Access<P>> {
        Rc::new(Access {
            race: RefCell::new(None),
            running: Cell::new(0),
            is_broken: Cell::new(false),
            has_left_locks: Cell::new(false),
            repaired: RefCell::default(),
            corrupt: Cell::new(None),
            mistake,
            waits,
        })
    }

    /// Operations may begin.
    pub(crate) fn open(&self, race: Race<P>) {
        self.is_broken.set(false);
        self.has_left_locks.set(false);
        self.race.replace(Some(race));
    }

    /// No operation begins from now on; true once none is under way.
    pub(crate) fn close(&self) -> bool {
        self.race.take();
        self.running.get() == 0
    }

    /// What the tables accept under a key of `key_bytes`; `None` without a session.
    pub(crate) fn size_limits(&self, key_bytes: usize) -> Option<SizeLimits> {
        self.race
            .borrow()
            .as_ref()
            .map(|race| race.size_limits(key_bytes))
    }

    /// Whether an operation has met something that only another session can mend.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Whether locks are held that no operation of this client will release: it must go, so that others may take them.
    pub(crate) fn has_left_locks(&self) -> bool {
        self.has_left_locks.get()
    }

    /// A lock was left behind.
    pub(crate) fn leave_locks(&self) {
        self.is_broken.set(true);
        self.has_left_locks.set(true);
    }

    /// Whether there is nothing left to repair at node `node`.
    pub(crate) fn set_repaired(&self, node: usize, is_repaired: bool) {
        let mut repaired = self.repaired.borrow_mut();
        let len = repaired.len().max(node + 1);
        repaired.resize(len, false);
        repaired[node] = is_repaired;
    }

    fn is_repaired(&self, node: usize) -> bool {
        self.repaired.borrow().get(node).copied().unwrap_or(false)
    }

    /// Something in the background has failed, perhaps since a connection has.
    pub(crate) fn note_failure(&self, error: &MemoryError) {
        if let MemoryError::Task(TaskError::Request(_)) = error {
            self.is_broken.set(true);
        }
    }

    /// Takes what an operation has found broken in the pool.
    pub(crate) fn take_corrupt(&self) -> Option<MemoryError> {
        self.corrupt.take()
    }
}

/// An operation under way.
struct Running<'a>(&'a Cell<usize>);

impl<'a> Running<'a> {
    fn begin(count: &'a Cell<usize>) -> Running<'a> {
        count.set(count.get() + 1);
        Running(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The operations of one thread.
pub struct RaceOps<P: Provider>(pub(crate) Rc<Access<P>>);

/// What to do about an error.
enum Verdict {
    Answer(Answer),
    /// Nothing has happened: execute it again, and refuse it so when its time is over.
    Again(Refusal),
}

impl<P: Provider> AsyncOps<P> for RaceOps<P> {
    async fn execute(&self, cx: &TaskCx<P>, op: &OwnedOp, deadline: Ns, value: &mut Vec<u8>) -> Answer {
        let access = &*self.0;
        // What has not ended at its deadline is reported as indeterminate, and this has had no effect.
        let last = Ns(deadline.0 - deadline.since(cx.now()).0 / LAST_PART);
        loop {
            let mut refusal = Refusal::Unavailable;
            let race = access.race.borrow().clone();
            if let Some(race) = race {
                let running = Running::begin(&access.running);
                let done = execute_in(&race, cx, &op.as_op(), value).await;
                if race.has_left_locks() {
                    access.leave_locks();
                }
                drop((running, race));
                let verdict = match done {
                    Ok(answer) => Verdict::Answer(answer),
                    Err(error) => self.judge(op, error),
                };
                match verdict {
                    Verdict::Answer(answer) => return answer,
                    Verdict::Again(why) => refusal = why,
                }
            }
            if cx.now() >= last {
                return Answer::Refused(refusal);
            }
            value.clear();
            cx.sleep(WAIT).await;
        }
    }
}

impl<P: Provider> RaceOps<P> {
    fn judge(&self, op: &OwnedOp, error: RaceError) -> Verdict {
        let refused = |refusal| Verdict::Answer(Answer::Refused(refusal));
        let again = Verdict::Again(Refusal::Unavailable);
        match error {
            RaceError::Indeterminate => {
                self.0.is_broken.set(true);
                match op.kind() {
                    OpKind::Get => again,
                    _ if self.0.mistake == Some(Mistake::RepeatsBlindly) => again,
                    _ => Verdict::Answer(Answer::Indeterminate),
                }
            }
            RaceError::TableFull => refused(Refusal::TableFull),
            RaceError::TooLarge => refused(Refusal::TooLarge),
            RaceError::Deadline => refused(Refusal::Unavailable),
            RaceError::Memory(MemoryError::Full { node } | MemoryError::Quota { node }) => {
                match self.0.is_repaired(node) {
                    true => refused(Refusal::Full),
                    // Memory of dead clients is about to be found.
                    false => Verdict::Again(Refusal::Full),
                }
            }
            // The lease may be renewed; if it is not, the node is lost.
            RaceError::Memory(MemoryError::LeaseOver { .. }) => again,
            // The thread has too little of something for a moment.
            RaceError::Memory(MemoryError::Task(TaskError::Stage(_))) => again,
            RaceError::Memory(MemoryError::NodeLost { node }) if !self.0.waits => {
                self.0.is_broken.set(true);
                refused(Refusal::NodeLost(node as u32))
            }
            RaceError::Memory(MemoryError::NodeLost { .. } | MemoryError::Task(_)) => {
                self.0.is_broken.set(true);
                again
            }
            RaceError::Memory(error) => {
                tracing::error!(%error, "a table of the pool is broken");
                self.0.corrupt.set(Some(error));
                refused(Refusal::Unavailable)
            }
            RaceError::NoTable { .. } => {
                self.0.is_broken.set(true);
                again
            }
        }
    }
}

/// Executes `op` in the tables of `race`, once. The value of a GET is appended to `value`, which other operations use for
/// values that they read.
///
/// # Errors
/// [`RaceError`] as the operation's own method has it, or the item is too large.
pub async fn execute_in<P: Provider>(
    race: &Race<P>,
    cx: &TaskCx<P>,
    op: &Op<'_>,
    value: &mut Vec<u8>,
) -> Result<Answer, RaceError> {
    match *op {
        Op::Get { key } | Op::GetItem { key } => Ok(match race.get(cx, key).await? {
            Some(found) => {
                value.extend_from_slice(found.value());
                Answer::Found {
                    version: found.version,
                    flags: found.flags,
                }
            }
            None => Answer::NotFound,
        }),
        Op::Put {
            key,
            value: new,
            ttl_s,
            flags,
            condition,
            keep,
        } => {
            if key.len() + new.len() > race.item_bytes_max() {
                return Err(RaceError::TooLarge);
            }
            let meta = ItemMeta {
                flags,
                expire_s: race.expire_s(cx, key, ttl_s),
            };
            let updated = match keep {
                true => race.put_keeping(cx, (key, new), meta, condition, value).await?,
                false => race.put_if(cx, key, new, meta, condition).await?,
            };
            Ok(answer(updated, Answer::Stored))
        }
        Op::Delete { key, condition } => {
            let updated = race.delete_if(cx, key, condition).await?;
            Ok(answer(updated, Answer::Deleted))
        }
        Op::Touch { key, ttl_s } => {
            let expire_s = race.expire_s(cx, key, ttl_s);
            let touched = race.touch(cx, key, expire_s, value).await?;
            Ok(if touched {
                Answer::Touched
            } else {
                Answer::NotFound
            })
        }
    }
}

fn answer(updated: Updated, done: Answer) -> Answer {
    match updated {
        Updated::Done => done,
        Updated::Missing => Answer::NotFound,
        Updated::Exists => Answer::Exists,
    }
}
