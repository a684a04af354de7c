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

/// Number of failed polls in a row after which a no-op enters `[HERD §4.2]`. A sweep counts as one poll per hot lane.
const NOP_AFTER_POLLS: usize = 100;
/// Number of intakes: for two stages and the request that enters.
pub(super) const STAGES: usize = 3;

/// An intake. Not its index, which would be compared with their number wherever it is used.
#[derive(Clone, Copy, Default)]
enum At {
    #[default]
    First,
    Second,
    Third,
}

impl At {
    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn next(self) -> At {
        match self {
            At::First => At::Second,
            At::Second => At::Third,
            At::Third => At::First,
        }
    }
}

/// State of the pipeline: which requests are in it.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Intake of the request that entered last, if it is not yet through stage 1.
    entered: Option<At>,
    /// Intake of the request that is through stage 1.
    staged: Option<At>,
    /// Intake of the next request.
    next: At,
    failed_polls: usize,
}

impl Pipeline {
    /// Index of the intake for the next request.
    pub(super) fn next_intake(&self) -> usize {
        self.next.index()
    }

    /// Whether requests are in the pipeline.
    fn is_busy(&self) -> bool {
        self.entered.is_some() || self.staged.is_some()
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Makes one sweep, for one request, which enters. If there is none, enters a no-op after enough failed polls, or
    /// with `drain` finishes all requests in the pipeline. Returns whether a request entered, `drain` finished some, or
    /// some are still in the pipeline.
    #[inline(always)]
    pub(super) fn pipeline(&mut self, cpu: &P::Cpu, drain: bool) -> bool {
        let at = self.pipeline.next;
        if self.intakes[at.index()].requests.is_empty() {
            self.sweep(cpu, at.index());
        }
        if self.intakes[at.index()].requests.is_empty() {
            self.receive_datagrams(cpu, at.index());
        }
        match self.intakes[at.index()].requests.is_empty() {
            true => self.pipeline_idle(cpu, drain),
            false => {
                self.pipeline.failed_polls = 0;
                self.advance_pipeline(cpu, Some(at));
                self.pipeline.next = at.next();
                self.intakes[at.next().index()].requests.clear();
                true
            }
        }
    }

    /// As [`pipeline`](Worker::pipeline), out of line.
    #[inline(never)]
    pub(super) fn pipeline_once(&mut self, cpu: &P::Cpu, drain: bool) -> bool {
        self.pipeline(cpu, drain)
    }

    /// What [`pipeline`](Worker::pipeline) does after a sweep that found nothing.
    #[inline(never)]
    fn pipeline_idle(&mut self, cpu: &P::Cpu, drain: bool) -> bool {
        self.pipeline.failed_polls += self.clients.hot.max(1);
        if self.variant.makes(Mistake::NoNop) {
            return false;
        }
        if drain {
            return self.drain_pipeline(cpu);
        }
        if self.pipeline.failed_polls >= NOP_AFTER_POLLS {
            self.pipeline.failed_polls = 0;
            self.advance_by_nop(cpu);
        }
        self.pipeline.is_busy()
    }

    /// Finishes all requests in the pipeline. Returns whether there were any.
    pub(super) fn drain_pipeline(&mut self, cpu: &P::Cpu) -> bool {
        let busy = self.pipeline.is_busy();
        while self.pipeline.is_busy() {
            self.advance_by_nop(cpu);
        }
        busy
    }

    #[inline(never)]
    fn advance_by_nop(&mut self, cpu: &P::Cpu) {
        self.advance_pipeline(cpu, None);
    }

    /// Moves the requests in the pipeline on by a stage; the request in intake `entering` enters, or a no-op for
    /// `None`.
    #[inline(always)]
    fn advance_pipeline(&mut self, cpu: &P::Cpu, entering: Option<At>) {
        cpu.charge(ADVANCE.cost, 1);
        if self.variant.makes(Mistake::NewerFirst) {
            // What [H14] amounts to for a PUT behind a GET: its stage 1 does everything.
            let intakes = &self.intakes;
            let is_put = |at: &mut At| {
                let first = intakes[at.index()].requests.all().first();
                first.is_some_and(|request| request.about.act() == Act::Do(SlotOp::Put))
            };
            if let Some(at) = self.pipeline.entered.take_if(is_put) {
                self.execute_all(cpu, at.index());
            }
        }
        if let Some(at) = self.pipeline.staged {
            self.execute_only(cpu, at.index());
        }
        self.post_unless_held(cpu);
        if let Some(at) = self.pipeline.entered {
            self.prefetch_only(cpu, at.index());
        }
        self.pipeline.staged = self.pipeline.entered;
        self.pipeline.entered = entering;
    }
}
