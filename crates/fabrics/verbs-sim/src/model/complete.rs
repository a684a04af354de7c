//! Completions in the order of posting, and the handling of failures.

use super::Net;
use super::objects::{Cq, Entry, Frees};
use super::prices::Verb;
use drover_sim::Queue;
use drover_verbs::{Fenced, Opcode, QpState, Qpn, RecvWr, Wc, WcStatus};

impl Net {
    /// Retires the finished requests at the front of the queue pair.
    pub(crate) fn retire_done(&mut self, qpn: u32, queue: &mut Queue) {
        let mut freed_reads = false;
        while let Some(qp) = self.qps.get_mut(qpn) {
            match qp.sends.first() {
                Some(op) if self.ops[op].ending.done => {
                    qp.sends.pop_first();
                    if self.ops[op].wr.verb.fetches() {
                        qp.sends.read_done();
                        freed_reads = true;
                    }
                    self.retire(qpn, op, WcStatus::Success, queue);
                }
                first => match qp.rc.refused {
                    Some((op, status)) if first == Some(op) => return self.fail(qpn, op, status, queue),
                    _ => break,
                },
            }
        }
        if freed_reads {
            self.start_pending(qpn, queue.now(), queue);
        }
    }

    /// Removes a request from its queue pair, with a completion if it asked for one or failed.
    fn retire(&mut self, qpn: u32, op: u32, status: WcStatus, queue: &mut Queue) {
        let o = &mut self.ops[op];
        o.ending.retired = true;
        if o.wr.signaled || status != WcStatus::Success {
            let wc = Wc {
                wr_id: o.wr.wr_id,
                status,
                opcode: opcode(o.wr.verb),
                byte_len: if o.wr.verb.fetches() { o.wr.len } else { 0 },
                qpn: Qpn(qpn),
                ..Wc::default()
            };
            let qp = self.qps.at(qpn);
            let frees = Frees::Send(qp.sends.take_covered());
            let cq = qp.queues.send_cq;
            self.complete(cq, wc, frees, queue);
        }
        self.ops.release(op);
    }

    /// Appends a completion and notifies the owner of the queue.
    fn complete(&mut self, cq: u32, wc: Wc, frees: Frees, queue: &mut Queue) {
        let Some(found) = self.cqs.get_mut(cq) else {
            // Its owner dropped it and does not poll any more.
            return self.free_shared(wc.qpn.0, frees);
        };
        let ctx = found.ctx;
        if found.entries.len() == found.depth {
            found.overrun = true;
            self.overrun(ctx);
        } else {
            found.entries.push_back(Entry { wc, frees });
        }
        self.ring_pollers(cq, queue);
    }

    /// A completion queue had no space: this is fatal for it, and its owner's next poll reports it.
    fn overrun(&mut self, ctx: u32) {
        let machine = self.ctxs.at(ctx).machine;
        self.nic(machine).counters.cq_overruns += 1;
    }

    /// Completes a RECV that a message took.
    pub(crate) fn complete_recv(
        &mut self,
        to: u32,
        recv: RecvWr,
        status: WcStatus,
        op: u32,
        bytes: u32,
        queue: &mut Queue,
    ) {
        let (opcode, imm) = self.recv_opcode(op);
        let is_ud = self.ops[op].wr.is_ud;
        let src_qpn = if is_ud { Qpn(self.ops[op].qp) } else { Qpn(0) };
        let Some(qp) = self.qps.get(to) else { return };
        let frees = match qp.queues.srq {
            Some(srq) => Frees::Srq(srq),
            None => Frees::Recv,
        };
        let wc = Wc {
            wr_id: recv.wr_id,
            status,
            opcode,
            byte_len: bytes,
            imm,
            qpn: Qpn(to),
            src_qpn,
        };
        let cq = qp.queues.recv_cq;
        self.complete(cq, wc, frees, queue);
    }

    /// The RECV for the next message.
    pub(crate) fn front_recv(&self, qpn: u32) -> Option<RecvWr> {
        let qp = self.qps.get(qpn)?;
        let recvs = match qp.queues.srq {
            Some(srq) => self.srqs.get(srq)?,
            None => &qp.queues.recvs,
        };
        recvs.wrs.front().copied()
    }

    /// Takes the RECV for the next message.
    pub(crate) fn take_recv(&mut self, qpn: u32) {
        let queues = &mut self.qps.at(qpn).queues;
        let recvs = match queues.srq {
            Some(srq) => {
                queues.srq_taken += 1;
                self.srqs.at(srq)
            }
            None => &mut queues.recvs,
        };
        recvs.wrs.pop_front();
    }

    /// Fails `op`: earlier requests that were answered succeed, `op` completes with `status`, later ones are flushed.
    pub(crate) fn fail(&mut self, qpn: u32, op: u32, status: WcStatus, queue: &mut Queue) {
        while let Some(qp) = self.qps.get_mut(qpn) {
            let Some(first) = qp.sends.pop_first() else { break };
            let outcome = match first == op {
                true => status,
                false if self.ops[first].ending.acked => WcStatus::Success,
                false => WcStatus::Flushed,
            };
            self.retire(qpn, first, outcome, queue);
            if first == op {
                break;
            }
        }
        if let Some(machine) = self.qps.get(qpn).map(|qp| qp.machine) {
            self.nic(machine).counters.req_cqe_error += 1;
        }
        self.break_qp(qpn, queue);
    }

