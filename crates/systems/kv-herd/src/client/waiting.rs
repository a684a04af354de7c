//! Operations that wait in the client, and when they are sent: see [`WaitQueue`](drover_slots::client::WaitQueue).

use super::submit::Placed;
use super::{HerdClient, RequestFormat, Sink};
use drover_base::{Cpu, KeyHash, Ns};
use drover_kv::{Op, Outcome, Refusal, SubmitError, Token};
use drover_slots::client::Before;
use drover_verbs::Provider;

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Queues an operation that cannot be posted: there is no session, or its format cannot express it, so that it will
    /// be refused.
    ///
    /// # Errors
    /// The client is closed, or too many operations wait.
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

    /// Queues an operation that must wait for an earlier one on its key.
    ///
    /// # Errors
    /// The client is closed, or too many operations wait.
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
        self.conflicts.add(hash, op.kind().is_update());
        self.tally.began();
        Ok(())
    }

    /// Posts the waiting operations that nothing holds back, in their order.
    #[cold]
    pub(super) fn pump(&mut self, cpu: &P::Cpu) {
        let now = cpu.now();
        let mut index = 0;
        self.waiting.begin_look();
        while self.open && index < self.waiting.len() {
            if self.is_held_back(index, now) {
                index += 1;
            } else if !self.post_waiting(index, now) {
                self.waiting.lacks_slot();
                index += 1;
            } else if let Some(session) = self.session.as_deref_mut()
                && session.sends.is_batch()
            {
                // A longer list may not fit the queue, and what does not fit is lost.
                session.flush(cpu);
            }
        }
        if let Some(session) = self.session.as_deref_mut() {
            session.flush(cpu);
        }
    }

    /// Completes the waiting operations that were refused.
    #[cold]
    pub(super) fn say_refused(&mut self, sink: Sink<'_>) {
        while let Some((token, refusal)) = self.waiting.next_refused() {
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
                // Never with a condition: it may be waiting because the server refused it for one.
                let most = match session.fits(&this.op.as_op()) {
                    true => Before::Writes,
                    false => Before::Nothing,
                };
                session.before(this.hash, write) > most
            })
    }

    /// Posts the waiting operation at `index`, begins its bulk transfer or refuses it. Returns false if it stays in the
    /// queue because there is no free slot.
    fn post_waiting(&mut self, index: usize, now: Ns) -> bool {
        let Some(session) = self.session.as_deref_mut() else {
            return false;
        };
        let waiting = &self.waiting[index];
        if session.cannot_say(&waiting.op.as_op()) {
            let waiting = self.waiting.refuse(index, Refusal::BadRequest);
            self.conflicts.remove(waiting.hash, waiting.is_write());
            return true;
        }
        match Self::place(
            session,
            &waiting.op.as_op(),
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
                let len = waiting.op.value().len();
                if (1..=session.params.item_bytes_max).contains(&len) && !self.bulk.are_refused() {
                    let waiting = self.waiting.remove(index).expect("index is inside");
                    self.begin_bulk(waiting, len);
                } else {
                    let waiting = self.waiting.refuse(index, Refusal::TooLarge);
                    self.conflicts.remove(waiting.hash, waiting.is_write());
                }
                true
            }
        }
    }
}
