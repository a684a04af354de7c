//! [`PeerQueue`]: waiting and outstanding requests of one queue pair of a pool.

use super::credits::Credits;
use super::error::Failure;
use super::in_flight::InFlight;
use super::options::Posting;
use super::requests::{Local, NONE, Requests, Stage};
use super::stats::TaskStats;
use super::{PeerId, messages::Inbox};
use drover_verbs::{
    MaskedSwap, Payload, PostErrorKind, Provider, QpKind, QueuePair, SendList, SendOp, SendWr,
};
use std::collections::VecDeque;

pub(super) struct PeerQueue<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) kind: QpKind,
    /// Number of this destination in its pool.
    index: usize,
    depth: usize,
    /// Requests submitted, not posted.
    backlog: VecDeque<u32>,
    /// Requests posted, in order; the completion of one covers all before it. The last one is always signaled.
    outstanding: VecDeque<u32>,
    /// Number of requests at the end of `outstanding` without a signaled one after them.
    unsignaled: usize,
    list: SendList,
    /// Scratch of [`Core::submit`](super::core::Core): the last slot that a task submitted to this peer.
    pub(super) last: u32,
    pub(super) inbox: Inbox,
}

impl<P: Provider> PeerQueue<P> {
    pub(super) fn new(qp: P::Qp, kind: QpKind, index: usize, depth: usize, inbox: Inbox) -> PeerQueue<P> {
        PeerQueue {
            qp,
            kind,
            index,
            depth,
            backlog: VecDeque::with_capacity(depth),
            outstanding: VecDeque::with_capacity(depth),
            unsignaled: 0,
            list: SendList::with_capacity(depth, 1024),
            last: NONE,
            inbox,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, slot: u32) {
        self.backlog.push_back(slot);
    }

    /// Number of requests that wait to be posted.
    pub(super) fn waiting_count(&self) -> usize {
        self.backlog.len()
    }

    /// Number of requests posted that have not ended.
    pub(super) fn outstanding_count(&self) -> usize {
        self.outstanding.len()
    }

    /// Replaces the queue pair; returns the requests outstanding on the old one, which is destroyed.
    pub(super) fn replace(&mut self, qp: P::Qp, kind: QpKind) -> VecDeque<u32> {
        (self.qp, self.kind) = (qp, kind);
        self.unsignaled = 0;
        std::mem::take(&mut self.outstanding)
    }

    /// Removes the request in `slot` and all before it, which are also done. Returns their number.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32, mut before: impl FnMut(u32)) -> usize {
        let mut count = 0;
        while let Some(first) = self.outstanding.pop_front() {
            count += 1;
            if first == slot {
                break;
            }
            before(first);
        }
        self.unsignaled = self.unsignaled.min(self.outstanding.len());
        count
    }

    /// Whether requests wait that the queue has space for.
    #[inline(always)]
    pub(super) fn can_post(&self) -> bool {
        !self.backlog.is_empty() && self.outstanding.len() < self.depth
    }

    /// Posts as much of the backlog as the queue and the credits have space for, in lists as `posting` says; of
    /// [`Posting::PerRequest`] one request. Returns whether anything happened.
    pub(super) fn post(
        &mut self,
        cpu: &P::Cpu,
        in_flight: &mut InFlight,
        credits: &mut Credits,
        posting: Posting,
        stats: &mut TaskStats,
    ) -> bool {
        let mut posted = false;
        while self.can_post() {
            let space = (self.depth - self.outstanding.len()).min(credits.left(self.index));
            if space == 0 {
                stats.credits.waits += 1;
                break;
            }
            let count = self.list_length(posting, &in_flight.requests).min(space);
            if !self.post_list(cpu, count, in_flight, credits, posting, stats) {
                break;
            }
            posted = true;
            if posting == Posting::PerRequest {
                break;
            }
        }
        posted
    }

    /// Number of requests at the front of the backlog that belong in one list.
    #[inline]
    fn list_length(&self, posting: Posting, requests: &Requests) -> usize {
        match posting {
            Posting::PerStep => self.backlog.len(),
            Posting::PerRequest => 1,
            Posting::PerSync => {
                let head = |slot: u32| requests.slot(slot).head;
                let first = head(self.backlog[0]);
                self.backlog
                    .iter()
                    .take_while(|&&slot| head(slot) == first)
                    .count()
            }
        }
    }

