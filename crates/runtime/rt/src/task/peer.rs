//! [`PeerQueue`]: waiting and outstanding requests of one queue pair of a pool.

use super::PeerId;
use super::requests::{Failure, Local, NONE, Requests, Stage};
use drover_verbs::{Payload, PostErrorKind, Provider, QueuePair, SendList, SendWr};
use std::collections::VecDeque;

pub(super) struct PeerQueue<P: Provider> {
    qp: P::Qp,
    depth: usize,
    /// Requests submitted, not posted.
    backlog: VecDeque<u32>,
    /// Requests posted, in order; the completion of one covers all before it.
    outstanding: VecDeque<u32>,
    /// Number of requests at the end of `outstanding` without a signaled one after them.
    unsignaled: usize,
    list: SendList,
    /// Scratch of [`Core::submit`](super::core::Core): the last slot that a task submitted to this peer.
    pub(super) last: u32,
}

/// Slot and result of a request.
pub(super) type Ended = (u32, Result<(), Failure>);

impl<P: Provider> PeerQueue<P> {
    pub(super) fn new(qp: P::Qp, depth: usize) -> PeerQueue<P> {
        PeerQueue {
            qp,
            depth,
            backlog: VecDeque::with_capacity(depth),
            outstanding: VecDeque::with_capacity(depth),
            unsignaled: 0,
            list: SendList::with_capacity(depth, 1024),
            last: NONE,
        }
    }

    pub(super) fn push(&mut self, slot: u32) {
        self.backlog.push_back(slot);
    }

    /// Replaces the queue pair; returns the requests outstanding on the old one, which is destroyed.
    pub(super) fn replace(&mut self, qp: P::Qp) -> VecDeque<u32> {
        self.qp = qp;
        self.unsignaled = 0;
        std::mem::take(&mut self.outstanding)
    }

    /// Removes the request in `slot` and all before it, which are also done.
    pub(super) fn complete(&mut self, slot: u32, mut before: impl FnMut(u32)) {
        while let Some(first) = self.outstanding.pop_front() {
            if first == slot {
                break;
            }
            before(first);
        }
        self.unsignaled = self.unsignaled.min(self.outstanding.len());
    }

    /// Posts as much of the backlog as fits in the queue, as one list. Returns whether anything happened; calls
    /// `refused` with the request that the queue pair refused, if any.
    pub(super) fn post(
        &mut self,
        cpu: &P::Cpu,
        requests: &mut Requests,
        refused: &mut Option<Ended>,
    ) -> bool {
        if self.backlog.is_empty() || self.outstanding.len() == self.depth {
            return false;
        }
        self.drop_abandoned(requests);
        let count = self.backlog.len().min(self.depth - self.outstanding.len());
        self.build(count, requests);
        let (accepted, refusal) = match self.qp.post_send(cpu, &self.list) {
            Ok(()) => (count, None),
            Err(error) => (error.accepted, Some(error.kind)),
        };
        for _ in 0..accepted {
            let slot = self
                .backlog
                .pop_front()
                .expect("the list was built from the backlog");
            let request = requests.slot_mut(slot);
            request.stage = Stage::Posted;
            self.unsignaled = if request.signaled { 0 } else { self.unsignaled + 1 };
            self.outstanding.push_back(slot);
        }
        // A full queue empties without help if it has outstanding requests.
        let waits = refusal == Some(PostErrorKind::QueueFull) && !self.outstanding.is_empty();
        if let Some(kind) = refusal.filter(|_| !waits) {
            *refused = self
                .backlog
                .pop_front()
                .map(|slot| (slot, Err(Failure::Refused(kind))));
        }
        accepted > 0 || refused.is_some()
    }

    /// Drops abandoned requests from the backlog.
    fn drop_abandoned(&mut self, requests: &mut Requests) {
        self.backlog.retain(|&slot| {
            let abandoned = requests.slot(slot).abandoned;
            if abandoned {
                requests.free(slot);
            }
            !abandoned
        });
    }

    /// Builds a list of the first `count` requests of the backlog. At least one request per half queue is signaled:
    /// without a completion the queue's slots would never become free.
    fn build(&mut self, count: usize, requests: &mut Requests) {
        self.list.clear();
        let mut unsignaled = self.unsignaled;
        for &slot in self.backlog.iter().take(count) {
            let wr_id = requests.wr_id(slot);
            let request = requests.slot_mut(slot);
            let payload = match request.local {
                Local::Buffer(sge) | Local::Word(sge) => Payload::Region(sge),
                Local::Inline => self.list.inline(&request.inline),
            };
            request.signaled |= unsignaled + 1 >= self.depth / 2;
            unsignaled = if request.signaled { 0 } else { unsignaled + 1 };
            self.list
                .push(SendWr::new(request.op, payload).signaled_if(request.signaled, wr_id));
        }
    }
}

impl<P: Provider> std::fmt::Debug for PeerQueue<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PeerQueue({} outstanding, {} waiting)",
            self.outstanding.len(),
            self.backlog.len()
        )
    }
}

impl PeerId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
