//! [`Replies`]: SENDs over the worker's one UD queue pair, built in place, posted as one list.

use super::stats::Counters;
use super::variant::{Mistake, Variant};
use crate::costs::REPLY;
use crate::layout::{ReplyImm, SLOT_BYTES_MAX};
use drover_base::{Cpu, Ns};
use drover_mem::{PageWish, Region};
use drover_rt::Staging;
use drover_verbs::{
    Access, CompletionQueue, Context, CreateError, DatagramList, Imm, Payload, PostErrorKind, Provider,
    QpKind, QpOptions, QueuePair, SendList, SendWr, UdDest, Wc, WcStatus, WrId,
};

/// Time without space in the send queue after which the replies in it count as lost: the fabric will not complete them.
const SILENT_MAX: Ns = Ns::from_ms(100);
/// Bytes of memory for a reply that is not inline, which is at most as long as a slot.
const PIECE_BYTES: usize = SLOT_BYTES_MAX;

/// The worker's queue pair for replies, the list of the next replies, and the state of the send queue.
///
/// Replies are numbered from 1 on as they are posted. One in `period` is signaled; the id of its completion is its
/// number, and says that it and all before it have left the queue.
pub(super) struct Replies<P: Provider, V: Variant> {
    pub(super) qp: P::Qp,
    send_cq: P::Cq,
    pub(super) list: DatagramList,
    /// Longest value that is sent inline, bytes.
    pub(super) inline_bytes_max: usize,
    /// Memory for longer values; made with the first client that may get one.
    staging: Option<Staging<P>>,
    variant: V,
    depth: usize,
    period: usize,
    /// Number of the next reply to be signaled; it may be in the list.
    sign_next: u64,
    /// Number of the last reply posted.
    posted: u64,
    /// Number of the last reply that counts as gone from the queue, because it completed or was given up.
    left: u64,
    /// Number of the last reply that is known from a completion to have left: its memory may be filled again.
    completed: u64,
    /// Time since which there has been no space.
    full_since: Option<Ns>,
    /// Number of replies in the queue up to which a batch more fits.
    spare: u64,
    wcs: [Wc; 16],
}

