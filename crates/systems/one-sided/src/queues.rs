//! [`Queues`]: a queue pair with a completion queue of its own, and what is staged for it.

use drover_verbs::{
    CompletionQueue, Context, CreateError, PIECES_MAX, Pieces, PostError, Provider, QpKind, QpOptions,
    QueuePair, RecvList, RecvWr, SendList, SendOp, SendWr, Sge, Wc, WrId,
};

/// A request's name says what it was for in its upper half, and which one of those it is in its lower.
pub const WHICH: u64 = (1 << 32) - 1;

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// Requests, those of long values but for the last of each not counted.
    pub sends: usize,
    /// RECVs.
    pub recvs: usize,
    /// Transfers of long values, which move in pieces.
    pub longs: usize,
    /// Longest of those, bytes.
    pub long_bytes_max: usize,
}

/// One end of an RC connection, at a client or a server.
pub struct Queues<P: Provider> {
    /// Gone to error when this is dropped.
    pub qp: P::Qp,
    cq: P::Cq,
    /// How READs and WRITEs of long values are cut.
    pub pieces: Pieces,
    list: SendList,
    recvs: RecvList,
}

impl<P: Provider> Queues<P> {
    /// For as much as `depths` say.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(ctx: &P::Context, depths: Depths) -> Result<Queues<P>, CreateError> {
        let send_depth = depths.sends + depths.longs * PIECES_MAX;
        let cq = ctx.create_cq(send_depth + depths.recvs.max(1))?;
        let qp = ctx.create_qp(&QpOptions {
            send_depth,
            recv_depth: depths.recvs.max(1),
            ..QpOptions::new(QpKind::Rc, &cq, ctx.caps())
        })?;
        Ok(Queues {
            qp,
            cq,
            pieces: Pieces::new(depths.long_bytes_max, PIECES_MAX),
            list: SendList::with_capacity(send_depth, 0),
            recvs: RecvList::with_capacity(depths.recvs),
        })
    }

    /// What has completed.
    #[inline]
    pub fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize {
        self.cq.poll(cpu, wcs)
    }

    /// Stages a request, in pieces if it is long.
    #[inline(always)]
    pub fn stage(&mut self, wr_id: u64, op: SendOp, sge: Sge, signaled: bool) {
        let whole = SendWr::new(op, sge).signaled_if(signaled, WrId(wr_id));
        match self.pieces.count(sge.len as usize) {
            1 => self.list.push(whole),
            _ => self.stage_pieces(whole),
        }
    }

    #[cold]
    #[inline(never)]
    fn stage_pieces(&mut self, whole: SendWr) {
        self.pieces.of(whole).for_each(|wr| self.list.push(wr));
    }

    /// Stages a request as it is.
    #[inline]
    pub fn push(&mut self, wr: SendWr) {
        self.list.push(wr);
    }

    /// Stages a RECV.
    pub fn expect(&mut self, wr_id: u64, sge: Sge) {
        let wr_id = WrId(wr_id);
        self.recvs.push(RecvWr { wr_id, sge });
    }

    /// Posts what is staged. RECVs go first: who is answered finds one for what it sends next.
    ///
    /// # Errors
    /// The queue pair is of no more use.
    pub fn post(&mut self, cpu: &P::Cpu) -> Result<(), PostError> {
        if !self.recvs.wrs().is_empty() {
            self.qp.post_recv(cpu, &self.recvs)?;
            self.recvs.clear();
        }
        if !self.list.is_empty() {
            self.qp.post_send(cpu, &self.list)?;
            self.list.clear();
        }
        Ok(())
    }
}

impl<P: Provider> Drop for Queues<P> {
    fn drop(&mut self) {
        self.qp.to_error();
    }
}
