//! What happens to requests that get no reply: retransmission, quarantine, resynchronisation, deadlines.

use super::{HerdClient, RequestFormat, Sink};
use crate::control::{Message, Resync, Resynced};
use crate::layout::{SlotOp, Status, paper};
use drover_base::Ns;
use drover_kv::{Outcome, OwnedOp, Refusal};
use drover_slots::client::{Due, SlotPhase, Waiting, outcome_of_update, request};
use drover_verbs::Provider;

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Checks every slot and every waiting operation for timeouts. Costs a few ns per slot; called once per
    /// [`TICK`](drover_slots::client::TICK), so that no operation needs a timer of its own.
    pub(super) fn look_at_timers(&mut self, now: Ns, sink: Sink<'_>) {
        let slot_count = match &self.session {
            Some(session) if session.window.busy_count() > 0 => session.window.slots().len(),
            _ => 0,
        };
        let absence = self.timers.absence();
        if let Some(session) = self.session.as_deref_mut().filter(|_| absence > Ns::ZERO) {
            session.window.skip(absence, now);
        }
        for at in 0..slot_count {
            match self.due(at, now) {
                Due::Nothing => {}
                Due::Resend => self.resend(at, now),
                Due::GiveUp => {
                    self.timers.rto_mut().gave_up();
                    self.quarantine(at);
                }
                Due::Expired => self.expire(at, sink),
            }
        }
        self.expire_waiting(now, sink);
    }

    fn due(&self, at: usize, now: Ns) -> Due {
        let Some(session) = &self.session else {
            return Due::Nothing;
        };
        // The paper's requests cannot be sent twice: the server could not tell, and would execute both.
        let can_resend = !session.params.format.is_paper();
        // Where requests take their turn, one that was overtaken is lost.
        let patience = match session.params.keeps_order && session.window.is_overtaken(at) {
            true => Ns::ZERO,
            false => session.params.patience,
        };
        let slot = session.window.slot(at);
        slot.due(
            now,
            self.options.deadline,
            self.timers.rto(),
            patience,
            can_resend,
        )
    }

    /// Stages the request of a slot again, with the next attempt number in its commit word.
    fn resend(&mut self, at: usize, now: Ns) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot_mut(at);
        slot.tries += 1;
        slot.sent = now;
        let (commit, len) = (
            slot.commit.with_attempt(u32::from(slot.tries)),
            usize::from(slot.len),
        );
        let block = session.sends.block_mut(at);
        let end = block.len();
        block[end - 8..].copy_from_slice(&commit.0.to_le_bytes());
        session.stage(at, len);
        self.stats.retransmits += 1;
    }

    /// Gives up the request in slot `at` and asks the server about it. Before that, where requests keep their order,
    /// does the same with conflicting requests posted behind it, the last first, so that none of them takes effect
    /// before one that is sent anew.
    pub(super) fn quarantine(&mut self, at: usize) {
        while let Some(behind) = self.last_behind(at) {
            self.quarantine_one(behind);
        }
        self.quarantine_one(at);
    }

    /// Slot of the last request that was posted behind the one in slot `at` to the same partition, conflicts with it
    /// and is not given up. `None` if there is none, or requests do not keep their order.
    fn last_behind(&self, at: usize) -> Option<usize> {
        let session = self
            .session
            .as_deref()
            .filter(|session| session.params.keeps_order)?;
        session.window.last_behind(at)
    }

    /// Gives up the request in slot `at` and asks the server what became of it. The slot is not used before the answer,
    /// because the server may still be copying the old body.
    fn quarantine_one(&mut self, at: usize) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        session.window.slot_mut(at).phase = SlotPhase::Quarantined;
        let (partition, index) = session.window.place(at);
        let message = Message::Resync(Resync {
            partition: partition as u16,
            slot: index as u16,
            seq: session.window.slot(at).commit.seq(),
            r: session.window.first_open_r(partition),
        });
        self.stats.resyncs += 1;
        self.ask(&message);
    }

    /// Handles the server's answer about a request that was given up: completes the operation or sends it anew.
    pub(super) fn resynced(&mut self, answer: &Resynced, now: Ns, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref() else {
            return;
        };
        let map = session.window.map();
        let (partition, index) = (usize::from(answer.partition), usize::from(answer.slot));
        let at = partition * map.window + index;
        let known = partition < map.partition_count && index < map.window && {
            let slot = session.window.slot(at);
            matches!(slot.phase, SlotPhase::Quarantined | SlotPhase::Ghost) && slot.commit.seq() == answer.seq
        };
        if !known {
            self.stats.garbage += 1;
            return;
        }
        let slot = session.window.slot(at).clone();
        let write = slot.commit.is_update();
        let status = Status::from_bits(u32::from(answer.status));
        match (slot.phase, status) {
            (SlotPhase::Ghost, _) => self.finish_slot(at, Outcome::Indeterminate, sink),
            (_, Some(Status::Retry | Status::WrongPartition | Status::Elsewhere)) => self.again(at, now),
            _ if write && answer.executed => {
                self.finish_slot(at, outcome_of_update(slot.commit.op(), status), sink)
            }
            _ if write && slot.forgotten => self.finish_slot(at, Outcome::Indeterminate, sink),
            _ => self.again(at, now),
        }
    }

    /// Frees slot `at`, whose operation did not happen, or is a GET; the operation waits to be sent anew as a new
    /// request, not before `not_before`.
    pub(super) fn again(&mut self, at: usize, not_before: Ns) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        self.stats.resubmits += 1;
        self.timers.hurry();
        let slot = session.window.slot(at).clone();
        session.window.release(at);
        if slot.commit.op().is_some_and(SlotOp::is_bulk) {
            return self.bulk_again(slot.token as usize);
        }
        if let Some(mut waiting) = self.copy_out(at) {
            waiting.not_before = not_before;
            self.waiting.put_back(waiting);
        }
    }

    /// The operation whose request is in slot `at`, with its own copy of key and value; `None` for a NOP or bulk
    /// request. In format P the key comes from the copy before the request, which contains only its hash.
    pub(super) fn copy_out(&self, at: usize) -> Option<Waiting> {
        let session = self.session.as_deref()?;
        let slot = session.window.slot(at);
        let op = match session.params.format.is_paper() {
            true => paper::parse(session.sends.block(at), slot.commit),
            false => request::parse(session.sends.block(at), slot.commit),
        }?;
        Some(Waiting {
            token: slot.token,
            hash: slot.hash,
            op: OwnedOp::new(&op),
            submitted: slot.submitted,
            not_before: Ns::ZERO,
            r: session.window.r_of(at),
        })
    }

    /// Completes the operation in slot `at`, whose deadline has passed. The slot stays in use until the server has
    /// answered what became of the request.
    fn expire(&mut self, at: usize, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        if slot.phase == SlotPhase::Posted {
            self.quarantine(at);
        }
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        session.window.slot_mut(at).phase = SlotPhase::Ghost;
        let outcome = match slot.commit.is_update() {
            true => Outcome::Indeterminate,
            false => Outcome::Refused(Refusal::Unavailable),
        };
        if slot.commit.op().is_some_and(SlotOp::is_bulk) {
            return self.expire_bulk(slot.token as usize, outcome, sink);
        }
        self.complete(slot.token, outcome, sink);
    }

    fn expire_waiting(&mut self, now: Ns, sink: Sink<'_>) {
        let mut index = 0;
        while index < self.waiting.len() {
            if now.since(self.waiting[index].submitted) < self.options.deadline {
                index += 1;
            } else if let Some(waiting) = self.waiting.remove(index) {
                self.conflicts.remove(waiting.hash, waiting.is_write());
                self.complete(waiting.token, Outcome::Refused(Refusal::Unavailable), sink);
            }
        }
    }
}