impl<P: Provider, V: Variant> Replies<P, V> {
    /// Creates a queue pair whose send queue holds two periods and a batch `[R16]`, or less if the fabric's limit is
    /// lower; the period is shortened to fit. It receives into `recv_cq`, `recv_depth` RECVs, if there is one.
    ///
    /// # Errors
    /// The queue pair or a completion queue cannot be created.
    pub(super) fn new(
        ctx: &P::Context,
        recv_cq: Option<&P::Cq>,
        recv_depth: usize,
        period: usize,
        batch: usize,
        qkey: u32,
        variant: V,
    ) -> Result<Replies<P, V>, CreateError> {
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
            list: DatagramList::with_capacity(batch, batch * 1024),
            inline_bytes_max,
            staging: None,
            variant,
            depth,
            period,
            sign_next: period as u64,
            posted: 0,
            left: 0,
            completed: 0,
            full_since: None,
            spare: depth.saturating_sub(batch) as u64,
            wcs: [Wc::default(); 16],
        })
    }

    /// Adds a reply with `len` inline bytes to the list; returns the space for them.
    #[inline(always)]
    pub(super) fn push(&mut self, dest: &UdDest, imm: ReplyImm, len: usize) -> &mut [u8] {
        self.list.push(dest, Imm(imm.0), len)
    }

    /// As [`push`](Replies::push), but does nothing if the replies in the list are not all short, this one included.
    #[inline(always)]
    pub(super) fn push_short(&mut self, dest: &UdDest, imm: ReplyImm, len: usize) -> Option<&mut [u8]> {
        self.list.push_short(dest, Imm(imm.0), len)
    }

    /// Adds a reply whose payload is in registered memory.
    #[cold]
    pub(super) fn push_long(&mut self, dest: UdDest, imm: ReplyImm, payload: Payload) {
        self.list
            .push_send(SendWr::send_to(dest, payload).with_imm(Imm(imm.0)));
    }

    /// Makes those replies in the list signaled whose turn it is.
    #[cold]
    #[inline(never)]
    fn sign(&mut self) {
        while self.sign_next <= self.posted + self.list.len() as u64 {
            let at = self.sign_next - self.posted - 1;
            self.list.sign(at as usize, WrId(self.sign_next));
            self.sign_next += self.period as u64;
        }
    }

    /// Whether a batch of replies can be posted now; polls for completions if it seems not. If false, the caller leaves
    /// requests where they are until a later step. It must not wait: completions may need this very core.
    #[inline(always)]
    pub(super) fn has_space(&mut self, cpu: &P::Cpu, counters: &mut Counters) -> bool {
        self.posted - self.left <= self.spare || self.reclaim(cpu, counters)
    }

    /// Polls the completion queue once; returns whether there is space then, as nearly always.
    #[cold]
    #[inline(never)]
    fn reclaim(&mut self, cpu: &P::Cpu, counters: &mut Counters) -> bool {
        self.poll_completions(cpu, counters);
        let since = *self.full_since.get_or_insert(cpu.now());
        if cpu.now().since(since) >= SILENT_MAX {
            tracing::error!(
                replies = self.posted - self.left,
                "replies were not completed: they count as lost"
            );
            self.left = self.posted; // clients will ask again
        }
        let has_space = self.posted - self.left <= self.spare;
        if has_space {
            self.full_since = None;
        }
        has_space
    }

    fn poll_completions(&mut self, cpu: &P::Cpu, counters: &mut Counters) {
        let polled = self.send_cq.poll(cpu, &mut self.wcs);
        for wc in &self.wcs[..polled] {
            // Unsignaled replies that were flushed have the id 0.
            self.completed = self.completed.max(wc.wr_id.0);
            counters.replies.failed += u64::from(wc.status != WcStatus::Success);
        }
        self.left = self.left.max(self.completed);
    }

    /// The mistake of [`Mistake::RebuildsReplies`]: one piece of memory for all long payloads, which always counts as
    /// free.
    #[inline(always)]
    fn rebuilds(&self) -> bool {
        self.variant.makes(Mistake::RebuildsReplies)
    }

    /// Makes memory for payloads that are too long to be inline, if there is none: one piece per entry of the send
    /// queue. Errors are for people.
    pub(super) fn stage_long_payloads(&mut self, ctx: &P::Context) -> Result<(), String> {
        if self.staging.is_none() {
            let count = if self.rebuilds() { 1 } else { self.depth };
            let region = ctx
                .alloc(count * PIECE_BYTES, PageWish::Small)
                .map_err(|error| error.to_string())?;
            let mr = ctx
                .register(&region, Access::LOCAL_READ)
                .map_err(|error| error.to_string())?;
            self.staging = Some(Staging::new(mr, count, PIECE_BYTES));
        }
        Ok(())
    }

    /// The payload of the next reply, which is too long to be inline: `len` bytes in registered memory, written by
    /// `fill`. `None`: an earlier reply may still be sent from that memory, which counts as deferred, or there is no
    /// such memory.
    pub(super) fn long_payload(
        &mut self,
        cpu: &P::Cpu,
        len: usize,
        counters: &mut Counters,
        fill: impl Fn(&Region, usize),
    ) -> Option<Payload> {
        let number = self.posted + self.list.len() as u64 + 1;
        let left = if self.rebuilds() { number } else { self.completed };
        let payload = self.staging.as_mut()?.payload(number, left, len, &fill);
        if payload.is_some() {
            return payload;
        }
        self.poll_completions(cpu, counters);
        let payload = self.staging.as_mut()?.payload(number, self.completed, len, fill);
        if payload.is_none() {
            counters.replies.deferred += 1;
            // The next completion comes as soon as it can.
            self.sign();
            self.sign_next = self.posted + self.list.len() as u64 + 1;
        }
        payload
    }

    /// Posts the list with one doorbell, and empties it. There must be [space](Replies::has_space).
    #[inline(always)]
    pub(super) fn post(&mut self, cpu: &P::Cpu, counters: &mut Counters) {
        let count = self.list.len();
        if count == 0 {
            return;
        }
        cpu.charge(REPLY.cost, 1);
        if self.sign_next <= self.posted + count as u64 {
            self.sign();
        }
        self.posted += count as u64;
        counters.replies.posted += count as u64;
        counters.replies.doorbells += 1;
        if let Err(error) = self.qp.post_datagrams(cpu, &mut self.list) {
            self.post_rest(cpu, error.accepted, error.kind, counters);
        }
        self.list.clear();
    }

    /// Empties the list without posting it.
    pub(super) fn discard(&mut self) {
        self.list.clear();
        // A signaled reply may have been in the list.
        self.sign_next = self.posted + 1;
    }

    /// Posts the rest of a list of which the fabric accepted the first `accepted` replies and refused the next one, for
    /// example because its client is gone. Replies that it refuses are dropped.
    #[cold]
    #[inline(never)]
    fn post_rest(
        &mut self,
        cpu: &P::Cpu,
        mut accepted: usize,
        mut kind: PostErrorKind,
        counters: &mut Counters,
    ) {
        let mut list = self.list.take();
        while let Some(refused) = list.wrs().get(accepted) {
            tracing::debug!(%kind, "a reply was refused");
            counters.replies.failed += 1;
            counters.replies.posted -= 1;
            self.posted -= 1;
            self.sign_next -= 1;
            if let Some(staging) = &mut self.staging {
                staging.refused(refused.payload);
            }
            // The numbers of later replies decrease by one. If the refused one was signaled, the next one is.
            let mut asks = refused.signaled;
            let behind = &list.wrs()[accepted + 1..];
            let first = self.posted - behind.len() as u64 + 1;
            let mut rest = SendList::default();
            for (number, wr) in (first..).zip(behind) {
                let payload = match wr.payload {
                    Payload::Inline { start, len } => rest.inline(list.inline_bytes(start, len)),
                    other => other,
                };
                let signaled = wr.signaled || std::mem::take(&mut asks);
                let wr_id = WrId(if signaled { number } else { 0 });
                rest.push(SendWr {
                    wr_id,
                    payload,
                    signaled,
                    ..*wr
                });
            }
            if asks {
                self.sign_next = self.posted + 1;
            }
            list = rest;
            match self.qp.post_send(cpu, &list) {
                Ok(()) => return,
                Err(error) => (accepted, kind) = (error.accepted, error.kind),
            }
        }
    }
}
