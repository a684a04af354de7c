//! Execution: what each verb does to the other end, and how it completes.

use super::fabric::Fabric;
use super::memory::{Want, land};
use super::queues::{Frees, failed};
use super::request::{Bytes, Request};
use crate::{GRH_BYTES, Imm, Opcode, QpKind, QpState, Qpn, RecvWr, RemoteAddr, SendOp, UdDest, Wc, WcStatus};

/// How an attempt to execute a request ended.
enum Attempt {
    /// Done (or lost, where losing is allowed); so many bytes were read.
    Done(u32),
    /// Not now: no RECV there. Runs into the RNR timeout.
    NoRecv,
    /// Not now: the other end is not connected yet.
    NoPeerYet,
    /// Refused or impossible.
    Failed(WcStatus),
}

impl Fabric {
    /// Executes whatever can be, everywhere, in order of queue pair numbers.
    pub(super) fn execute_all(&mut self) {
        let busy: Vec<u32> = self
            .qps
            .iter()
            .filter(|(_, qp)| !qp.waiting.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for qpn in busy {
            self.execute(qpn);
        }
    }

    /// Executes requests of one queue pair, in order, until one has to wait.
    pub(super) fn execute(&mut self, qpn: u32) {
        while let Some(request) = self.qps.get(&qpn).and_then(|qp| qp.waiting.front().cloned()) {
            match self.attempt(qpn, &request) {
                Attempt::Done(byte_len) => self.done(qpn, &request, byte_len),
                Attempt::NoPeerYet => return,
                Attempt::NoRecv => {
                    let now = self.clock.now();
                    let qp = self.qp(qpn);
                    let since = *qp.rnr_since.get_or_insert(now);
                    if now.since(since) < qp.rnr_timeout {
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
        qp.waiting.pop_front();
        qp.rnr_since = None;
        qp.uncovered += 1;
        if !request.signaled {
            return;
        }
        let frees = Frees::Send(std::mem::take(&mut qp.uncovered));
        let cq = qp.send_cq;
        let wc = Wc {
            wr_id: request.wr_id,
            opcode: request.opcode(),
            byte_len,
            qpn: Qpn(qpn),
            ..Wc::default()
        };
        self.complete(cq, wc, frees);
    }

    /// The first waiting request failed: everything after it is flushed.
    fn fail(&mut self, qpn: u32, status: WcStatus) {
        self.complete_failed(qpn, status);
        self.break_qp(qpn);
    }

    /// Moves a queue pair to the error state and flushes it: sends first, then RECVs, each in order.
    pub(super) fn break_qp(&mut self, qpn: u32) {
        self.qp(qpn).state = QpState::Error;
        while !self.qp(qpn).waiting.is_empty() {
            self.complete_failed(qpn, WcStatus::Flushed);
        }
        self.flush_recvs(qpn);
    }

    /// Completes every RECV of its own queue as flushed.
    pub(super) fn flush_recvs(&mut self, qpn: u32) {
        let qp = self.qp(qpn);
        let (recvs, cq) = (std::mem::take(&mut qp.recvs.wrs), qp.recv_cq);
        for recv in recvs {
            self.complete(cq, failed(recv.wr_id, WcStatus::Flushed, qpn), Frees::Recv);
        }
    }

    fn complete_failed(&mut self, qpn: u32, status: WcStatus) {
        let qp = self.qp(qpn);
        let request = qp.waiting.pop_front().expect("a request that failed");
        let frees = Frees::Send(1 + std::mem::take(&mut qp.uncovered));
        let cq = qp.send_cq;
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
        let peer = peer.expect("only a connected queue pair executes");
        let attempt = match self.qps.get(&peer) {
            Some(there) if there.state == QpState::Init => Attempt::NoPeerYet,
            Some(there) if there.state == QpState::ReadyToSend && there.peer == Some(qpn) => {
                self.carry_out(ctx, peer, request, &bytes)
            }
            _ => Attempt::Failed(WcStatus::RetryExceeded),
        };
        match (kind, attempt) {
            (QpKind::Rc, attempt) => attempt,
            (_, Attempt::Failed(WcStatus::LocalProtection)) => Attempt::Failed(WcStatus::LocalProtection),
            (_, _) => Attempt::Done(0), // what an unreliable connection cannot deliver is lost
        }
    }

    /// The payload of a SEND or WRITE; nothing for verbs that fetch.
    fn outgoing(&self, ctx: u32, request: &Request) -> Option<Vec<u8>> {
        let sges = match (&request.op, &request.bytes) {
            (SendOp::Send { .. } | SendOp::Write { .. }, Bytes::Inline(bytes)) => return Some(bytes.clone()),
            (SendOp::Send { .. } | SendOp::Write { .. }, Bytes::Pieces(sges)) => sges,
            _ => return Some(Vec::new()),
        };
        let mut out = vec![0; request.bytes.len()];
        let mut at = 0;
        for sge in sges {
            let (region, offset, len) = self.local(ctx, sge, false)?;
            region.copy_out(offset, &mut out[at..at + len]);
            at += len;
        }
        Some(out)
    }

    fn carry_out(&mut self, ctx: u32, peer: u32, request: &Request, bytes: &[u8]) -> Attempt {
        let peer_ctx = self.qp(peer).ctx;
        match request.op {
            SendOp::Send { imm, .. } => self.send(peer, imm, bytes),
            SendOp::Write { remote, imm } => self.write(ctx, peer, remote, imm, bytes),
            SendOp::Read { remote } => {
                let len = request.bytes.len();
                let Some((from, offset)) = self.remote(ctx, peer_ctx, remote, len, Want::Read) else {
                    return Attempt::Failed(WcStatus::RemoteAccess);
                };
                let mut data = vec![0; len];
                from.copy_out(offset, &mut data);
                self.scatter(ctx, &request.bytes, &data)
            }
            SendOp::CompareSwap { remote, .. } | SendOp::FetchAdd { remote, .. } => {
                let Some((word, offset)) = self.remote(ctx, peer_ctx, remote, 8, Want::Atomic) else {
                    return Attempt::Failed(WcStatus::RemoteAccess);
                };
                if remote.offset % 8 != 0 {
                    return Attempt::Failed(WcStatus::RemoteInvalidRequest);
                }
                let old = match request.op {
                    SendOp::CompareSwap { compare, swap, .. } => word.compare_swap_u64(offset, compare, swap),
                    SendOp::FetchAdd { add, .. } => word.fetch_add_u64(offset, add),
                    _ => unreachable!("only atomics come here"),
                };
                self.ring_watchers(ctx, remote, 8);
                self.scatter(ctx, &request.bytes, &old.to_ne_bytes())
            }
        }
    }

    /// Puts fetched `data` where the request wants it.
    fn scatter(&mut self, ctx: u32, into: &Bytes, data: &[u8]) -> Attempt {
        let Bytes::Pieces(sges) = into else {
            return Attempt::Done(0);
        };
        let mut at = 0;
        for sge in sges {
            let Some((region, offset, len)) = self.local(ctx, sge, true) else {
                return Attempt::Failed(WcStatus::LocalProtection);
            };
            region.copy_in(offset, &data[at..at + len]);
            at += len;
        }
        Attempt::Done(data.len() as u32)
    }

    fn write(&mut self, ctx: u32, peer: u32, remote: RemoteAddr, imm: Option<Imm>, bytes: &[u8]) -> Attempt {
        let peer_ctx = self.qp(peer).ctx;
        let recv = match imm {
            Some(_) => match self.front_recv(peer) {
                Some(recv) => Some(recv),
                None => return Attempt::NoRecv,
            },
            None => None,
        };
        if !bytes.is_empty() {
            let Some((to, offset)) = self.remote(ctx, peer_ctx, remote, bytes.len(), Want::Write) else {
                return Attempt::Failed(WcStatus::RemoteAccess);
            };
            land(&to, offset, bytes);
            self.ring_watchers(ctx, remote, bytes.len());
        }
        if let Some(recv) = recv {
            let wc = Wc {
                opcode: Opcode::RecvWriteImm,
                byte_len: bytes.len() as u32,
                imm,
                ..Wc::default()
            };
            self.take_recv(peer, recv, wc);
        }
        Attempt::Done(0)
    }

    fn send(&mut self, peer: u32, imm: Option<Imm>, bytes: &[u8]) -> Attempt {
        let Some(recv) = self.front_recv(peer) else {
            return Attempt::NoRecv;
        };
        let ctx = self.qp(peer).ctx;
        let mut wc = Wc {
            opcode: Opcode::Recv,
            byte_len: bytes.len() as u32,
            imm,
            ..Wc::default()
        };
        let refused = match self.local(ctx, &recv.sge, true) {
            Some((_, _, len)) if bytes.len() > len => (WcStatus::LocalLength, WcStatus::RemoteInvalidRequest),
            Some((region, offset, _)) => {
                region.copy_in(offset, bytes);
                self.take_recv(peer, recv, wc);
                return Attempt::Done(0);
            }
            None => (WcStatus::LocalProtection, WcStatus::RemoteOperation),
        };
        if self.qp(peer).kind == QpKind::Rc {
            wc.status = refused.0;
            self.take_recv(peer, recv, wc);
            self.break_qp(peer);
        }
        Attempt::Failed(refused.1)
    }

    /// Delivers a datagram, or drops it without a word.
    fn datagram(&mut self, from: u32, ctx: u32, dest: UdDest, imm: Option<Imm>, bytes: &[u8]) {
        let to = dest.qpn.0;
        let Some(target_ctx) = self.ahs.get(&(ctx, dest.ah)).copied() else {
            return;
        };
        let welcome = self.qps.get(&to).is_some_and(|qp| {
            qp.ctx == target_ctx
                && qp.kind == QpKind::Ud
                && qp.state == QpState::ReadyToSend
                && qp.qkey == dest.qkey
        });
        if !welcome {
            return;
        }
        let Some(recv) = self.front_recv(to) else {
            return;
        };
        let Some((region, offset, len)) = self.local(target_ctx, &recv.sge, true) else {
            return;
        };
        if GRH_BYTES + bytes.len() > len {
            return;
        }
        region.copy_in(offset, &[0xa5; GRH_BYTES]);
        region.copy_in(offset + GRH_BYTES, bytes);
        let wc = Wc {
            opcode: Opcode::Recv,
            byte_len: (GRH_BYTES + bytes.len()) as u32,
            imm,
            src_qpn: Qpn(from),
            ..Wc::default()
        };
        self.take_recv(to, recv, wc);
    }

    /// The RECV that the next message to `qpn` would take.
    fn front_recv(&self, qpn: u32) -> Option<RecvWr> {
        let qp = self.qps.get(&qpn)?;
        match qp.srq {
            Some(srq) => self.srqs.get(&srq)?.wrs.front().copied(),
            None => qp.recvs.wrs.front().copied(),
        }
    }

    /// Takes that RECV and completes it with `wc`.
    fn take_recv(&mut self, qpn: u32, recv: RecvWr, mut wc: Wc) {
        let qp = self.qp(qpn);
        let (cq, srq) = (qp.recv_cq, qp.srq);
        wc.wr_id = recv.wr_id;
        wc.qpn = Qpn(qpn);
        let frees = match srq {
            Some(srq) => {
                self.srqs.get_mut(&srq).expect("it had a RECV").wrs.pop_front();
                Frees::Srq(srq)
            }
            None => {
                self.qp(qpn).recvs.wrs.pop_front();
                Frees::Recv
            }
        };
        self.complete(cq, wc, frees);
    }
}
