//! [`IbvCq`], and what the library's completions mean.

use crate::Ibv;
use crate::core::Core;
use crate::ffi;
use crate::raw::{Completions, Counts};
use drover_mem::NativeCpu;
use drover_verbs::{CompletionQueue, Imm, Opcode, Qpn, Wc, WcStatus, WrId};
use std::rc::Rc;

/// Completions taken from the library at a time.
const BATCH: usize = 16;

/// One vain poll in so many looks after queue pairs that are stuck, for programs that never park: every few milliseconds
/// of vain polling.
const LOOK_EVERY: u32 = 1 << 16;

/// A completion queue. Polling costs what the library's own poll does, and the conversion of each completion.
pub struct IbvCq {
    pub(crate) core: Rc<Core>,
    pub(crate) raw: Rc<Completions>,
    batch: [ffi::Wc; BATCH],
    /// Polls that found nothing.
    vain: u32,
}

impl IbvCq {
    pub(crate) fn new(core: &Rc<Core>, raw: Rc<Completions>) -> IbvCq {
        IbvCq {
            core: core.clone(),
            raw,
            batch: [ffi::Wc::default(); BATCH],
            vain: 0,
        }
    }
}

impl CompletionQueue<Ibv> for IbvCq {
    #[inline]
    fn poll(&mut self, _cpu: &NativeCpu, wcs: &mut [Wc]) -> usize {
        let got = self.take_batch(wcs.len());
        match wcs {
            // What is found most often is nothing or one, and neither is a loop.
            _ if got == 0 => self.found_nothing(),
            [to, ..] if got == 1 => self.convert_one(to),
            _ => self.convert_more(wcs, got),
        }
    }
}

impl IbvCq {
    /// Takes no more than a batch, as it comes.
    #[inline(always)]
    fn take_batch(&mut self, space: usize) -> usize {
        let asked = space.min(BATCH);
        self.raw.poll(&mut self.batch[..asked])
    }

    #[inline(always)]
    fn convert_one(&mut self, to: &mut Wc) -> usize {
        convert(&self.core, &self.raw.done.counts(), &self.batch[0], to);
        1
    }

    /// The batch that was taken, and those behind it as long as they are full.
    #[inline(never)]
    fn convert_more(&mut self, wcs: &mut [Wc], got: usize) -> usize {
        self.convert_batch(wcs, got);
        match got == BATCH && wcs.len() > BATCH {
            true => self.poll_on(wcs),
            false => got,
        }
    }

    #[inline(always)]
    fn convert_batch(&self, wcs: &mut [Wc], got: usize) {
        let (core, done) = (&*self.core, self.raw.done.counts());
        for (to, from) in wcs.iter_mut().zip(&self.batch[..got]) {
            convert(core, &done, from, to);
        }
    }

    /// Behind a full batch.
    #[inline(never)]
    fn poll_on(&mut self, wcs: &mut [Wc]) -> usize {
        let mut count = BATCH;
        loop {
            let got = self.take_batch(wcs.len() - count);
            self.convert_batch(&mut wcs[count..], got);
            count += got;
            if got < BATCH {
                return count;
            }
        }
    }

    /// Nothing there. Whether the core is let go meanwhile is for run loops to say, who know what else it does: a server
    /// that polls a quiet queue beside a busy one must not make a system call each time.
    #[inline]
    fn found_nothing(&mut self) -> usize {
        self.vain = self.vain.wrapping_add(1);
        if self.vain.is_multiple_of(LOOK_EVERY) {
            self.core.watch();
        }
        0
    }
}

/// One completion, counted.
#[inline(always)]
fn convert(core: &Core, done: &Counts<'_>, from: &ffi::Wc, to: &mut Wc) {
    *to = converted(from);
    done.count(from);
    if from.status != ffi::WC_SUCCESS {
        failed(core, from, to);
    }
}

/// The rest of the conversion of a bad completion, and what follows from it.
#[cold]
fn failed(core: &Core, from: &ffi::Wc, to: &mut Wc) {
    to.status = status(from.status);
    core.mark_failed(from.qp_num);
}

/// A completion as if it were a good one.
#[inline(always)]
fn converted(wc: &ffi::Wc) -> Wc {
    let with_imm = wc.wc_flags & ffi::WC_WITH_IMM != 0;
    Wc {
        wr_id: WrId(wc.wr_id),
        status: WcStatus::Success,
        opcode: OPCODES[wc.opcode as usize & 0xff],
        byte_len: wc.byte_len,
        imm: with_imm.then(|| Imm(u32::from_be(wc.imm_data))),
        qpn: Qpn(wc.qp_num),
        src_qpn: Qpn(wc.src_qp),
    }
}

/// Statuses that verbs have and [`WcStatus`] has not are faults of the device or its driver; they come as the nearest:
/// could not be done. A local fault in operating the queue pair is, with software RoCE, a local key that names nothing
/// (*measured by us*), so it comes as the fault that other devices call that.
fn status(status: u32) -> WcStatus {
    match status {
        ffi::WC_SUCCESS => WcStatus::Success,
        ffi::WC_LOC_LEN_ERR => WcStatus::LocalLength,
        ffi::WC_LOC_PROT_ERR | ffi::WC_LOC_ACCESS_ERR | ffi::WC_LOC_QP_OP_ERR => WcStatus::LocalProtection,
        ffi::WC_WR_FLUSH_ERR => WcStatus::Flushed,
        ffi::WC_REM_INV_REQ_ERR => WcStatus::RemoteInvalidRequest,
        ffi::WC_REM_ACCESS_ERR => WcStatus::RemoteAccess,
        ffi::WC_RETRY_EXC_ERR => WcStatus::RetryExceeded,
        ffi::WC_RNR_RETRY_EXC_ERR => WcStatus::RnrRetryExceeded,
        _ => WcStatus::RemoteOperation,
    }
}

/// What completed, by the library's number: what has none of ours is sent as a SEND, if at all. A table, because a
/// completion of each kind may follow any other, and branches would be guessed wrongly.
const OPCODES: [Opcode; 256] = {
    let mut table = [Opcode::Send; 256];
    table[ffi::WC_RDMA_WRITE as usize] = Opcode::Write;
    table[ffi::WC_RDMA_READ as usize] = Opcode::Read;
    table[ffi::WC_COMP_SWAP as usize] = Opcode::CompareSwap;
    table[ffi::WC_FETCH_ADD as usize] = Opcode::FetchAdd;
    table[ffi::WC_RECV as usize] = Opcode::Recv;
    table[ffi::WC_RECV_RDMA_WITH_IMM as usize] = Opcode::RecvWriteImm;
    table
};
