//! [`WaitQueue`]: operations that a client has accepted and that are not in flight, because there is no session yet, an
//! earlier operation on the same key is in flight, or the server asked to see them again.
//!
//! With skewed keys some operations wait all the time, so those that wait for nothing but their key cost little: they
//! are looked at only when an operation on that key has ended, and their memory is reused.

use drover_base::{KeyHash, Ns};
use drover_kv::{Op, OwnedOp, Refusal, Token};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Operations whose memory is kept for the next ones.
const SPARES_MAX: usize = 64;

/// When to look at the waiting operations again. Timers look in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Go {
    /// Not until something else happens.
    Nothing,
    /// As soon as a slot is free.
    WithASlot,
    /// Now.
    Now,
}

/// Waiting operations, in the order in which those on one key take effect.
#[derive(Debug)]
pub struct WaitQueue {
    queue: VecDeque<Waiting>,
    go: Go,
    spares: Vec<Waiting>,
    /// Refused before they were sent, and not reported yet.
    refused: Vec<(Token, Refusal)>,
}

impl WaitQueue {
    /// An empty queue.
    #[expect(
        clippy::new_without_default,
        reason = "there is one way to make it, with a name"
    )]
    pub fn new() -> WaitQueue {
        WaitQueue {
            queue: VecDeque::new(),
            go: Go::Nothing,
            spares: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Notes that an operation on a key has ended, and that its slot is free: [`may_go`](WaitQueue::may_go) becomes
    /// true if an operation on that key waits, or [one lacked a slot](WaitQueue::lacks_slot).
    #[inline(always)]
    pub fn ended(&mut self, hash: KeyHash) {
        if !self.queue.is_empty() {
            self.look_for(hash);
        }
    }

    #[inline(never)]
    fn look_for(&mut self, hash: KeyHash) {
        if self.go == Go::WithASlot || self.queue.iter().any(|waiting| waiting.hash == hash) {
            self.go = Go::Now;
        }
    }

    /// Whether [`ended`](WaitQueue::ended) has given a waiting operation reason to go since the last
    /// [`begin_look`](WaitQueue::begin_look). The passing of [`not_before`](Waiting::not_before) does not count.
    #[inline(always)]
    pub fn may_go(&self) -> bool {
        self.go == Go::Now
    }

    /// Begins a look at all operations: [`may_go`](WaitQueue::may_go) is false until [`ended`](WaitQueue::ended) gives
    /// one of them reason to go.
    pub fn begin_look(&mut self) {
        self.go = Go::Nothing;
    }

    /// Notes that an operation found no free slot, so that the next slot to become free is a reason to look.
    pub fn lacks_slot(&mut self) {
        self.go = Go::WithASlot;
    }

    /// Removes and returns the operation at `index`; [`next_refused`](WaitQueue::next_refused) reports it later.
    ///
    /// # Panics
    /// There is no such operation.
    pub fn refuse(&mut self, index: usize, refusal: Refusal) -> Waiting {
        let waiting = self.queue.remove(index).expect("an index within the queue");
        self.refused.push((waiting.token, refusal));
        waiting
    }

    /// Takes an operation that was refused and not reported yet, the latest first; `None`: there is none.
    pub fn next_refused(&mut self) -> Option<(Token, Refusal)> {
        self.refused.pop()
    }

    /// Adds an operation, which was accepted at `now`, at the end.
    pub fn push_new(&mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) {
        let waiting = self.own(op, hash, token, now);
        self.queue.push_back(waiting);
    }

    /// Copies an operation, which was accepted at `now`, to memory of an earlier one if there is some.
    pub fn own(&mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        match self.spares.pop() {
            Some(spare) => spare.again(op, hash, token, now),
            None => Waiting::new(op, hash, token, now),
        }
    }

    /// Keeps the memory of an operation for another one (up to 64).
    pub fn keep(&mut self, waiting: Waiting) {
        if self.spares.len() < SPARES_MAX {
            self.spares.push(waiting);
        }
    }

    /// Puts back an operation that was sent before: right behind the last one on its key with a smaller number
    /// ([`r`](Waiting::r)), or at the front if there is none.
    pub fn put_back(&mut self, waiting: Waiting) {
        let before = |other: &Waiting| other.hash == waiting.hash && other.r < waiting.r;
        let at = self.queue.iter().rposition(before).map_or(0, |last| last + 1);
        self.queue.insert(at, waiting);
    }

    /// Removes the operation at `index`, if there is one, and [keeps](WaitQueue::keep) its memory.
    pub fn recycle(&mut self, index: usize) {
        if let Some(waiting) = self.queue.remove(index) {
            self.keep(waiting);
        }
    }
}

impl Deref for WaitQueue {
    type Target = VecDeque<Waiting>;

    fn deref(&self) -> &VecDeque<Waiting> {
        &self.queue
    }
}

impl DerefMut for WaitQueue {
    fn deref_mut(&mut self) -> &mut VecDeque<Waiting> {
        &mut self.queue
    }
}

/// A waiting operation, with its own copy of key and value.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The token that the caller gave the operation at submission.
    pub token: Token,
    /// Hash of the key under the seed of the present session. Meaningless without a session: zero, or the hash in an
    /// earlier session.
    pub hash: KeyHash,
    /// The operation.
    pub op: OwnedOp,
    /// Time at which the operation was submitted.
    pub submitted: Ns,
    /// Earliest time to send the operation; later if something else holds it back.
    pub not_before: Ns,
    /// Number of its last request among the present session's requests to its partition, from 0; [`NEVER_SENT`] if
    /// there was none.
    pub r: u64,
}

/// The number of an operation that was not sent in the present session. It is the greatest: such an operation comes
/// after those that were sent, because nothing is sent while an earlier operation on its key waits.
pub const NEVER_SENT: u64 = u64::MAX;

impl Waiting {
    /// Copies an operation that was accepted at `now`.
    pub fn new(op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        Waiting {
            token,
            hash,
            op: OwnedOp::new(op),
            submitted: now,
            not_before: now,
            r: NEVER_SENT,
        }
    }

    /// Another operation in the same memory.
    fn again(mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        self.op.replace(op);
        Waiting {
            token,
            hash,
            op: self.op,
            submitted: now,
            not_before: now,
            r: NEVER_SENT,
        }
    }

    /// Whether the operation is an update: PUT or DELETE.
    pub fn is_write(&self) -> bool {
        self.op.kind().is_update()
    }

    /// Whether this operation conflicts with one on `hash`, an update if `write`: the same key, and not both read.
    pub fn conflicts_with(&self, hash: KeyHash, write: bool) -> bool {
        self.hash == hash && (write || self.is_write())
    }
}
