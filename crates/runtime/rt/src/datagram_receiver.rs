//! [`DatagramReceiver`]: a UD queue pair for replies, with its RECVs.
//!
//! UD knows no "receiver not ready": a datagram that finds no RECV is lost. So more RECVs are posted than requests can
//! be outstanding, and each completion, even of a duplicate, is followed by a new RECV before the surplus is used up.
//!
//! The RECVs of a queue pair complete in the order of their posting. So the lists of RECVs are made once: when all
//! RECVs of a list are complete, the same list is posted again.
//!
//! ```text
//! piece:  | 24 unused | 40 GRH | payload ..., starts on a cache line |
//! ```

use crate::ResourceError;
use drover_base::Cpu;
use drover_mem::{PageWish, round_up};
use drover_verbs::{
    Access, Context, GRH_BYTES, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RecvList, RecvWr, Wc,
    WrId,
};

/// Where a RECV's memory starts in its piece: the payload after the GRH starts on the next line.
const LEAD_BYTES: usize = 64 - GRH_BYTES;
/// RECVs for duplicates and late replies between two postings.
const SPARE: usize = 16;

/// A UD queue pair that receives replies, with its RECVs and their registered memory; it owns all three. The owner may
/// also send on the queue pair.
pub struct DatagramReceiver<P: Provider> {
    /// The queue pair.
    pub qp: P::Qp,
    mr: P::Mr,
    piece_bytes: usize,
    /// All RECVs, as many in each list, in the order in which they complete.
    lists: Box<[RecvList]>,
    /// The list of which RECVs complete now, and how many have.
    list: usize,
    done: usize,
}

impl<P: Provider> DatagramReceiver<P> {
    /// Number of RECVs that a receiver for `request_count` outstanding requests posts. Its completion queue needs space
    /// for as many completions.
    pub fn recv_count(request_count: usize) -> usize {
        let batch = DatagramReceiver::<P>::batch(request_count);
        (request_count + batch + SPARE).next_multiple_of(batch)
    }

    fn batch(request_count: usize) -> usize {
        request_count.clamp(1, 16)
    }

    /// Creates the queue pair, which completes on `cq` and has a random queue key, and posts its RECVs: as many as
    /// [`recv_count`](DatagramReceiver::recv_count) gives for `request_count` outstanding requests, each with space for
    /// a reply of `payload_bytes`. The send queue holds `send_depth` requests.
    ///
    /// # Errors
    /// There is no memory, or the device refuses memory, queue pair or RECVs.
    pub fn new(
        ctx: &P::Context,
        cq: &P::Cq,
        request_count: usize,
        payload_bytes: usize,
        send_depth: usize,
    ) -> Result<DatagramReceiver<P>, ResourceError> {
        let count = DatagramReceiver::<P>::recv_count(request_count);
        let piece_bytes = round_up(LEAD_BYTES + GRH_BYTES + payload_bytes.max(64), 64);
        let region = ctx.alloc(count * piece_bytes, PageWish::Small)?;
        let mr = ctx.register(&region, Access::LOCAL)?;
        let qp = ctx.create_qp(&QpOptions {
            recv_depth: count,
            send_depth,
            // A stale reply of an earlier session must not land here.
            qkey: ctx.cpu().random() as u32 & 0x7fff_ffff,
            ..QpOptions::new(QpKind::Ud, cq, ctx.caps())
        })?;
        let mut receive: DatagramReceiver<P> = DatagramReceiver {
            qp,
            mr,
            piece_bytes,
            lists: Box::default(),
            list: 0,
            done: 0,
        };
        let batch = DatagramReceiver::<P>::batch(request_count);
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

    /// The RECV of a piece. Its id is the offset of the payload.
    fn recv(&self, piece: usize, len: usize) -> RecvWr {
        let offset = piece * self.piece_bytes + LEAD_BYTES;
        RecvWr {
            wr_id: WrId((offset + GRH_BYTES) as u64),
            sge: self.mr.sge(offset, len),
        }
    }

    /// Copies the payload of a received datagram, whose completion is `wc`, to `out` and returns it. `None`: the
    /// payload is longer than `out`, or the datagram shorter than the GRH.
    #[inline(always)]
    pub fn payload<'a>(&self, wc: &Wc, out: &'a mut [u8]) -> Option<&'a [u8]> {
        let len = (wc.byte_len as usize).checked_sub(GRH_BYTES)?;
        let out = out.get_mut(..len)?;
        self.mr.region().copy_short_out(wc.wr_id.0 as usize, out);
        Some(out)
    }

    /// Notes that the next `count` RECVs, in the order of posting, have completed. Their payloads stay until the next
    /// [`repost`](DatagramReceiver::repost).
    #[inline(always)]
    pub fn done(&mut self, count: usize) {
        self.done += count;
    }

    /// Posts completed RECVs again. They are posted in fixed lists of up to 16, so a list is posted when all of its
    /// RECVs are [done](DatagramReceiver::done). Returns false if the queue pair refuses a list.
    #[inline(always)]
    pub fn repost(&mut self, cpu: &P::Cpu) -> bool {
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
