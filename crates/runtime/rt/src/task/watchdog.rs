//! The watch for syncs that do not end: a lost completion must cost an operation, not hang its task for ever.

use super::core::Core;
use super::error::Failure;
use super::requests::{NONE, Stage};
use drover_verbs::Provider;

impl<P: Provider> Core<P> {
    /// Fails syncs and detached requests that were submitted longer than the pool's patience ago, and logs them.
    pub(super) fn end_stuck(&mut self) {
        let patience = self.limits.patience;
        if self.in_flight.sync_count == 0 && self.in_flight.detached_count == 0 {
            return;
        }
        for slot in 0..self.in_flight.requests.slot_count() {
            let request = self.in_flight.requests.slot(slot);
            let waits = matches!(request.stage, Stage::Queued | Stage::Posted | Stage::Done(_));
            let (detached, sync, task) = (request.head == NONE, request.sync, request.owner.task);
            let is_late = self.now.since(sync.since) >= patience;
            if !waits || request.is_abandoned || !is_late || !(detached || request.head == slot) {
                continue;
            }
            if detached {
                self.log_stuck(slot);
                self.in_flight.end_detached(slot, Err(Failure::TimedOut));
                self.abandon(slot);
            } else if sync.pending > 0 && !sync.timed_out {
                self.log_stuck(slot);
                self.in_flight.requests.slot_mut(slot).sync.timed_out = true;
                self.in_flight.make_ready(task);
            }
        }
    }

    fn abandon(&mut self, slot: u32) {
        let requests = &mut self.in_flight.requests;
        let request = requests.slot_mut(slot);
        request.is_abandoned = true;
        if request.stage == Stage::Queued {
            requests.abandoned_queued += 1;
        }
    }

    #[cold]
    fn log_stuck(&mut self, slot: u32) {
        self.stats.timed_out += 1;
        let request = self.in_flight.requests.slot(slot);
        let peer = &self.peers[request.peer.index()];
        tracing::warn!(
            task = request.owner.task,
            peer = request.peer.0,
            operation = request.wr.op.verb(),
            stage = request.stage.name(),
            requests_pending = request.sync.pending,
            waited = %self.now.since(request.sync.since),
            queue_outstanding = peer.outstanding_count(),
            queue_waiting = peer.waiting_count(),
            credits_taken = self.credits.taken(),
            credits_max = self.credits.ceiling(),
            conflict_slots = self.races.slots.inside,
            "requests of a task do not end: its operation fails"
        );
    }
}
