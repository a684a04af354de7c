//! Pipeline mode: the paper's two stages, for reproducing it `[HERD §4.2]`.
//!
//! ```text
//! a request arrives    ask for its bucket, it enters
//! one more arrives     stage 1 of the first: look at the bucket, ask for the item
//! one more arrives     stage 2 of the first: execute, post its reply
//! ```
//! Without new requests nothing would move, and a client that waits for its reply would wait for ever: so 100
//! failed polls in a row count as a request (a no-op), and a whole sweep without a find drains all *(our
//! choice: the paper's no-ops alone cost a lone request up to 200 polls)*. The older request's stage 2 runs before
//! the newer one's stage 1, so one client's requests execute in order; `[H14]` has it the other way round.

use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::costs::ADVANCE;
use crate::layout::SlotOp;
use drover_base::Cpu;
use drover_slots::server::Act;
use drover_verbs::Provider;

/// Failed polls that count as a request `[HERD §4.2]`.
const NOP_AFTER_POLLS: usize = 100;
/// Two stages and the request that enters.
pub(super) const STAGES: usize = 3;

/// What is under way.
#[derive(Default)]
pub(super) struct Pipeline {
    /// The intake of the request that entered last and is not yet through stage 1.
    entered: Option<usize>,
    /// The intake of the one that is through stage 1.
    staged: Option<usize>,
    /// The intake that the next request goes to.
    next: usize,
    failed_polls: usize,
}

impl Pipeline {
    /// The intake that the next request goes to.
    pub(super) fn next_intake(&self) -> usize {
        self.next
    }

    /// Something is under way.
    fn is_busy(&self) -> bool {
        self.entered.is_some() || self.staged.is_some()
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Sweeps until one request has entered. Returns whether there is more to do.
    pub(super) fn pipeline(&mut self, cpu: &P::Cpu, drain: bool) -> bool {
        let at = self.pipeline.next;
        if self.intakes[at].is_empty() {
            self.sweep(cpu, at);
        }
        if self.intakes[at].is_empty() {
            self.receive_datagrams(cpu, at);
        }
        if !self.intakes[at].is_empty() {
            self.pipeline.failed_polls = 0;
            self.advance_pipeline(cpu, Some(at));
            self.pipeline.next = (at + 1) % STAGES;
            self.intakes[self.pipeline.next].clear();
            return true;
        }
        self.pipeline.failed_polls += self.clients.hot.max(1);
        if self.variant.makes(Mistake::NoNop) {
            return false;
        }
        if drain {
            return self.drain_pipeline(cpu);
        }
        if self.pipeline.failed_polls >= NOP_AFTER_POLLS {
            self.pipeline.failed_polls = 0;
            self.advance_pipeline(cpu, None);
        }
        self.pipeline.is_busy()
    }

    /// Everything that is under way, to its end. Returns whether there was something.
    pub(super) fn drain_pipeline(&mut self, cpu: &P::Cpu) -> bool {
        let busy = self.pipeline.is_busy();
        while self.pipeline.is_busy() {
            self.advance_pipeline(cpu, None);
        }
        busy
    }

    /// One request (or a no-op) enters; the others move on by a stage.
    fn advance_pipeline(&mut self, cpu: &P::Cpu, entering: Option<usize>) {
        cpu.charge(ADVANCE.cost, 1);
        if self.variant.makes(Mistake::NewerFirst) {
            // What [H14] amounts to for a PUT behind a GET: its stage 1 does everything.
            let intakes = &self.intakes;
            let is_put = |at: &mut usize| {
                let first = intakes[*at].requests().first();
                first.is_some_and(|request| request.about.act == Act::Do(SlotOp::Put))
            };
            if let Some(at) = self.pipeline.entered.take_if(is_put) {
                self.execute_all(cpu, at);
            }
        }
        if let Some(at) = self.pipeline.staged.take() {
            self.execute_all(cpu, at);
        }
        self.replies.post(cpu, &mut self.counters);
        if let Some(at) = self.pipeline.entered.take() {
            self.prefetch_items(cpu, at);
            self.pipeline.staged = Some(at);
        }
        self.pipeline.entered = entering;
    }
}
