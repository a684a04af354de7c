//! [`Waiting`]: operations that are accepted and not on their way: there is no session yet, an earlier
//! operation on the same key is under way, or the server asked to see them again.
//!
//! With skewed keys some wait all the time, so those that have nothing to wait for but their key cost little: they are
//! looked at when an operation on that key has ended and not before, and their memory is used again.

use super::submit::{Placed, is_write};
use super::{HerdClient, RequestFormat, Sink};
use drover_base::{Cpu, KeyHash, Ns};
use drover_kv::{Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_slots::client::Before;
use drover_verbs::Provider;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Operations whose memory is kept for the next ones.
const SPARES_MAX: usize = 64;

/// When it makes sense to look at what waits. Timers look anyway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Go {
    /// Not before something else happens.
    Nothing,
    /// As soon as a slot is free.
    WithASlot,
    /// Now.
    Now,
}

/// Operations that wait, in their order.
#[derive(Debug)]
pub(super) struct Queue {
    queue: VecDeque<Waiting>,
    go: Go,
    spares: Vec<Waiting>,
    /// Refused before they were sent, and not told so yet.
    refused: Vec<(Token, Refusal)>,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            queue: VecDeque::new(),
            go: Go::Nothing,
            spares: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// An operation on a key has ended, and its slot is free.
    #[inline(always)]
    pub(super) fn ended(&mut self, hash: KeyHash) {
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

    /// Whether what some wait for has happened since they were looked at.
    #[inline(always)]
    pub(super) fn may_go(&self) -> bool {
        self.go == Go::Now
    }

    /// Adds an operation at the end.
    fn push_new(&mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) {
        let waiting = match self.spares.pop() {
            Some(spare) => spare.again(op, hash, token, now),
            None => Waiting::new(op, hash, token, now),
        };
        self.queue.push_back(waiting);
    }

    /// Adds an operation that was on its way already: before those that were not, among the others by number.
    pub(super) fn put_back(&mut self, waiting: Waiting) {
        let before = |other: &Waiting| other.hash == waiting.hash && other.r < waiting.r;
        let at = self.queue.iter().rposition(before).map_or(0, |last| last + 1);
        self.queue.insert(at, waiting);
    }

    /// Takes the operation at `index` out, which is done with.
    fn recycle(&mut self, index: usize) {
        if let Some(waiting) = self.queue.remove(index)
            && self.spares.len() < SPARES_MAX
        {
            self.spares.push(waiting);
        }
    }
}

impl Deref for Queue {
    type Target = VecDeque<Waiting>;

    fn deref(&self) -> &VecDeque<Waiting> {
        &self.queue
    }
}

impl DerefMut for Queue {
    fn deref_mut(&mut self) -> &mut VecDeque<Waiting> {
        &mut self.queue
    }
}

/// An operation with its own copy of key and value.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    pub(super) hash: KeyHash,
    pub(super) kind: OpKind,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) ttl_s: u32,
    pub(super) submitted: Ns,
    /// Not to be sent earlier.
    pub(super) not_before: Ns,
    /// The number in its lane that it had in this session, or [`NEVER_SENT`].
    pub(super) r: u64,
}

/// What waits and has never been sent comes after what was: nothing is sent while something on its key waits.
pub(super) const NEVER_SENT: u64 = u64::MAX;

impl Waiting {
    pub(super) fn new(op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        let empty = Waiting {
            token,
            hash,
            kind: op.kind(),
            key: Vec::new(),
            value: Vec::new(),
            ttl_s: 0,
            submitted: now,
            not_before: now,
            r: NEVER_SENT,
        };
        empty.again(op, hash, token, now)
    }

    /// Another operation in the same memory.
    fn again(self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        let (from, ttl_s) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            Op::Get { .. } | Op::Delete { .. } => (&[][..], 0),
        };
        let (mut key, mut value) = (self.key, self.value);
        key.clear();
        key.extend_from_slice(op.key());
        value.clear();
        value.extend_from_slice(from);
        Waiting {
            token,
            hash,
            kind: op.kind(),
            key,
            value,
            ttl_s,
            submitted: now,
            not_before: now,
            r: NEVER_SENT,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        self.kind != OpKind::Get
    }