    /// Posts the first `count` requests of the backlog. Returns whether anything happened.
    fn post_list(
        &mut self,
        cpu: &P::Cpu,
        count: usize,
        in_flight: &mut InFlight,
        credits: &mut Credits,
        posting: Posting,
        stats: &mut TaskStats,
    ) -> bool {
        self.build(count, posting, &mut in_flight.requests);
        let (accepted, refusal) = match self.qp.post_send(cpu, &self.list) {
            Ok(()) => (count, None),
            Err(error) => (error.accepted, Some(error.kind)),
        };
        for _ in 0..accepted {
            let slot = self.backlog.pop_front();
            let slot = slot.expect("the list was built from the backlog");
            let request = in_flight.requests.slot_mut(slot);
            request.stage = Stage::Posted;
            self.unsignaled = if request.flags.signaled {
                0
            } else {
                self.unsignaled + 1
            };
            self.outstanding.push_back(slot);
        }
        credits.take(self.index, accepted);
        stats.requests.doorbells += 1;
        stats.requests.posted += accepted as u64;
        match refusal {
            None => true,
            Some(kind) => self.refused(kind, in_flight) || accepted > 0,
        }
    }

    /// Handles that the queue pair refused the first request of the backlog. Returns whether that request ended.
    #[cold]
    fn refused(&mut self, kind: PostErrorKind, in_flight: &mut InFlight) -> bool {
        if self.unsignaled > 0 {
            // Nothing reports the end of these requests if nothing follows them. In the error state they are flushed,
            // which is reported.
            self.qp.to_error();
        }
        // A full queue empties without help if it has outstanding requests.
        if kind == PostErrorKind::QueueFull && !self.outstanding.is_empty() {
            return false;
        }
        if let Some(slot) = self.backlog.pop_front() {
            in_flight.finish(slot, Err(Failure::Refused(kind)));
        }
        true
    }

    /// Drops abandoned requests from the backlog.
    #[cold]
    pub(super) fn drop_abandoned(&mut self, requests: &mut Requests) {
        self.backlog.retain(|&slot| {
            let abandoned = requests.slot(slot).flags.abandoned;
            if abandoned {
                requests.abandoned_queued -= 1;
                requests.free(slot);
            }
            !abandoned
        });
    }

    /// Builds a list of the first `count` requests of the backlog. Its last request is signaled, also if the list ends
    /// in the middle of a sync, and so is at least one request per half queue: without a completion neither credits nor
    /// places of the queue would become free.
    #[inline]
    fn build(&mut self, count: usize, posting: Posting, requests: &mut Requests) {
        self.list.clear();
        let mut unsignaled = self.unsignaled;
        let always = posting == Posting::PerRequest;
        for (nth, &slot) in self.backlog.iter().take(count).enumerate() {
            let wr_id = requests.wr_id(slot);
            let request = requests.slot_mut(slot);
            let mut op = request.op;
            let payload = match request.local {
                Local::Buffer(sge) | Local::Word(sge) => Payload::Region(sge),
                Local::MaskedWord(sge) => {
                    op = masked(&mut self.list, op, &request.swap);
                    Payload::Region(sge)
                }
                Local::Inline => self.list.inline(&request.inline),
            };
            request.flags.signaled |= always || nth + 1 == count || unsignaled + 1 >= self.depth / 2;
            unsignaled = if request.flags.signaled { 0 } else { unsignaled + 1 };
            let mut wr = SendWr::new(op, payload).signaled_if(request.flags.signaled, wr_id);
            wr.fence = request.flags.fence;
            self.list.push(wr);
        }
    }
}

/// The masked form of the CAS `op`, with its operands in `list`.
#[cold]
fn masked(list: &mut SendList, op: SendOp, swap: &MaskedSwap) -> SendOp {
    let remote = op.remote().expect("a CAS has a target");
    let operands = list.masked_swap(swap);
    SendOp::MaskedCompareSwap { remote, operands }
}

impl<P: Provider> std::fmt::Debug for PeerQueue<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (outstanding, waiting) = (self.outstanding.len(), self.backlog.len());
        write!(f, "PeerQueue({outstanding} outstanding, {waiting} waiting)")
    }
}

impl PeerId {
    #[inline(always)]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
