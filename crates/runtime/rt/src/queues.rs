//! [`Queues`]: a queue pair with its own completion queue, and the requests staged for it.

use crate::ResourceError;
use drover_mem::AllocError;
use drover_verbs::{
    CompletionQueue, Context, CreateError, Export, PIECES_MAX, Payload, Pieces, PostError, Provider, QpKind,
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
/// it. A client's end may have a second queue pair, to the [`Port`](crate::Port) of its server.
pub struct Queues<P: Provider> {
    /// The queue pair; dropping the `Queues` moves it to the error state.
    pub qp: P::Qp,
    cq: P::Cq,
    /// How READs and WRITEs of long values are divided into pieces.
    pub pieces: Pieces,
    list: SendList,
    recvs: RecvList,
    send_depth: usize,
    port: Option<ToPort<P>>,
}

/// A client's queue pair to its port, whose requests complete in the same queue, and what is staged for it.
struct ToPort<P: Provider> {
    qp: P::Qp,
    list: SendList,
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
            send_depth,
            port: None,
        })
    }

    /// Connects to the server's port, if it has one: requests that are [staged for it](Queues::stage_to_port) go through a
    /// queue pair of their own from now on.
    ///
    /// # Errors
    /// [`ResourceError`] if the queue pair cannot be created or connected, or the fabric has no ports.
    pub fn connect_port(&mut self, ctx: &P::Context, port: Option<&Export>) -> Result<(), ResourceError> {
        let Some(port) = port else { return Ok(()) };
        if !P::ISOLATES {
            return Err(ResourceError::Unusable { what: "port" });
        }
        let mut qp = ctx.create_qp(&QpOptions {
            send_depth: self.send_depth,
            recv_depth: 1,
            ..QpOptions::new(QpKind::Rc, &self.cq, ctx.caps())
        })?;
        qp.connect(port)?;
        let list = SendList::with_capacity(self.send_depth, 0);
        self.port = Some(ToPort { qp, list });
        Ok(())
    }

    /// The client's end of the connection to the port, if there is one.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of file descriptors.
    pub fn export_port(&self) -> Result<Option<Export>, AllocError> {
        self.port.as_ref().map(|port| port.qp.export()).transpose()
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
        stage(&mut self.list, &self.pieces, (wr_id, signaled), op, sge);
    }

    /// As [`stage`](Queues::stage), for memory behind the server's port: requests for it are executed in order. If there is
    /// no port, all memory is reached alike.
    #[inline(always)]
    pub fn stage_to_port(&mut self, wr_id: u64, op: SendOp, sge: Sge, signaled: bool) {
        match &mut self.port {
            Some(port) if P::ISOLATES => stage(&mut port.list, &self.pieces, (wr_id, signaled), op, sge),
            _ => self.stage(wr_id, op, sge, signaled),
        }
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
        if P::ISOLATES
            && let Some(port) = &mut self.port
            && !port.list.is_empty()
        {
            port.qp.post_send(cpu, &port.list)?;
            port.list.clear();
        }
        Ok(())
    }
}

/// Adds a request to a list, in pieces if it is long.
#[inline(always)]
fn stage(list: &mut SendList, pieces: &Pieces, (wr_id, signaled): (u64, bool), op: SendOp, sge: Sge) {
    // Nothing but the list gets it, so that it is built there, and not copied from elsewhere: such a copy waits for the
    // stores before it, which may go to other cores' memory.
    list.push(SendWr {
        wr_id: WrId(wr_id),
        op,
        payload: Payload::Region(sge),
        signaled,
        fence: false,
    });
    if pieces.count(sge.len as usize) > 1 {
        split_last(list, pieces);
    }
}

/// Divides the last request of the list into pieces.
#[cold]
#[inline(never)]
fn split_last(list: &mut SendList, pieces: &Pieces) {
    let whole = list.pop().expect("a request was just staged");
    pieces.of(whole).for_each(|wr| list.push(wr));
}

impl<P: Provider> Drop for Queues<P> {
    fn drop(&mut self) {
        self.qp.to_error();
        if let Some(port) = &mut self.port {
            port.qp.to_error();
        }
    }
}
