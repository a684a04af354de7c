//! Execution: requests are attempted in order and complete, wait or fail.

use super::Flaw;
use super::fabric::Fabric;
use super::queues::{Frees, failed};
use super::request::{Bytes, Request};
use drover_verbs::{QpKind, QpState, Qpn, SendOp, Wc, WcStatus};

/// Result of an attempt to execute a request.
pub(super) enum Attempt {
    /// Done (or lost, where loss is allowed), with the number of bytes read.
    Done(u32),
    /// Waits for a RECV, until the RNR timeout.
    NoRecv,
    /// Waits for the other end to be connected.
    NoPeerYet,
    /// Refused or impossible.
    Failed(WcStatus),
}

impl Fabric {
    /// Executes all requests that can be, in order of queue pair numbers.
    pub(super) fn execute_all(&mut self) {
        self.deliver_kept();
        let busy: Vec<u32> = self
            .qps
            .iter()
            .filter(|(_, qp)| !qp.sends.waiting.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for qpn in busy {
            self.execute(qpn);
        }
    }

    /// Executes requests of one queue pair in order until one has to wait.
    pub(super) fn execute(&mut self, qpn: u32) {
        while let Some(request) = self
            .qps
            .get(&qpn)
            .and_then(|qp| qp.sends.waiting.front().cloned())
        {
            match self.attempt(qpn, &request) {
                Attempt::Done(byte_len) => self.done(qpn, &request, byte_len),
                Attempt::NoPeerYet => return,
                Attempt::NoRecv => {
                    let now = self.clock.now();
                    if !self.qp(qpn).sends.has_waited(now) || self.has(Flaw::WaitsForEver) {
                        return;
                    }
                    self.fail(qpn, WcStatus::RnrRetryExceeded);
                }
                Attempt::Failed(status) => self.fail(qpn, status),
            }
        }
    }

    /// The first waiting request is done.
    fn done(&mut self, qpn: u32, request: &Request, byte_len: u32) {
        let qp = self.qp(qpn);
        qp.sends.pop_first();
        if !request.signaled {
            return qp.sends.end_silently();
        }
        let covered = qp.sends.end();
        let cq = qp.send_cq;
        let frees = Frees::Send(if self.has(Flaw::CoversOnlyItself) {
            1
        } else {
            covered
        });
        let wc = Wc {
            wr_id: request.wr_id,
            opcode: request.opcode(),
            byte_len,
            qpn: Qpn(qpn),
            ..Wc::default()
        };
        self.complete(cq, wc, frees);
    }

    /// Fails the first waiting request and flushes those after it.
    fn fail(&mut self, qpn: u32, status: WcStatus) {
        self.complete_failed(qpn, status);
        if !self.has(Flaw::SurvivesFailure) {
            self.break_qp(qpn);
        }
    }

    /// Moves a queue pair to the error state and flushes it: sends first, then RECVs, each in order.
    pub(super) fn break_qp(&mut self, qpn: u32) {
        let reverse = self.has(Flaw::FlushesInReverse);
        let qp = self.qp(qpn);
        qp.state = QpState::Error;
        if reverse {
            qp.sends.waiting.make_contiguous().reverse();
            qp.recvs.wrs.make_contiguous().reverse();
        }
        while !self.qp(qpn).sends.waiting.is_empty() {
            self.complete_failed(qpn, WcStatus::Flushed);
        }
        self.flush_recvs(qpn);
    }

    /// Completes every RECV of its own queue as flushed.
    pub(super) fn flush_recvs(&mut self, qpn: u32) {
        let qp = self.qp(qpn);
        let (recvs, cq) = (std::mem::take(&mut qp.recvs.wrs), qp.recv_cq);
        for recv in recvs {
            if !self.has(Flaw::FlushesSilently) {
                self.complete(cq, failed(recv.wr_id, WcStatus::Flushed, qpn), Frees::Recv);
            }
        }
        if self.has(Flaw::FlushesSrq) {
            let srq = self.qp(qpn).srq.and_then(|srq| self.srqs.get_mut(&srq));
            srq.into_iter().for_each(|srq| srq.wrs.clear());
        }
    }

    fn complete_failed(&mut self, qpn: u32, status: WcStatus) {
        let qp = self.qp(qpn);
        let request = qp.sends.pop_first().expect("a request that failed");
        let frees = Frees::Send(qp.sends.end());
        let cq = qp.send_cq;
        let silent = match self.flaw {
            Some(Flaw::FlushesSilently) => status == WcStatus::Flushed,
            Some(Flaw::FlushesSignaledOnly) => !request.signaled,
            _ => false,
        };
        if silent {
            return;
        }
        self.complete(cq, failed(request.wr_id, status, qpn), frees);
    }

    fn attempt(&mut self, qpn: u32, request: &Request) -> Attempt {
        let qp = self.qp(qpn);
        let (kind, ctx, peer) = (qp.kind, qp.ctx, qp.peer);
        let Some(bytes) = self.outgoing(ctx, request) else {
            return Attempt::Failed(WcStatus::LocalProtection);
        };
        if let SendOp::Send {
            dest: Some(dest),
            imm,
        } = request.op
        {
            self.datagram(qpn, ctx, dest, imm, &bytes);
            return Attempt::Done(0);
        }
        let Some(peer) = peer else {
            return Attempt::Done(0); // such a request occurs only with a flaw
        };
        let attempt = match self.qps.get(&peer) {
            None if self.has(Flaw::LandsThroughTheDead) => self.haunt(ctx, request, &bytes),
            None if self.has(Flaw::TalksToTheDead) => Attempt::Done(0),
            Some(there) if there.state == QpState::Init => Attempt::NoPeerYet,
            Some(there) if there.state == QpState::ReadyToSend && there.peer == Some(qpn) => {
                self.carry_out(ctx, peer, request, &bytes)
            }
            _ => Attempt::Failed(WcStatus::RetryExceeded),
        };
        match (kind, attempt) {
            (QpKind::Rc, Attempt::NoRecv) if self.has(Flaw::LosesEarlySends) => Attempt::Done(0),
            (QpKind::Rc, attempt) => attempt,
            (_, Attempt::Failed(WcStatus::LocalProtection)) => Attempt::Failed(WcStatus::LocalProtection),
            (_, Attempt::NoRecv) if self.has(Flaw::UcWaitsForRecv) => Attempt::NoRecv,
            (_, attempt) if self.has(Flaw::UcReportsRefusals) => attempt,
            (_, _) => Attempt::Done(0), // an unreliable connection loses it
        }
    }

    /// The payload of a SEND or WRITE; empty for verbs that fetch.
    fn outgoing(&self, ctx: u32, request: &Request) -> Option<Vec<u8>> {
        let sges = match (&request.op, &request.bytes) {
            (SendOp::Send { .. } | SendOp::Write { .. }, Bytes::Inline(bytes)) => return Some(bytes.clone()),
            (SendOp::Send { .. } | SendOp::Write { .. }, Bytes::Pieces(sges)) => sges,
            _ => return Some(Vec::new()),
        };
        let pieces = if self.has(Flaw::GathersFirstPiece) {
            1
        } else {
            sges.len()
        };
        let mut out = vec![0; request.bytes.len()];
        let mut at = 0;
        for sge in &sges[..pieces.min(sges.len())] {
            let (region, offset, len) = self.local(ctx, sge, false)?;
            region.copy_out(offset, &mut out[at..at + len]);
            at += len;
        }
        Some(out)
    }
}
