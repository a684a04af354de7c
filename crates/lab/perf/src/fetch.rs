//! [`Fetcher`]: latency of one-sided fetches (READ, CAS, FAA), from the post to the polled completion.

use crate::goal::Laps;
use crate::lane::check;
use crate::{End, IDLE, Outcome, PerfError};
use drover_base::{Actor, Cpu, Progress};
use drover_verbs::{CompletionQueue, MemoryRegion, Provider, QueuePair, SendList, SendOp, SendWr, Wc, WrId};

/// Actor that measures the latency of READs or atomics: posts one signaled request at a time, and measures the time
/// until its completion is polled.
pub struct Fetcher<P: Provider> {
    end: End<P>,
    /// The request, reused for every iteration.
    list: SendList,
    laps: Laps,
    outcome: Outcome,
}

impl<P: Provider> Fetcher<P> {
    /// Creates a fetcher that posts requests of `bytes` bytes (up to the plan's largest size; atomics: 8) on `end`,
    /// which must be connected. After the last iteration it stores its result in `outcome`.
    ///
    /// # Panics
    /// If `end` is not connected.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Fetcher<P> {
        let mut list = SendList::with_capacity(1, 0);
        list.push(
            SendWr::new(fetching(&end, bytes), end.mr.sge(end.outgoing(bytes), bytes)).signaled(WrId(1)),
        );
        Fetcher {
            laps: Laps::new(&end.plan),
            end,
            list,
            outcome,
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        self.end
    }

    #[inline]
    fn completed(&mut self, cpu: &P::Cpu) -> Result<bool, PerfError> {
        let mut wcs = [Wc::default(); 1];
        let got = self.end.send_cq.poll(cpu, &mut wcs);
        check(&wcs[..got])?;
        Ok(got > 0)
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if self.laps.is_begun() && !self.completed(cpu)? {
            return Ok(IDLE);
        }
        if let Some(found) = self.laps.lap(cpu.refresh()) {
            self.outcome.leave(Ok(found));
            return Ok(IDLE);
        }
        self.end.qp.post_send(cpu, &self.list)?;
        Ok(Progress::Busy)
    }
}

/// The READ or atomic of `bytes` to post.
pub(crate) fn fetching<P: Provider>(end: &End<P>, bytes: usize) -> SendOp {
    use crate::{Atomic, Verb};
    let remote = end
        .remote
        .expect("connected before it measures")
        .at(end.landing(bytes));
    match (end.plan.op.verb, end.plan.atomic) {
        (Verb::Atomic, Atomic::FetchAdd) => SendOp::FetchAdd { remote, add: 1 },
        // It fails whenever the word is not 0, at the same cost.
        (Verb::Atomic, Atomic::CompareSwap) => SendOp::CompareSwap {
            remote,
            compare: 0,
            swap: 1,
        },
        _ => SendOp::Read { remote },
    }
}

impl<P: Provider> Actor<P::Cpu> for Fetcher<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.outcome.is_done() {
            return IDLE;
        }
        let turn = self.turn(cpu);
        self.outcome.after(turn)
    }
}
