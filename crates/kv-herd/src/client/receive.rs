//! [`Receive`]: the UD queue pair for replies and its RECV buffers.
//!
//! UD knows no "receiver not ready": a datagram that finds no RECV is gone. So more RECVs are posted than
//! requests can be outstanding, and every completion, duplicates included, is followed by a new RECV before
//! the surplus is used up.
//!
//! ```text
//! piece:  | 24 unused | 40 GRH | payload ..., starts on a cache line |
//! ```

use drover_base::Cpu;
use drover_mem::{PageWish, round_up};
use drover_verbs::{
    Access, Caps, Context, GRH_BYTES, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RecvList, RecvWr,
    Sge, Wc, WrId,
};

/// Where a RECV's memory starts in its piece: the payload after the GRH starts on the next line.
const LEAD_BYTES: usize = 64 - GRH_BYTES;
/// RECVs for duplicates and late replies between two postings.
const SPARE: usize = 16;

pub(super) struct Receive<P: Provider> {
    pub(super) qp: P::Qp,
    mr: P::Mr,
    /// The first piece's RECV: others differ in their offset.
    first: Sge,
    piece_bytes: usize,
    list: RecvList,
    /// RECVs collected before they are posted.
    batch: usize,
}

impl<P: Provider> Receive<P> {
    /// How many RECVs a window of `request_count` wants.
    pub(super) fn recv_count(request_count: usize) -> usize {
        request_count + Receive::<P>::batch(request_count) + SPARE
    }

    fn batch(request_count: usize) -> usize {
        (request_count / 2).clamp(1, 16)
    }

    /// A UD queue pair with all RECVs posted, for `request_count` outstanding requests and replies of at most
    /// `payload_bytes`.
    pub(super) fn new(
        ctx: &P::Context,
        cq: &P::Cq,
        caps: &Caps,
        request_count: usize,
        payload_bytes: usize,
        send_depth: usize,
    ) -> Result<Receive<P>, super::SetupError> {
        let count = Receive::<P>::recv_count(request_count);
        let piece_bytes = round_up(LEAD_BYTES + GRH_BYTES + payload_bytes.max(64), 64);
        let region = ctx.alloc(count * piece_bytes, PageWish::Small)?;
        let mr = ctx.register(&region, Access::LOCAL)?;
        let qp = ctx.create_qp(&QpOptions {
            recv_depth: count,
            send_depth,
            // A stale reply of an earlier session must not land here.
            qkey: ctx.cpu().random() as u32 & 0x7fff_ffff,
            ..QpOptions::new(QpKind::Ud, cq, caps)
        })?;
        let first = mr.sge(LEAD_BYTES, GRH_BYTES + payload_bytes);
        let mut receive: Receive<P> = Receive {
            qp,
            mr,
            first,
            piece_bytes,
            list: RecvList::with_capacity(count),
            batch: Receive::<P>::batch(request_count),
        };
        for piece in 0..count {
            receive.collect(WrId(piece as u64));
        }
        let list = std::mem::take(&mut receive.list);
        receive.qp.post_recv(ctx.cpu(), &list)?;
        Ok(receive)
    }

    /// The payload of a received datagram; `None` if there is something wrong with its length.
    #[inline(always)]
    pub(super) fn payload<'a>(&self, wc: &Wc, out: &'a mut [u8; 1024]) -> Option<&'a [u8]> {
        let len = (wc.byte_len as usize).checked_sub(GRH_BYTES)?;
        let offset = wc.wr_id.0 as usize * self.piece_bytes + LEAD_BYTES + GRH_BYTES;
        let out = out.get_mut(..len)?;
        self.mr.region().copy_short_out(offset, out);
        Some(out)
    }

    /// The RECV of this completion will be posted again. Its payload stays until [`repost`](Receive::repost).
    #[inline(always)]
    pub(super) fn collect(&mut self, wr_id: WrId) {
        let sge = Sge {
            offset: self.first.offset + wr_id.0 * self.piece_bytes as u64,
            ..self.first
        };
        self.list.push(RecvWr { wr_id, sge });
    }

    /// Posts the collected RECVs if there are enough. False if the queue pair refuses them.
    #[inline(always)]
    pub(super) fn repost(&mut self, cpu: &P::Cpu) -> bool {
        if self.list.wrs().len() < self.batch {
            return true;
        }
        let posted = self.qp.post_recv(cpu, &self.list);
        self.list.clear();
        posted.is_ok()
    }
}
