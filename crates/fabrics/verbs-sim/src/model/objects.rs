//! Objects that verbs create: contexts, queue pairs, completion and receive queues.

use super::caches::Places;
use super::order::Order;
use super::send_queue::SendQueue;
use super::shared::Sharing;
use drover_sim::{Ps, VirtualCpu};
use drover_verbs::{QpKind, QpState, RecvWr, Wc, WcStatus};
use std::collections::VecDeque;

/// A thread's view of its card, and its core.
#[derive(Debug)]
pub(crate) struct Ctx {
    pub(crate) machine: u16,
    pub(crate) cpu: VirtualCpu,
    pub(crate) far_socket: bool,
    /// Doorbell registers of its process or domain.
    pub(crate) registers: u32,
    /// Whether something has arrived since it was armed.
    pub(crate) rung: bool,
    /// Lines that it has written and the card has not ingested.
    pub(crate) lines_ahead: u32,
    /// Time when its last post reaches the card: posts of one core do not overtake each other.
    pub(crate) posted_at: Ps,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) ctx: u32,
    pub(crate) machine: u16,
    pub(crate) kind: QpKind,
    pub(crate) state: QpState,
    /// The other end and its machine.
    pub(crate) peer: Option<(u32, u16)>,
    pub(crate) qkey: u32,
    pub(crate) inline_bytes: usize,
    pub(crate) queues: QpQueues,
    pub(crate) sends: SendQueue,
    pub(crate) order: Order,
    pub(crate) card: QpInCard,
    pub(crate) rc: Reliable,
}

/// Where a queue pair takes RECVs from and completes requests.
#[derive(Debug)]
pub(crate) struct QpQueues {
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) srq: Option<u32>,
    /// Slots of the shared queue that its RECVs occupy: taken by a message, completion not yet polled.
    pub(crate) srq_taken: usize,
    pub(crate) recvs: RecvQueue,
    /// Of one that several cores post to.
    pub(crate) sharing: Option<Box<Sharing>>,
}

/// What the card has of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpInCard {
    /// Domain of its context: the scope of its keys.
    pub(crate) domain: u32,
    /// Index of its doorbell register; `None` if registers have no locks.
    pub(crate) register: Option<u32>,
    /// Its entries in the context cache.
    pub(crate) places: Places,
}

/// RC state at both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reliable {
    /// Responder: sequence number of the next request.
    pub(crate) expected: u64,
    /// Responder: whether the requester was notified of a missing request.
    pub(crate) nak_sent: bool,
    /// Requester: sequence number below which all requests are acknowledged.
    pub(crate) acked: u64,
    /// Requester: consecutive timeouts.
    pub(crate) retries: u32,
    /// Requester: whether a TIMEOUT event is in the queue.
    pub(crate) timer_set: bool,
    /// Requester: time of the last transmission or answer.
    pub(crate) progress_at: Ps,
    /// Requester: time since which the peer has had no RECV.
    pub(crate) rnr_since: Option<Ps>,
    /// Requester: whether it waits before a retry.
    pub(crate) rnr_wait: bool,
    pub(crate) rnr_timeout: Ps,
    /// Requester: the request that the peer refused, and the status. It fails when all requests before it are done.
    pub(crate) refused: Option<(u32, WcStatus)>,
}

/// RECVs of one queue pair, or shared by several.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    pub(crate) domain: u32,
    pub(crate) depth: usize,
    /// RECVs posted whose completions are not polled yet.
    pub(crate) used: usize,
    pub(crate) wrs: VecDeque<RecvWr>,
}

impl RecvQueue {
    pub(crate) fn new(domain: u32, depth: usize) -> RecvQueue {
        RecvQueue {
            domain,
            depth,
            used: 0,
            wrs: VecDeque::new(),
        }
    }
}

/// A completion, and the slots that polling it frees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) wc: Wc,
    pub(crate) frees: Frees,
}

/// Slots that polling a completion frees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frees {
    /// This many of the queue pair's send queue.
    Send(usize),
    /// One of the queue pair's receive queue.
    Recv,
    /// One of this shared receive queue.
    Srq(u32),
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) ctx: u32,
    pub(crate) depth: usize,
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) overrun: bool,
    /// Of one that several cores poll.
    pub(crate) sharing: Option<Box<Sharing>>,
}
