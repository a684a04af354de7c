//! [`PeerQueue`]: waiting and outstanding requests of one queue pair of a pool.

use super::credits::Credits;
use super::error::Failure;
use super::in_flight::InFlight;
use super::options::Posting;
use super::requests::{Local, NONE, Requests, Stage};
use super::stats::TaskStats;
use super::{PeerId, messages::Inbox};
use drover_verbs::{MaskedSwap, PostError, PostErrorKind, Provider, QpKind, QueuePair, SendList, SendOp};
use std::collections::VecDeque;

pub(super) struct PeerQueue<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) kind: QpKind,
    depth: usize,
    /// Requests in the order in which they were submitted. Those posted come first; the completion of one covers all
    /// before it, and the last of them is always signaled.
    queue: VecDeque<u32>,
    /// Number of requests posted that have not ended.
    posted: usize,
    /// Number of the last requests posted that have no signaled one after them.
    unsignaled: usize,
    list: SendList,
    /// Scratch of [`Core::submit`](super::core::Core): the last slot that a task submitted to this peer.
    pub(super) last: u32,
    pub(super) inbox: Inbox,
}

impl<P: Provider> PeerQueue<P> {
    pub(super) fn new(qp: P::Qp, kind: QpKind, depth: usize, inbox: Inbox) -> PeerQueue<P> {
        PeerQueue {
            qp,
            kind,
            depth,
            queue: VecDeque::with_capacity(2 * depth),
            posted: 0,
            unsignaled: 0,
            list: SendList::with_capacity(depth, 1024),
            last: NONE,
            inbox,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, slot: u32) {
        self.queue.push_back(slot);
    }

    /// Number of requests that wait to be posted.
    #[inline(always)]
    pub(super) fn waiting_count(&self) -> usize {
        self.queue.len() - self.posted
    }

    /// Number of requests posted that have not ended.
    pub(super) fn outstanding_count(&self) -> usize {
        self.posted
    }

    /// Replaces the queue pair; returns the requests outstanding on the old one, which is destroyed.
    pub(super) fn replace(&mut self, qp: P::Qp, kind: QpKind) -> Vec<u32> {
        (self.qp, self.kind) = (qp, kind);
        self.unsignaled = 0;
        self.queue.drain(..std::mem::take(&mut self.posted)).collect()
    }

    /// Removes the request in `slot` and all before it, which are also done. Returns their number.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32, mut before: impl FnMut(u32)) -> usize {
        let mut count = 0;
        while count < self.posted
            && let Some(first) = self.queue.pop_front()
        {
            count += 1;
            if first == slot {
                break;
            }
            before(first);
        }
        self.posted -= count;
        self.unsignaled = self.unsignaled.min(self.posted);
        count
    }

    /// Whether requests wait that the queue has space for.
    #[inline(always)]
    pub(super) fn can_post(&self) -> bool {
        self.posted < self.queue.len().min(self.depth)
    }

    /// Posts as many of the waiting requests as the queue and the credits have space for, in lists as `posting` says; of
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
            let space = self.depth - self.posted;
            let wanted = self.list_length(posting, &in_flight.requests).min(space);
            let left = credits.left(self.posted);
            stats.credits.waits += u64::from(left < wanted);
            let count = wanted.min(left);
            if count == 0 || !self.post_list(cpu, count, in_flight, credits, posting, stats) {
                break;
            }
            posted = true;
            // Otherwise nothing is left that may be posted now.
            if posting != Posting::PerSync || count < wanted {
                break;
            }
        }
        posted
    }

    /// Number of requests that belong in the next list.
    #[inline]
    fn list_length(&self, posting: Posting, requests: &Requests) -> usize {
        match posting {
            Posting::PerStep => self.waiting_count(),
            Posting::PerRequest => 1,
            Posting::PerSync => {
                let head = |slot: u32| requests.slot(slot).head;
                let first = head(self.queue[self.posted]);
                let waiting = self.queue.range(self.posted..);
                waiting.take_while(|&&slot| head(slot) == first).count()
            }
        }
    }

    /// Posts the first `count` requests of those that wait. Returns whether anything happened.
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
        self.posted += count;
        credits.take(count);
        stats.requests.doorbells += 1;
        stats.requests.posted += count as u64;
        match self.qp.post_send(cpu, &self.list) {
            Ok(()) => true,
            Err(error) => {
                let refused = count - error.accepted;
                credits.give_back(refused);
                stats.requests.posted -= refused as u64;
                self.refused(error, refused, in_flight) || error.accepted > 0
            }
        }
    }

    /// Handles that the queue pair refused the last `count` requests of a list. Returns whether the first of them ended.
    #[cold]
    fn refused(&mut self, error: PostError, count: usize, in_flight: &mut InFlight) -> bool {
        let requests = &mut in_flight.requests;
        self.posted -= count;
        for &slot in self.queue.range(self.posted..).take(count) {
            requests.slot_mut(slot).stage = Stage::Queued;
        }
        let posted = self.queue.range(..self.posted).rev();
        let is_unsignaled = |slot: &&u32| !requests.slot(**slot).wr.signaled;
        self.unsignaled = posted.take_while(is_unsignaled).count();
        if self.unsignaled > 0 {
            // Nothing reports the end of these requests if nothing follows them. In the error state they are flushed,
            // which is reported.
            self.qp.to_error();
        }
        // A full queue empties without help if it has outstanding requests.
        if error.kind == PostErrorKind::QueueFull && self.posted > 0 {
            return false;
        }
        if let Some(slot) = self.queue.remove(self.posted) {
            in_flight.finish(slot, Err(Failure::Refused(error.kind)));
        }
        true
    }

    /// Drops abandoned requests that wait.
    #[cold]
    pub(super) fn drop_abandoned(&mut self, requests: &mut Requests) {
        let mut position = 0;
        self.queue.retain(|&slot| {
            position += 1;
            let abandoned = position > self.posted && requests.slot(slot).is_abandoned;
            if abandoned {
                requests.abandoned_queued -= 1;
                requests.free(slot);
            }
            !abandoned
        });
    }

    /// Builds a list of the first `count` requests of those that wait, which become posted ones. Its last request is
    /// signaled, also if the list ends in the middle of a sync, and so is at least one request per half queue: without a
    /// completion neither credits nor places of the queue would become free.
    #[inline]
    fn build(&mut self, count: usize, posting: Posting, requests: &mut Requests) {
        self.list.clear();
        let mut unsignaled = self.unsignaled;
        let always = posting == Posting::PerRequest;
        for nth in 0..count {
            let slot = self.queue[self.posted + nth];
            let request = requests.slot_mut(slot);
            request.stage = Stage::Posted;
            request.wr.signaled |= always || nth + 1 == count || unsignaled + 1 >= self.depth / 2;
            unsignaled = if request.wr.signaled { 0 } else { unsignaled + 1 };
            let mut wr = request.wr;
            match request.local {
                Local::Buffer | Local::Word => {}
                Local::Inline => wr.payload = self.list.inline(&request.inline),
                Local::MaskedWord => wr.op = masked(&mut self.list, wr.op, &request.swap),
            }
            self.list.push(wr);
        }
        self.unsignaled = unsignaled;
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
        let (outstanding, waiting) = (self.posted, self.waiting_count());
        write!(f, "PeerQueue({outstanding} outstanding, {waiting} waiting)")
    }
}

impl PeerId {
    #[inline(always)]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
