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

use super::intake::{Act, Request};
use super::options::Flaw;
use super::worker::Worker;
use crate::layout::SlotOp;
use drover_verbs::Provider;

/// Failed polls that count as a request `[HERD §4.2]`.
const NOP_AFTER_POLLS: usize = 100;
/// Two stages and the request that enters.
pub(super) const STAGES: usize = 3;

/// What is under way.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Entered last and not yet through stage 1; its intake.
    entered: Option<(usize, Request)>,
    /// Through stage 1.
    staged: Option<(usize, Request)>,
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

impl<P: Provider> Worker<P> {
    /// Sweeps until one request has entered. Returns whether there is more to do.
    pub(super) fn pipeline(&mut self, cpu: &P::Cpu, drain: bool) -> bool {
        let at = self.pipeline.next;
        if self.intakes[at].requests.is_empty() {
            self.sweep(cpu, at);
        }
        if self.intakes[at].requests.is_empty() {
            self.receive_datagrams(cpu, at);
        }
        if let Some(&request) = self.intakes[at].requests.first() {
            self.pipeline.failed_polls = 0;
            self.pipeline.next = (at + 1) % STAGES;
            self.intakes[self.pipeline.next].clear();
            self.advance_pipeline(cpu, Some((at, request)));
            return true;
        }
        self.pipeline.failed_polls += self.clients.hot.max(1);
        if self.options.flaw == Some(Flaw::NoNop) {
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
    fn advance_pipeline(&mut self, cpu: &P::Cpu, entering: Option<(usize, Request)>) {
        if self.options.flaw == Some(Flaw::NewerFirst) {
            // What [H14] amounts to for a PUT behind a GET: its stage 1 does everything.
            let is_put = |entered: &mut (usize, Request)| entered.1.act == Act::Do(SlotOp::Put);
            if let Some((at, request)) = self.pipeline.entered.take_if(is_put) {
                self.execute(cpu, at, &request);
            }
        }
        if let Some((at, request)) = self.pipeline.staged.take() {
            self.execute(cpu, at, &request);
        }
        self.replies.post(cpu, &mut self.counters);
        if let Some((at, request)) = self.pipeline.entered.take() {
            self.partition.prefetch_item(cpu, request.hash);
            self.pipeline.staged = Some((at, request));
        }
        self.pipeline.entered = entering;
    }
}
