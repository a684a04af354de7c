//! [`IbvCq`], and the conversion of the library's completions.

use crate::Ibv;
use crate::core::Core;
use crate::ffi;
use crate::raw::{Completions, Counts};
use drover_mem::NativeCpu;
use drover_verbs::{CompletionQueue, Imm, Opcode, Qpn, Wc, WcStatus, WrId};
use std::rc::Rc;

/// Completions taken from the library per call.
const BATCH: usize = 16;

/// Empty polls between two checks for stuck queue pairs, for programs that never park: a few milliseconds of polling.
const LOOK_EVERY: u32 = 1 << 16;

/// A completion queue. A poll costs libibverbs' own poll and the conversion of each completion.
pub struct IbvCq {
    pub(crate) core: Rc<Core>,
    pub(crate) raw: Rc<Completions>,
    batch: [ffi::Wc; BATCH],
    /// Number of empty polls.
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
            // Most polls find no or one completion, so these cases have no loop.
            _ if got == 0 => self.found_nothing(),
            [to, ..] if got == 1 => self.convert_one(to),
            _ => self.convert_more(wcs, got),
        }
    }
}

impl IbvCq {
    /// Takes at most one batch.
    #[inline(always)]
    fn take_batch(&mut self, space: usize) -> usize {
        let asked = space.min(BATCH);
        self.raw.poll(&mut self.batch[..asked])
    }

    #[inline(always)]
    fn convert_one(&mut self, to: &mut Wc) -> usize {
        self.raw.count(1);
        convert(&self.core, &self.raw.done.counts(), &self.batch[0], to);
        1
    }

    /// Converts the batch that was taken, and further batches as long as they are full.
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
        self.raw.count(got);
        let (core, done) = (&*self.core, self.raw.done.counts());
        for (to, from) in wcs.iter_mut().zip(&self.batch[..got]) {
            convert(core, &done, from, to);
        }
    }

    /// Polls on after a full batch.
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

    /// Handles an empty poll. Run loops decide whether to yield the core, because they know its other work: a server
    /// that polls a quiet queue along with a busy one must not make a system call each time.
    #[inline]
    fn found_nothing(&mut self) -> usize {
        self.vain = self.vain.wrapping_add(1);
        if self.vain.is_multiple_of(LOOK_EVERY) {
            self.raw.publish();
            self.core.watch();
        }
        0
    }
}

/// Converts one completion and counts it.
#[inline(always)]
fn convert(core: &Core, done: &Counts<'_>, from: &ffi::Wc, to: &mut Wc) {
    *to = converted(from);
    done.count(from);
    if from.status != ffi::WC_SUCCESS {
        failed(core, from, to);
    }
}

/// Converts the remaining fields of a failed completion, and handles the failure.
#[cold]
fn failed(core: &Core, from: &ffi::Wc, to: &mut Wc) {
    to.status = status(from.status);
    core.opening.counters.failed(to.status);
    core.mark_failed(from.qp_num);
}

/// Converts a completion as if it were successful.
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

/// Statuses of verbs that [`WcStatus`] lacks are faults of the device or its driver, and become the nearest status: the
/// operation failed. With software RoCE a local queue pair operation error means an unknown local key (*measured by
/// us*), so it becomes the status that other devices report for that.
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

/// Opcode by the library's number; unknown numbers become SEND. A table, because completions of all kinds alternate and
/// branches would be mispredicted.
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