    /// Moves a queue pair to the error state and flushes it: sends first, then RECVs, each in order.
    pub(crate) fn break_qp(&mut self, qpn: u32, queue: &mut Queue) {
        let Some(qp) = self.qps.get_mut(qpn) else { return };
        qp.state = QpState::Error;
        qp.rc.refused = None;
        for op in qp.sends.clear() {
            self.flush(qpn, op, queue);
        }
        self.flush_recvs(qpn, queue);
    }

    /// Breaks a queue pair, and says whether all messages and atomics that it had accepted are visible.
    pub(crate) fn fence(&mut self, qpn: u32, queue: &mut Queue) -> Fenced {
        if self.qps.at(qpn).state != QpState::Error {
            self.break_qp(qpn, queue);
        }
        match self.qps.at(qpn).order.landed_at() < queue.now() {
            true => Fenced::Done,
            false => Fenced::Pending,
        }
    }

    /// Completes one request as flushed.
    pub(crate) fn flush(&mut self, qpn: u32, op: u32, queue: &mut Queue) {
        let qp = self.qps.at(qpn);
        qp.sends.flushed();
        let machine = qp.machine;
        self.nic(machine).counters.req_cqe_flush_error += 1;
        self.retire(qpn, op, WcStatus::Flushed, queue);
    }

    /// Completes every RECV of its own queue as flushed.
    pub(crate) fn flush_recvs(&mut self, qpn: u32, queue: &mut Queue) {
        let qp = self.qps.at(qpn);
        let (recvs, cq, machine) = (
            std::mem::take(&mut qp.queues.recvs.wrs),
            qp.queues.recv_cq,
            qp.machine,
        );
        for recv in recvs {
            let wc = Wc {
                wr_id: recv.wr_id,
                status: WcStatus::Flushed,
                opcode: Opcode::Recv,
                qpn: Qpn(qpn),
                ..Wc::default()
            };
            self.nic(machine).counters.resp_cqe_flush_error += 1;
            self.complete(cq, wc, Frees::Recv, queue);
        }
    }

    /// Takes up to `wcs.len()` completions; returns their number.
    ///
    /// # Panics
    /// If the queue was overrun.
    pub(crate) fn poll(&mut self, cq: u32, wcs: &mut [Wc]) -> usize {
        let found: &mut Cq = self.cqs.at(cq);
        assert!(
            !found.overrun,
            "a completion queue of {} entries was overrun",
            found.depth
        );
        let count = found.entries.len().min(wcs.len());
        for wc in &mut wcs[..count] {
            let entry = self.cqs.at(cq).entries.pop_front().expect("as many as counted");
            *wc = entry.wc;
            self.free(entry.wc.qpn.0, entry.frees);
        }
        count
    }

    fn free(&mut self, qpn: u32, frees: Frees) {
        match frees {
            Frees::Srq(_) => self.free_shared(qpn, frees),
            Frees::Send(count) => self.qps.at(qpn).sends.free(count),
            Frees::Recv => self.qps.at(qpn).queues.recvs.used -= 1,
        }
    }

    /// Frees what the completion of a RECV holds in a queue that other queue pairs use, too. Also for completions that
    /// nobody polls.
    pub(crate) fn free_shared(&mut self, qpn: u32, frees: Frees) {
        if let Frees::Srq(srq) = frees {
            self.qps.at(qpn).queues.srq_taken -= 1;
            if let Some(srq) = self.srqs.get_mut(srq) {
                srq.used -= 1;
            }
        }
    }

    /// Destroys a queue pair: its requests, RECVs and completions are dropped.
    pub(crate) fn remove_qp(&mut self, qpn: u32) {
        let Some(mut qp) = self.qps.remove(qpn) else {
            return;
        };
        for op in qp.sends.clear() {
            self.ops[op].ending.retired = true;
            self.ops.release(op);
        }
        for cq in [qp.queues.send_cq, qp.queues.recv_cq] {
            if let Some(cq) = self.cqs.get_mut(cq) {
                cq.entries.retain(|entry| entry.wc.qpn.0 != qpn);
            }
        }
        if let Some(srq) = qp.queues.srq.and_then(|srq| self.srqs.get_mut(srq)) {
            srq.used -= qp.queues.srq_taken;
        }
        self.nic(qp.machine).caches.forget(qp.card.places);
        if let Some(register) = qp.card.register {
            let of = self.ctxs.at(qp.ctx).registers;
            self.registers.at(of).release(qp.ctx, register);
        }
    }
}

fn opcode(verb: Verb) -> Opcode {
    match verb {
        Verb::Send => Opcode::Send,
        Verb::Write => Opcode::Write,
        Verb::Read => Opcode::Read,
        Verb::CompareSwap => Opcode::CompareSwap,
        Verb::FetchAdd => Opcode::FetchAdd,
    }
}
