//! Completion queues, which hide the wrapper's own completions; shared receive queues.

use super::Faulty;
use super::context::Shared;
use super::forger::ContextNumber;
use super::late::is_ours;
use drover_verbs::{
    CompletionQueue, Opcode, PostError, Provider, Qpn, RecvList, SharedReceiveQueue, Wc, WcStatus, WrId,
};
use std::rc::Rc;

/// A completion queue of a [`FaultyContext`](super::FaultyContext); hides the completions of late messages.
pub struct FaultyCq<P: Provider> {
    pub(super) inner: P::Cq,
    pub(super) shared: Rc<Shared<P>>,
    pub(super) context: ContextNumber,
}

impl<P: Provider> CompletionQueue<Faulty<P>> for FaultyCq<P> {
    fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize {
        if !self.shared.options.any() {
            let count = self.inner.poll(cpu, wcs);
            self.check(&wcs[..count]);
            return count;
        }
        self.shared.late.borrow_mut().step(cpu);
        let mut kept = 0;
        while kept < wcs.len() {
            let count = self.inner.poll(cpu, &mut wcs[kept..]);
            if count == 0 {
                break;
            }
            let first = kept;
            for i in 0..count {
                let mut wc = wcs[first + i];
                if is_ours(wc.wr_id) {
                    self.shared.late.borrow_mut().completed(wc.wr_id);
                    continue;
                }
                self.shared.relabel(&mut wc);
                wcs[kept] = wc;
                kept += 1;
            }
        }
        self.check(&wcs[..kept]);
        kept
    }
}

impl<P: Provider> FaultyCq<P> {
    fn check(&self, wcs: &[Wc]) {
        if let Some(forger) = &self.shared.forger {
            forger.completed(self.context, wcs);
        }
        if self.shared.options.checks_results {
            wcs.iter().for_each(|wc| self.shared.check_results(wc));
        }
    }
}

impl<P: Provider> Shared<P> {
    /// Restores the opcode of a SEND that was replaced by a WRITE.
    fn relabel(&self, wc: &mut Wc) {
        let mut standing_in = self.standing_in.borrow_mut();
        if standing_in.is_empty() || !matches!(wc.opcode, Opcode::Write) || wc.status != WcStatus::Success {
            return;
        }
        let its: (Qpn, WrId) = (wc.qpn, wc.wr_id);
        if let Some(at) = standing_in.iter().position(|pair| *pair == its) {
            standing_in.remove(at);
            wc.opcode = Opcode::Send;
        }
    }
}

/// A shared receive queue of a [`FaultyContext`](super::FaultyContext), without faults.
pub struct FaultySrq<P: Provider> {
    pub(super) inner: P::Srq,
}

impl<P: Provider> SharedReceiveQueue<Faulty<P>> for FaultySrq<P> {
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError> {
        self.inner.post_recv(cpu, list)
    }
}
