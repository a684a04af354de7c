//! [`Queues`]: a queue pair with its own completion queue, and the requests staged for it.

use drover_verbs::{
    CompletionQueue, Context, CreateError, PIECES_MAX, Payload, Pieces, PostError, Provider, QpKind,
    QpOptions, QueuePair, RecvList, RecvWr, SendList, SendOp, SendWr, Sge, Wc, WrId,
};

/// Mask of the lower 32 bits of a work request id: an index, such as a slot. The upper 32 bits say what the request was
/// for; each system defines its own.
pub const WHICH: u64 = (1 << 32) - 1;

/// Maximum numbers of work requests in flight at a [`Queues`].
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// READs, WRITEs and SENDs in flight; one that is divided into pieces counts once.
    pub sends: usize,
    /// RECVs in flight.
    pub recvs: usize,
    /// Long values in flight, whose READs and WRITEs are divided into pieces.
    pub longs: usize,
    /// Length of the longest value that is READ or WRITTEN, bytes.
    pub long_bytes_max: usize,
}

impl Depths {
    /// Depths for `sends` short requests in flight, and no RECV.
    pub const fn of_sends(sends: usize) -> Depths {
        Depths {
            sends,
            recvs: 0,
            longs: 0,
            long_bytes_max: 0,
        }
    }
}

/// One end of an RC connection, at a client or a server: a queue pair, its completion queue, and requests staged for
/// it.
pub struct Queues<P: Provider> {
    /// The queue pair; dropping the `Queues` moves it to the error state.
    pub qp: P::Qp,
    cq: P::Cq,
    /// How READs and WRITEs of long values are divided into pieces.
    pub pieces: Pieces,
    list: SendList,
    recvs: RecvList,
}

impl<P: Provider> Queues<P> {
    /// Creates queues of the given depths.
    ///
    /// # Errors
    /// [`CreateError`] if the device cannot create a queue.
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

    /// Polls completions into `wcs`; returns their number.
    #[inline]
    pub fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize {
        self.cq.poll(cpu, wcs)
    }

    /// Stages a READ, WRITE or SEND with id `wr_id`, divided into pieces if it is long; at most the last piece is
    /// signaled. [`post`](Queues::post) posts it.
    #[inline(always)]
    pub fn stage(&mut self, wr_id: u64, op: SendOp, sge: Sge, signaled: bool) {
        // Nothing but the list gets it, so that it is built there, and not copied from elsewhere: such a copy waits for the
        // stores before it, which may go to other cores' memory.
        self.list.push(SendWr {
            wr_id: WrId(wr_id),
            op,
            payload: Payload::Region(sge),
            signaled,
            fence: false,
        });
        if self.pieces.count(sge.len as usize) > 1 {
            self.split_last();
        }
    }

    /// Divides the last request of the list into pieces.
    #[cold]
    #[inline(never)]
    fn split_last(&mut self) {
        let whole = self.list.pop().expect("a request was just staged");
        self.pieces.of(whole).for_each(|wr| self.list.push(wr));
    }

    /// Stages `wr` as it is, without dividing it.
    #[inline]
    pub fn push(&mut self, wr: SendWr) {
        self.list.push(wr);
    }

    /// Stages a RECV into `sge` with id `wr_id`, for [`post`](Queues::post).
    pub fn expect(&mut self, wr_id: u64, sge: Sge) {
        let wr_id = WrId(wr_id);
        self.recvs.push(RecvWr { wr_id, sge });
    }

    /// Posts all staged requests. RECVs are posted first, so that a peer that receives a reply finds a RECV for its
    /// next message.
    ///
    /// # Errors
    /// [`PostError`] if the queue pair has failed or a queue is full; the connection is then unusable.
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
