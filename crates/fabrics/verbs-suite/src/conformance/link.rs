//! [`Link`]: a queue pair at each end, and a region at each end that the other may access.

use super::{End, Stop};
use drover_base::Ns;
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, Export, GRH_BYTES, Imm, MemoryRegion, Payload, PostError, Provider, QpKind, QpOptions,
    QueuePair, RecvList, RecvWr, RemoteRegion, SendList, SendOp, SendWr, Sge, UdDest, WrId,
};

/// Bytes of each half of a link's region: the peer writes to the lower half, we send from the upper half.
pub(super) const HALF_BYTES: usize = 64 << 10;

/// Options of a link.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) access: Access,
    pub(super) send_depth: usize,
    pub(super) recv_depth: usize,
    pub(super) rnr_timeout: Ns,
    pub(super) qkey: u32,
}

impl Setup {
    pub(super) fn new() -> Setup {
        Setup {
            access: Access::ALL,
            send_depth: 64,
            recv_depth: 64,
            rnr_timeout: Ns::MAX,
            qkey: 0x1234,
        }
    }
}

/// One end of a connection (or, for UD, of an exchange of datagrams).
pub(super) struct Link<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) send_cq: usize,
    pub(super) recv_cq: usize,
    pub(super) mr: P::Mr,
    pub(super) remote: RemoteRegion,
    pub(super) dest: Option<UdDest>,
    staged: usize,
}

impl<P: Provider> End<P> {
    /// A queue pair with completion queues of its own.
    pub(super) fn queue_pair(
        &mut self,
        setup: &Setup,
        srq: Option<&P::Srq>,
    ) -> Result<(P::Qp, usize, usize), Stop> {
        let (send_cq, recv_cq) = (self.add_cq()?, self.add_cq()?);
        let mut options = QpOptions::new(self.kind, &self.cqs[send_cq].cq, self.ctx.caps());
        options.recv_cq = &self.cqs[recv_cq].cq;
        options.srq = srq;
        options.send_depth = setup.send_depth;
        options.recv_depth = setup.recv_depth;
        options.rnr_timeout = setup.rnr_timeout;
        options.qkey = setup.qkey;
        Ok((self.ctx.create_qp(&options)?, send_cq, recv_cq))
    }

    /// Creates a link; the other end does the same at the same time.
    pub(super) async fn link(&mut self, setup: &Setup) -> Result<Link<P>, Stop> {
        self.link_with(setup, None).await
    }

    /// Creates a link whose queue pair takes its RECVs from `srq`.
    pub(super) async fn link_with(&mut self, setup: &Setup, srq: Option<&P::Srq>) -> Result<Link<P>, Stop> {
        let region = self.ctx.alloc(2 * HALF_BYTES, PageWish::Small)?;
        let mr = self.ctx.register(&region, setup.access)?;
        self.send_export(mr.export(&[])?)?;
        let remote = self.receive_export().await?;
        let remote = self.ctx.import_region(&remote)?;
        self.join_over(setup, srq, mr, remote).await
    }

    /// Creates a link over memory that is registered and imported already.
    pub(super) async fn link_over(
        &mut self,
        setup: &Setup,
        mr: P::Mr,
        remote: RemoteRegion,
    ) -> Result<Link<P>, Stop> {
        self.join_over(setup, None, mr, remote).await
    }

    async fn join_over(
        &mut self,
        setup: &Setup,
        srq: Option<&P::Srq>,
        mr: P::Mr,
        remote: RemoteRegion,
    ) -> Result<Link<P>, Stop> {
        let (mut qp, send_cq, recv_cq) = self.queue_pair(setup, srq)?;
        self.send_export(qp.export()?)?;
        let theirs = self.receive_export().await?;
        let dest = self.join(&mut qp, &theirs)?;
        self.meet().await?;
        Ok(Link {
            qp,
            send_cq,
            recv_cq,
            mr,
            remote,
            dest,
            staged: 0,
        })
    }

    /// Connects the queue pair or, for UD, creates the address handle.
    pub(super) fn join(&self, qp: &mut P::Qp, theirs: &Export) -> Result<Option<UdDest>, Stop> {
        if self.kind == QpKind::Ud {
            return Ok(Some(self.ctx.create_ah(theirs)?));
        }
        qp.connect(theirs)?;
        Ok(None)
    }

    /// Bytes between the start of a RECV and its message.
    pub(super) fn gap(&self) -> usize {
        match self.kind {
            QpKind::Ud => GRH_BYTES,
            QpKind::Rc | QpKind::Uc => 0,
        }
    }
}

impl<P: Provider> Link<P> {
    /// Copies `bytes` to memory that they can be sent from.
    pub(super) fn stage(&mut self, bytes: &[u8]) -> Sge {
        if self.staged + bytes.len() > HALF_BYTES {
            self.staged = 0;
        }
        let offset = HALF_BYTES + self.staged;
        self.staged += (bytes.len() + 7) & !7;
        self.mr.region().copy_in(offset, bytes);
        self.mr.sge(offset, bytes.len())
    }

    /// A signaled WRITE of `bytes` to `offset` of the peer's region.
    pub(super) fn write(&mut self, id: u64, offset: usize, bytes: &[u8]) -> SendWr {
        let remote = self.remote.at(offset);
        signaled(
            id,
            SendOp::Write { remote, imm: None },
            Payload::Region(self.stage(bytes)),
        )
    }

    /// A signaled SEND of `bytes`.
    pub(super) fn send(&mut self, id: u64, bytes: &[u8], imm: Option<Imm>) -> SendWr {
        let dest = self.dest;
        signaled(id, SendOp::Send { dest, imm }, Payload::Region(self.stage(bytes)))
    }

    /// A signaled READ from `offset` of the peer's region to `into` of ours.
    pub(super) fn read(&self, id: u64, offset: usize, into: usize, len: usize) -> SendWr {
        let remote = self.remote.at(offset);
        signaled(
            id,
            SendOp::Read { remote },
            Payload::Region(self.mr.sge(into, len)),
        )
    }

    /// Posts one list.
    pub(super) fn post(&mut self, end: &End<P>, wrs: &[SendWr]) -> Result<(), PostError> {
        let mut list = SendList::default();
        wrs.iter().for_each(|wr| list.push(*wr));
        self.qp.post_send(end.ctx.cpu(), &list)
    }

    /// Posts one RECV into the lower half.
    pub(super) fn recv(&mut self, end: &End<P>, id: u64, offset: usize, len: usize) -> Result<(), PostError> {
        let mut list = RecvList::default();
        list.push(RecvWr {
            wr_id: WrId(id),
            sge: self.mr.sge(offset, len),
        });
        self.qp.post_recv(end.ctx.cpu(), &list)
    }

    /// Bytes of our own region.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.mr.region().copy_out(offset, &mut out);
        out
    }
}

/// A signaled request.
pub(super) fn signaled(id: u64, op: SendOp, payload: Payload) -> SendWr {
    SendWr::new(op, payload).signaled(WrId(id))
}

/// The same request without a completion.
pub(super) fn unsignaled(wr: SendWr) -> SendWr {
    SendWr {
        signaled: false,
        ..wr
    }
}

/// `len` bytes that differ for every `seed`.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (drover_base::mix((seed << 20) + i as u64 / 8 + 1) >> (i % 8 * 8)) as u8)
        .collect()
}
