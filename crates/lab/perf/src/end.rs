//! [`End`]: a queue pair and its memory, made for a plan.
//!
//! ```text
//!   region   0 ............ half        used by the peer: its WRITEs and READs end at `half`; RECVs begin at 0
//!            half ..... 2 * half        outgoing messages and READ results: end at `2 * half`
//! ```
//! Messages of all lengths end at the same address, so the last byte is always the same one.

use crate::{Metric, PerfError, Plan, Verb};
use drover_base::Ns;
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, Export, GRH_BYTES, MemoryRegion, Payload, Provider, QpKind, QpOptions, QueuePair,
    RecvList, RecvWr, RemoteRegion, SendList, UdDest, Watch, WrId,
};

/// Q_Key of datagrams, as in perftest.
const QKEY: u32 = 0x1111_1111;

/// One end of the measured connection. Owns a queue pair, its two completion queues and a registered region, and keeps
/// the [`Plan`] that they were made for.
pub struct End<P: Provider> {
    pub(crate) qp: P::Qp,
    pub(crate) send_cq: P::Cq,
    pub(crate) recv_cq: P::Cq,
    pub(crate) mr: P::Mr,
    /// The peer's region; `None` before [`meet`](End::meet).
    pub(crate) remote: Option<RemoteRegion>,
    /// Address of the peer, over UD.
    pub(crate) dest: Option<UdDest>,
    pub(crate) half: usize,
    pub(crate) plan: Plan,
    pub(crate) recvs: RecvList,
    /// Number of consumed RECVs that have not been posted again.
    pub(crate) spent: usize,
}

impl<P: Provider> End<P> {
    /// Creates an unconnected end in `ctx`; posts [`rx_depth`](Plan::rx_depth) RECVs if the plan measures SEND.
    ///
    /// # Errors
    /// [`PerfError::Plan`] if `ctx` does not support the plan; else memory, queues or RECVs could not be made.
    pub fn new(ctx: &P::Context, plan: &Plan) -> Result<End<P>, PerfError> {
        plan.check(ctx.caps())?;
        let half = (plan.size_max() + GRH_BYTES).next_multiple_of(4096);
        let region = ctx.alloc(2 * half, PageWish::Small)?;
        let access = match plan.op.verb {
            Verb::Send => Access::LOCAL,
            _ => Access::ALL,
        };
        let mr = ctx.register(&region, access)?;
        let (tx, rx) = (plan.tx_depth as usize, plan.rx_depth as usize);
        let (send_cq, recv_cq) = (ctx.create_cq(tx)?, ctx.create_cq(rx)?);
        let mut options = QpOptions::<P>::new(plan.kind, &send_cq, ctx.caps());
        options.recv_cq = &recv_cq;
        (options.send_depth, options.recv_depth) = (tx, rx);
        options.inline_bytes = plan.inline_bytes as usize;
        options.qkey = QKEY;
        options.rnr_timeout = Ns::MAX;
        let qp = ctx.create_qp(&options)?;
        let mut end = End {
            qp,
            send_cq,
            recv_cq,
            mr,
            remote: None,
            dest: None,
            half,
            plan: plan.clone(),
            recvs: RecvList::with_capacity(rx),
            spent: 0,
        };
        if plan.op.verb == Verb::Send {
            end.spent = rx;
            end.renew_recvs(ctx.cpu(), rx)?;
        }
        Ok(end)
    }

    /// Describes this end's queue pair and memory, in this order; the other end passes both to [`meet`](End::meet).
    ///
    /// # Errors
    /// The provider cannot export them.
    pub fn exports(&self, ctx: &P::Context) -> Result<[Export; 2], PerfError> {
        let watch = Watch {
            range: self.half - 8..self.half,
            bell: ctx.bell(),
        };
        let watches = match ctx.caps().wakes.on_memory && self.plan.op.metric == Metric::Latency {
            true => vec![watch],
            false => Vec::new(),
        };
        Ok([self.qp.export()?, self.mr.export(&watches)?])
    }

    /// Connects this end's queue pair to the other end, whose [`exports`](End::exports) are `theirs`. The other end
    /// must do the same.
    ///
    /// # Errors
    /// The exports are of another fabric, or the device refuses.
    pub fn meet(&mut self, ctx: &P::Context, theirs: &[Export; 2]) -> Result<(), PerfError> {
        let [qp, region] = theirs;
        match self.plan.kind {
            QpKind::Ud => self.dest = Some(ctx.create_ah(qp)?),
            QpKind::Rc | QpKind::Uc => self.qp.connect(qp)?,
        }
        self.remote = Some(ctx.import_region(region)?);
        Ok(())
    }

    /// Offset of the outgoing message of `bytes`, and of READ results.
    pub(crate) fn outgoing(&self, bytes: usize) -> usize {
        2 * self.half - bytes
    }

    /// Offset of a message of `bytes` in the other end's region.
    pub(crate) fn landing(&self, bytes: usize) -> usize {
        self.half - bytes
    }

    /// Payload of a message with last byte `last`.
    #[inline]
    pub(crate) fn payload(&self, list: &mut SendList, bytes: usize, last: u8) -> Payload {
        if bytes <= self.plan.inline_bytes as usize {
            return list.inline_with(bytes, |to| to[bytes - 1] = last);
        }
        Payload::Region(self.mr.sge(self.outgoing(bytes), bytes))
    }

    /// Posts RECVs again once `enough` are consumed.
    #[inline]
    pub(crate) fn renew_recvs(&mut self, cpu: &P::Cpu, enough: usize) -> Result<(), PerfError> {
        if self.spent < enough {
            return Ok(());
        }
        self.recvs.clear();
        let gap = if self.plan.kind == QpKind::Ud {
            GRH_BYTES
        } else {
            0
        };
        let sge = self.mr.sge(0, self.plan.size_max() + gap);
        for _ in 0..self.spent {
            self.recvs.push(RecvWr { wr_id: WrId(0), sge });
        }
        self.spent = 0;
        Ok(self.qp.post_recv(cpu, &self.recvs)?)
    }
}

/// Connects two ends on the same thread with each other.
///
/// # Errors
/// As [`End::exports`] and [`End::meet`].
pub fn join<P: Provider>(ends: [(&P::Context, &mut End<P>); 2]) -> Result<(), PerfError> {
    let [(a_ctx, a), (b_ctx, b)] = ends;
    let (a_exports, b_exports) = (a.exports(a_ctx)?, b.exports(b_ctx)?);
    a.meet(a_ctx, &b_exports)?;
    b.meet(b_ctx, &a_exports)
}
