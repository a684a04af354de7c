//! Completion queues and receive queues.

use super::cpu::LoopbackCpu;
use super::device::Shared;
use super::fabric::Fabric;
use super::{Flaw, Loopback};
use drover_verbs::{
    CompletionQueue, Opcode, PostError, PostErrorKind, Qpn, RecvList, RecvWr, SharedReceiveQueue, Wc, WrId,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// A completion and the slots that polling it frees.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) wc: Wc,
    pub(super) frees: Frees,
}

/// Slots that polling a completion frees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frees {
    /// This many of the queue pair's send queue.
    Send(usize),
    /// One of the queue pair's receive queue.
    Recv,
    /// One of this shared receive queue.
    Srq(u32),
}

/// A completion queue.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) ctx: u32,
    pub(super) depth: usize,
    pub(super) entries: VecDeque<Entry>,
    pub(super) overrun: bool,
}

impl Cq {
    /// Drops the completions of a destroyed queue pair.
    pub(super) fn forget(&mut self, qpn: u32) {
        self.entries.retain(|entry| entry.wc.qpn.0 != qpn);
    }
}

/// RECVs of one queue pair, or shared by several.
#[derive(Debug)]
pub(super) struct RecvQueue {
    pub(super) ctx: u32,
    pub(super) depth: usize,
    /// RECVs posted whose completions are not polled yet.
    pub(super) used: usize,
    pub(super) wrs: VecDeque<RecvWr>,
}

impl RecvQueue {
    pub(super) fn new(ctx: u32, depth: usize) -> RecvQueue {
        RecvQueue {
            ctx,
            depth,
            used: 0,
            wrs: VecDeque::new(),
        }
    }
}

impl Fabric {
    /// Appends a completion and wakes the owner of the queue.
    pub(super) fn complete(&mut self, cq: u32, wc: Wc, frees: Frees) {
        let Some(queue) = self.cqs.get_mut(&cq) else {
            return; // its owner dropped the queue before the queue pair and does not poll any more
        };
        if queue.entries.len() == queue.depth {
            queue.overrun = true;
            return;
        }
        queue.entries.push_back(Entry { wc, frees });
        let ctx = queue.ctx;
        if !self.has(Flaw::DeafToCompletions) {
            self.ring(ctx);
        }
    }

    /// Takes up to `wcs.len()` completions; returns their number.
    pub(super) fn poll(&mut self, cq: u32, wcs: &mut [Wc]) -> usize {
        self.execute_all(); // an RNR timeout may have expired
        self.land_late(false);
        let flaw = self.flaw;
        let queue = self
            .cqs
            .get_mut(&cq)
            .expect("the handle keeps the completion queue alive");
        assert!(
            !queue.overrun,
            "a completion queue of {} entries was overrun",
            queue.depth
        );
        let count = queue.entries.len().min(wcs.len());
        if flaw == Some(Flaw::PollsNewestFirst) {
            queue.entries.make_contiguous().reverse();
        }
        let taken: Vec<Entry> = queue.entries.drain(..count).collect();
        if flaw == Some(Flaw::PollDropsRest) {
            queue.entries.clear();
        }
        for (entry, wc) in taken.iter().zip(wcs) {
            *wc = flawed(entry.wc, flaw);
            self.free(entry.wc.qpn, entry.frees);
        }
        count
    }

    fn free(&mut self, qpn: Qpn, frees: Frees) {
        match frees {
            Frees::Send(count) => self.qp(qpn.0).sends.free(count),
            Frees::Recv => self.qp(qpn.0).recvs.used -= 1,
            Frees::Srq(srq) => {
                if let Some(srq) = self.srqs.get_mut(&srq) {
                    srq.used -= 1;
                }
            }
        }
    }

    /// Checks that a RECV may be posted: its memory is registered and writable, and there is space.
    pub(super) fn admit_recv(&self, queue: &RecvQueue, wr: &RecvWr) -> Result<(), PostErrorKind> {
        if queue.used == queue.depth && !self.has(Flaw::EndlessRecvQueue) {
            return Err(PostErrorKind::QueueFull);
        }
        match self.local(queue.ctx, &wr.sge, true) {
            Some(_) => Ok(()),
            None => Err(PostErrorKind::LocalProtection),
        }
    }
}

/// A completion queue of exactly the requested depth. A completion that does not fit is dropped, and every later poll
/// panics.
#[derive(Debug)]
pub struct LoopbackCq {
    pub(super) shared: Shared,
    pub(super) id: u32,
    pub(super) _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl CompletionQueue<Loopback> for LoopbackCq {
    fn poll(&mut self, _: &LoopbackCpu, wcs: &mut [Wc]) -> usize {
        self.shared.lock().poll(self.id, wcs)
    }
}

impl Drop for LoopbackCq {
    fn drop(&mut self) {
        self.shared.lock().cqs.remove(&self.id);
    }
}

/// A shared receive queue of exactly the requested depth.
#[derive(Debug)]
pub struct LoopbackSrq {
    pub(super) shared: Shared,
    pub(super) id: u32,
    pub(super) _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl SharedReceiveQueue<Loopback> for LoopbackSrq {
    fn post_recv(&mut self, _: &LoopbackCpu, list: &RecvList) -> Result<(), PostError> {
        let mut fabric = self.shared.lock();
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            fabric.admit_recv(&fabric.srqs[&self.id], wr).map_err(refused)?;
            let srq = fabric.srqs.get_mut(&self.id).expect("the handle keeps it alive");
            srq.used += 1;
            srq.wrs.push_back(*wr);
            fabric.execute_all();
        }
        Ok(())
    }
}

impl Drop for LoopbackSrq {
    fn drop(&mut self) {
        self.shared.lock().srqs.remove(&self.id);
    }
}

/// A failed completion.
pub(super) fn failed(wr_id: WrId, status: drover_verbs::WcStatus, qpn: u32) -> Wc {
    Wc {
        wr_id,
        status,
        qpn: Qpn(qpn),
        ..Wc::default()
    }
}

/// The completion as a flawed provider reports it.
fn flawed(mut wc: Wc, flaw: Option<Flaw>) -> Wc {
    match flaw {
        Some(Flaw::ForgetsVerbs) => wc.opcode = Opcode::Send,
        Some(Flaw::ReadsWithoutLength) if wc.opcode == Opcode::Read => wc.byte_len = 0,
        Some(Flaw::NamesNoQueuePair) => wc.qpn = Qpn(0),
        Some(Flaw::LosesImm) => wc.imm = None,
        Some(Flaw::HidesSender) => wc.src_qpn = Qpn(0),
        _ => {}
    }
    wc
}
