//! Delivery: the effect of each verb at the other end.

use super::Flaw;
use super::execute::Attempt;
use super::fabric::Fabric;
use super::queues::Frees;
use super::request::{Bytes, Request};
use drover_verbs::provide::Want;
use drover_verbs::{
    GRH_BYTES, Imm, Opcode, QpKind, QpState, Qpn, RecvWr, RemoteAddr, SendOp, UdDest, Wc, WcStatus,
};
use std::collections::VecDeque;

impl Fabric {
    /// Executes `request` at the other end of a connection.
    pub(super) fn carry_out(&mut self, ctx: u32, peer: u32, request: &Request, bytes: &[u8]) -> Attempt {
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
                self.spoil_read(&mut data);
                let is_late = self.has(Flaw::IgnoresFences) && !request.signaled;
                if is_late && self.scatter_late(ctx, &request.bytes, &data) {
                    return Attempt::Done(len as u32);
                }
                self.scatter(ctx, &request.bytes, &data)
            }
            SendOp::CompareSwap { remote, .. }
            | SendOp::FetchAdd { remote, .. }
            | SendOp::MaskedCompareSwap { remote, .. } => {
                let Some((word, offset)) = self.remote(ctx, peer_ctx, remote, 8, Want::Atomic) else {
                    return Attempt::Failed(WcStatus::RemoteAccess);
                };
                let offset = if self.has(Flaw::AtomicsRoundDown) {
                    offset & !7
                } else {
                    offset
                };
                if !offset.is_multiple_of(8) {
                    return Attempt::Failed(WcStatus::RemoteInvalidRequest);
                }
                let old = self.atomic(&word, offset, request);
                self.ring_watchers(ctx, remote, 8);
                self.scatter(ctx, &request.bytes, &old.to_ne_bytes())
            }
        }
    }

    /// Writes fetched `data` to the request's elements.
    fn scatter(&mut self, ctx: u32, into: &Bytes, data: &[u8]) -> Attempt {
        let Bytes::Pieces(sges) = into else {
            return Attempt::Done(0);
        };
        let pieces = if self.has(Flaw::ScattersFirstPiece) {
            1
        } else {
            sges.len()
        };
        let mut at = 0;
        for sge in sges.iter().take(pieces) {
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
            Some(_) if self.has(Flaw::WriteImmTakesNoRecv) => None,
            Some(_) => match self.front_recv(peer) {
                Some(recv) => Some(recv),
                None => return Attempt::NoRecv,
            },
            None => None,
        };
        if bytes.is_empty() && self.has(Flaw::RefusesEmptyWrites) {
            return Attempt::Failed(WcStatus::LocalLength);
        }
        if !bytes.is_empty() {
            let Some((to, offset)) = self.remote(ctx, peer_ctx, remote, bytes.len(), Want::Write) else {
                return match self.has(Flaw::IgnoresBounds) {
                    true => Attempt::Done(0),
                    false => Attempt::Failed(WcStatus::RemoteAccess),
                };
            };
            self.land(&to, offset, bytes);
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
        if bytes.is_empty() && self.has(Flaw::LosesEmptySends) {
            return Attempt::Done(0);
        }
        let ctx = self.qp(peer).ctx;
        let mut wc = Wc {
            opcode: Opcode::Recv,
            byte_len: bytes.len() as u32,
            imm,
            ..Wc::default()
        };
        let refused = match self.local(ctx, &recv.sge, true) {
            Some((region, offset, len)) if bytes.len() > len && self.has(Flaw::CutsLongMessages) => {
                region.copy_in(offset, &bytes[..len]);
                self.take_recv(peer, recv, wc);
                return Attempt::Done(0);
            }
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

    /// Delivers a datagram, or drops it silently.
    pub(super) fn datagram(&mut self, from: u32, ctx: u32, dest: UdDest, imm: Option<Imm>, bytes: &[u8]) {
        let to = dest.qpn.0;
        let Some(target_ctx) = self.ahs.get(&(ctx, dest.ah)).copied() else {
            return;
        };
        let welcome = self.qps.get(&to).is_some_and(|qp| {
            qp.ctx == target_ctx
                && qp.kind == QpKind::Ud
                && qp.state == QpState::ReadyToSend
                && (qp.qkey == dest.qkey || self.flaw == Some(Flaw::IgnoresQkey))
        });
        if !welcome {
            return;
        }
        let Some(recv) = self.front_recv(to) else {
            self.keep(from, ctx, dest, imm, bytes);
            return;
        };
        let Some((region, offset, len)) = self.local(target_ctx, &recv.sge, true) else {
            return;
        };
        let cut = self.has(Flaw::CutsLongMessages) || self.has(Flaw::AnyDatagramLength);
        if GRH_BYTES + bytes.len() > len && !cut {
            return;
        }
        let bytes = &bytes[..bytes.len().min(len - GRH_BYTES)];
        let gap = if self.has(Flaw::NoGap) { 0 } else { GRH_BYTES };
        let counted = if self.has(Flaw::GapNotCounted) {
            0
        } else {
            GRH_BYTES
        };
        region.copy_in(offset, &[0xa5; GRH_BYTES]);
        region.copy_in(offset + gap, bytes);
        let wc = Wc {
            opcode: Opcode::Recv,
            byte_len: (counted + bytes.len()) as u32,
            imm,
            src_qpn: Qpn(from),
            ..Wc::default()
        };
        self.take_recv(to, recv, wc);
    }

    /// The RECV for the next message to `qpn`.
    pub(super) fn front_recv(&self, qpn: u32) -> Option<RecvWr> {
        let qp = self.qps.get(&qpn)?;
        match qp.srq {
            Some(srq) => self.next_of(&self.srqs.get(&srq)?.wrs),
            None => self.next_of(&qp.recvs.wrs),
        }
    }

    fn next_of(&self, wrs: &VecDeque<RecvWr>) -> Option<RecvWr> {
        let next = if self.has(Flaw::TakesLastRecv) {
            wrs.back()
        } else {
            wrs.front()
        };
        next.copied()
    }

    /// Removes `recv` and completes it with `wc`.
    fn take_recv(&mut self, qpn: u32, recv: RecvWr, mut wc: Wc) {
        let qp = self.qp(qpn);
        let (cq, srq) = (qp.recv_cq, qp.srq);
        wc.wr_id = recv.wr_id;
        wc.qpn = Qpn(qpn);
        let frees = match srq {
            Some(srq) => {
                take(&mut self.srqs.get_mut(&srq).expect("it had a RECV").wrs, recv);
                Frees::Srq(srq)
            }
            None => {
                take(&mut self.qp(qpn).recvs.wrs, recv);
                Frees::Recv
            }
        };
        self.complete(cq, wc, frees);
    }
}

/// Removes the first RECV that equals `recv`.
fn take(wrs: &mut VecDeque<RecvWr>, recv: RecvWr) {
    let at = wrs.iter().position(|wr| *wr == recv).expect("it was found there");
    wrs.remove(at);
}
