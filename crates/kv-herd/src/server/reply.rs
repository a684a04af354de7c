//! [`Replies`]: SENDs over the worker's one UD queue pair, built in place, posted as one list.

use super::stats::Counters;
use crate::costs::REPLY;
use crate::layout::ReplyImm;
use drover_base::Cpu;
use drover_verbs::{
    CompletionQueue, Context, CreateError, Imm, Payload, PostErrorKind, Provider, QpKind, QpOptions,
    QueuePair, SendList, SendOp, SendWr, UdDest, Wc, WcStatus, WrId,
};

/// Polls of the completion queue before replies are given up for lost. A fabric that does not complete a
/// million polls long does not at all.
const COMPLETION_POLLS_MAX: usize = 1 << 20;

/// The worker's sending side.
pub(super) struct Replies<P: Provider> {
    pub(super) qp: P::Qp,
    send_cq: P::Cq,
    pub(super) list: SendList,
    /// Longest payload that travels in the request to the fabric itself.
    pub(super) inline_bytes_max: usize,
    /// One SEND in `period` asks for a completion, which covers all before it.
    period: usize,
    /// Requests until the next that asks, that one included.
    until_signal: usize,
    /// How many requests that one's completion will cover.
    covers: usize,
    /// Posted and not covered by a completion.
    outstanding: usize,
    depth: usize,
    wcs: [Wc; 16],
}

impl<P: Provider> Replies<P> {
    /// A queue pair that can have a batch under way beside two periods `[R16]`.
    pub(super) fn new(
        ctx: &P::Context,
        recv_cq: Option<&P::Cq>,
        recv_depth: usize,
        period: usize,
        batch: usize,
        qkey: u32,
    ) -> Result<Replies<P>, CreateError> {
        let caps = ctx.caps();
        let depth = (2 * period + batch).min(caps.send_depth_max);
        let period = period.clamp(1, (depth.saturating_sub(batch) / 2).max(1));
        let send_cq = ctx.create_cq(depth + 1)?;
        let mut options = QpOptions::<P>::new(QpKind::Ud, &send_cq, caps);
        options.recv_cq = recv_cq.unwrap_or(&send_cq);
        options.recv_depth = recv_depth;
        options.send_depth = depth;
        options.qkey = qkey;
        let inline_bytes_max = options.inline_bytes;
        let qp = ctx.create_qp(&options)?;
        Ok(Replies {
            qp,
            send_cq,
            list: SendList::with_capacity(batch, batch * 1024),
            inline_bytes_max,
            period,
            until_signal: period,
            covers: period,
            outstanding: 0,
            depth,
            wcs: [Wc::default(); 16],
        })
    }

    /// Adds a reply whose payload is in [`list`](Replies::list) or in registered memory.
    #[inline(always)]
    pub(super) fn push(&mut self, dest: &UdDest, imm: ReplyImm, payload: Payload) {
        self.list.push(SendWr {
            wr_id: WrId(0),
            op: SendOp::Send {
                dest: Some(*dest),
                imm: Some(Imm(imm.0)),
            },
            payload,
            signaled: false,
            fence: false,
        });
        self.until_signal -= 1;
        if self.until_signal == 0 {
            self.sign();
        }
    }

    /// The reply added last asks for a completion. Its id says how many requests that covers.
    #[cold]
    #[inline(never)]
    fn sign(&mut self) {
        self.list.sign_last(WrId(self.covers as u64));
        (self.until_signal, self.covers) = (self.period, self.period);
    }

    /// Posts what was added.
    #[inline(always)]
    pub(super) fn post(&mut self, cpu: &P::Cpu, counters: &mut Counters) {
        let count = self.list.len();
        if count == 0 {
            return;
        }
        if self.outstanding + count > self.depth {
            self.reclaim(cpu, count, counters);
        }
        cpu.charge(REPLY, 1);
        self.outstanding += count;
        counters.replies += count as u64;
        counters.doorbells += 1;
        if let Err(error) = self.qp.post_send(cpu, &self.list) {
            self.post_rest(cpu, error.accepted, error.kind, counters);
        }
        self.list.clear();
    }

    /// Waits until `count` more requests fit. Usually the completion has long been there.
    #[cold]
    #[inline(never)]
    fn reclaim(&mut self, cpu: &P::Cpu, count: usize, counters: &mut Counters) {
        for _ in 0..COMPLETION_POLLS_MAX {
            let polled = self.send_cq.poll(cpu, &mut self.wcs);
            for wc in &self.wcs[..polled] {
                self.outstanding = self.outstanding.saturating_sub(wc.wr_id.0 as usize);
                counters.replies_failed += u64::from(wc.status != WcStatus::Success);
            }
            if self.outstanding + count <= self.depth {
                return;
            }
        }
        // Something is wrong with the fabric; clients will ask again.
        self.outstanding = self.depth.saturating_sub(count);
    }

    /// One request of the list was refused (its client is gone, say): the others shall go out all the same.
    #[cold]
    #[inline(never)]
    fn post_rest(
        &mut self,
        cpu: &P::Cpu,
        mut accepted: usize,
        mut kind: PostErrorKind,
        counters: &mut Counters,
    ) {
        loop {
            let Some(refused) = self.list.wrs().get(accepted) else {
                return;
            };
            tracing::debug!(%kind, "a reply was refused");
            counters.replies_failed += 1;
            counters.replies -= 1;
            self.outstanding -= 1;
            // A signaled request that was not posted leaves what it covered to the next one, which comes sooner.
            let left_over = refused.wr_id.0.saturating_sub(1) as usize;
            let sooner = left_over.min(self.until_signal - 1);
            self.until_signal -= sooner;
            self.covers += left_over - sooner;
            let mut rest = SendList::default();
            for wr in &self.list.wrs()[accepted + 1..] {
                let payload = match wr.payload {
                    Payload::Inline { start, len } => rest.inline(self.list.inline_bytes(start, len)),
                    other => other,
                };
                rest.push(SendWr { payload, ..*wr });
            }
            self.list = rest;
            match self.qp.post_send(cpu, &self.list) {
                Ok(()) => return,
                Err(error) => (accepted, kind) = (error.accepted, error.kind),
            }
        }
    }
}