    /// Whether it has to wait for an operation on `hash` that is a `write` or not.
    pub(super) fn conflicts_with(&self, hash: KeyHash, write: bool) -> bool {
        self.hash == hash && (write || self.is_write())
    }

    pub(super) fn as_op(&self) -> Op<'_> {
        let key = &*self.key;
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

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// An operation that cannot simply be posted: there is no session, or it must be refused.
    #[cold]
    pub(super) fn submit_unpostable(
        &mut self,
        op: &Op<'_>,
        hash: KeyHash,
        token: Token,
        now: Ns,
    ) -> Result<(), SubmitError> {
        self.timers.hurry();
        self.enqueue(op, hash, token, now)
    }

    /// An operation that waits for one on its key.
    #[cold]
    pub(super) fn submit_behind_conflict(
        &mut self,
        op: &Op<'_>,
        hash: KeyHash,
        token: Token,
        now: Ns,
    ) -> Result<(), SubmitError> {
        self.stats.conflicts += 1;
        self.enqueue(op, hash, token, now)
    }

    fn enqueue(&mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Result<(), SubmitError> {
        if self.connection.is_closed() {
            return Err(SubmitError::Closed);
        }
        if self.waiting.len() >= self.options.waiting_max {
            return Err(SubmitError::WindowFull);
        }
        self.waiting.push_new(op, hash, token, now);
        self.conflicts.add(hash, is_write(op));
        self.tally.began();
        Ok(())
    }

    /// Posts operations that waited, in their order, as far as nothing holds them back.
    #[cold]
    pub(super) fn pump(&mut self, cpu: &P::Cpu) {
        let now = cpu.now();
        let mut index = 0;
        self.waiting.go = Go::Nothing;
        while self.open && index < self.waiting.len() {
            if self.is_held_back(index, now) {
                index += 1;
            } else if !self.post_waiting(index, now) {
                self.waiting.go = Go::WithASlot;
                index += 1;
            }
        }
        if let Some(session) = self.session.as_deref_mut() {
            session.flush(cpu);
        }
    }

    /// Completes what was refused before it was sent.
    #[cold]
    pub(super) fn say_refused(&mut self, sink: Sink<'_>) {
        while let Some((token, refusal)) = self.waiting.refused.pop() {
            self.complete(token, Outcome::Refused(refusal), sink);
        }
    }

    /// Whether the operation at `index` has to wait for one before it.
    fn is_held_back(&self, index: usize, now: Ns) -> bool {
        let this = &self.waiting[index];
        let write = this.is_write();
        this.not_before > now
            || self
                .waiting
                .iter()
                .take(index)
                .any(|w| w.conflicts_with(this.hash, write))
            || self.conflicts_with_bulk(this.hash, write)
            || self.session.as_ref().is_some_and(|session| {
                // Never under a condition: it may have been refused for one.
                let most = match session.fits(&this.key, &this.value, this.ttl_s) {
                    true => Before::Writes,
                    false => Before::Nothing,
                };
                session.before(this.hash, write) > most
            })
    }

    /// Posts the operation at `index`; false if it stays where it is.
    fn post_waiting(&mut self, index: usize, now: Ns) -> bool {
        let Some(session) = self.session.as_deref_mut() else {
            return false;
        };
        let waiting = &self.waiting[index];
        if session.cannot_say(&waiting.as_op()) {
            let waiting = self.waiting.remove(index).expect("index is inside");
            self.conflicts.remove(waiting.hash, waiting.is_write());
            self.waiting.refused.push((waiting.token, Refusal::BadRequest));
            return true;
        }
        match Self::place(
            session,
            &waiting.as_op(),
            Before::Writes,
            waiting.hash,
            waiting.token,
            waiting.submitted,
            now,
        ) {
            Placed::NoSlot => false,
            Placed::Posted => {
                self.waiting.recycle(index);
                true
            }
            Placed::TooLong => {
                let waiting = self.waiting.remove(index).expect("index is inside");
                if waiting.value.len() > session.params.item_bytes_max
                    || waiting.value.is_empty()
                    || self.bulk.are_refused()
                {
                    self.conflicts.remove(waiting.hash, waiting.is_write());
                    self.waiting.refused.push((waiting.token, Refusal::TooLarge));
                } else {
                    self.begin_bulk(waiting, None);
                }
                true
            }
        }
    }
}
