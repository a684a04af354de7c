//! [`Fetcher`]: latency of what the initiator does alone: READ, CAS, FAA, from the post to the polled completion.

use crate::lane::check;
use crate::pingpong::{Goal, IDLE};
use crate::{End, Found, Outcome, PerfError};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_bench::Latency;
use drover_verbs::{
    CompletionQueue, MemoryRegion, Payload, Provider, QueuePair, SendList, SendOp, SendWr, Wc, WrId,
};

/// One request at a time.
pub struct Fetcher<P: Provider> {
    end: End<P>,
    /// The same every time.
    list: SendList,
    goal: Goal,
    latency: Latency,
    since: Option<Ns>,
    outcome: Outcome,
}

impl<P: Provider> Fetcher<P> {
    /// Measures requests of `bytes` through a connected end.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Fetcher<P> {
        let mut list = SendList::with_capacity(1, 0);
        list.push(SendWr {
            wr_id: WrId(1),
            op: fetching(&end, bytes),
            payload: Payload::Region(end.mr.sge(end.outgoing(bytes), bytes)),
            signaled: true,
            fence: false,
        });
        Fetcher {
            goal: Goal::new(&end.plan),
            end,
            list,
            latency: Latency::new(),
            since: None,
            outcome,
        }
    }

    /// The end, to measure something else.
    pub fn into_end(self) -> End<P> {
        self.end
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if let Some(since) = self.since {
            let mut wcs = [Wc::default(); 1];
            if self.end.send_cq.poll(cpu, &mut wcs) == 0 {
                return Ok(IDLE);
            }
            check(&wcs)?;
            let now = cpu.refresh();
            if self.goal.count(now) {
                self.latency.record(now.since(since).0);
            }
            if self.goal.is_reached(now) {
                self.outcome.leave(Ok(Found::Latency(self.latency.clone())));
                return Ok(IDLE);
            }
            self.since = Some(now);
        } else {
            self.since = Some(cpu.refresh());
        }
        self.end.qp.post_send(cpu, &self.list)?;
        Ok(Progress::Busy)
    }
}

/// What READs and atomics of `bytes` ask for.
pub(crate) fn fetching<P: Provider>(end: &End<P>, bytes: usize) -> SendOp {
    use crate::{Atomic, Verb};
    let remote = end
        .remote
        .expect("connected before it measures")
        .at(end.landing(bytes));
    match (end.plan.op.verb, end.plan.atomic) {
        (Verb::Atomic, Atomic::FetchAdd) => SendOp::FetchAdd { remote, add: 1 },
        // It fails whenever the word is not 0, and costs the same.
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
        self.turn(cpu).unwrap_or_else(|error| {
            self.outcome.leave(Err(error));
            IDLE
        })
    }
}
