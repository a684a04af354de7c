//! [`Receive`]: the UD queue pair for replies and its RECV buffers.
//!
//! UD knows no "receiver not ready": a datagram that finds no RECV is gone. So more RECVs are posted than
//! requests can be outstanding, and every completion, duplicates included, is followed by a new RECV before
//! the surplus is used up.
//!
//! The RECVs of a queue pair complete in the order of their posting. So they go round in lists made once: when all of
//! one are done, the same list is posted again.
//!
//! ```text
//! piece:  | 24 unused | 40 GRH | payload ..., starts on a cache line |
//! ```

use drover_base::Cpu;
use drover_mem::{PageWish, round_up};
use drover_verbs::{
    Access, Caps, Context, GRH_BYTES, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RecvList, RecvWr,
    Wc, WrId,
};

/// Where a RECV's memory starts in its piece: the payload after the GRH starts on the next line.
const LEAD_BYTES: usize = 64 - GRH_BYTES;
/// RECVs for duplicates and late replies between two postings.
const SPARE: usize = 16;

pub(super) struct Receive<P: Provider> {
    pub(super) qp: P::Qp,
    mr: P::Mr,
    piece_bytes: usize,
    /// All RECVs, as many in each list, in the order in which they complete.
    lists: Box<[RecvList]>,
    /// The list of which RECVs complete now, and how many have.
    list: usize,
    done: usize,
}

impl<P: Provider> Receive<P> {
    /// How many RECVs a window of `request_count` wants.
    pub(super) fn recv_count(request_count: usize) -> usize {
        let batch = Receive::<P>::batch(request_count);
        (request_count + batch + SPARE).next_multiple_of(batch)
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
    ) -> Result<Receive<P>, drover_kv::SetupError> {
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
        let mut receive: Receive<P> = Receive {
            qp,
            mr,
            piece_bytes,
            lists: Box::default(),
            list: 0,
            done: 0,
        };
        let batch = Receive::<P>::batch(request_count);
        let lists = (0..count).step_by(batch).map(|first| {
            let mut list = RecvList::with_capacity(batch);
            for piece in first..first + batch {
                list.push(receive.recv(piece, GRH_BYTES + payload_bytes));
            }
            list
        });
        receive.lists = lists.collect();
        for list in &receive.lists {
            receive.qp.post_recv(ctx.cpu(), list)?;
        }
        Ok(receive)
    }

    /// The RECV of a piece.
    fn recv(&self, piece: usize, len: usize) -> RecvWr {
        RecvWr {
            wr_id: WrId(piece as u64),
            sge: self.mr.sge(piece * self.piece_bytes + LEAD_BYTES, len),
        }
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

    /// `count` more RECVs are done. Their payloads stay until [`repost`](Receive::repost).
    #[inline(always)]
    pub(super) fn done(&mut self, count: usize) {
        self.done += count;
    }

    /// Posts the lists that are done again. False if the queue pair refuses one.
    #[inline(always)]
    pub(super) fn repost(&mut self, cpu: &P::Cpu) -> bool {
        while let Some(list) = self.lists.get(self.list)
            && self.done >= list.wrs().len()
        {
            if self.qp.post_recv(cpu, list).is_err() {
                return false;
            }
            self.done -= list.wrs().len();
            self.list = if self.list + 1 < self.lists.len() {
                self.list + 1
            } else {
                0
            };
        }
        true
    }
}
