//! Objects that verbs create: contexts, queue pairs, completion and receive queues, regions, keys.

use drover_mem::Region;
use drover_sim::{Ps, VirtualCpu};
use drover_verbs::{Access, QpKind, QpState, RecvWr, Wc, WcStatus};
use std::collections::VecDeque;
use std::ops::Range;

/// A thread's view of its card, and its core.
#[derive(Debug)]
pub(crate) struct Ctx {
    pub(crate) machine: u16,
    pub(crate) cpu: VirtualCpu,
    pub(crate) far_socket: bool,
    /// Doorbell registers of its process.
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
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) srq: Option<u32>,
    pub(crate) recvs: RecvQueue,
    pub(crate) send_depth: usize,
    pub(crate) inline_bytes: usize,
    pub(crate) qkey: u32,
    /// Index of its shared doorbell register; `None` if it has its own.
    pub(crate) register: Option<u32>,
    /// Its entries in the context cache, as requester and as responder.
    pub(crate) places: (u32, u32),
    /// Posted slots that no polled completion covers.
    pub(crate) send_used: usize,
    /// Requests done without a completion since the last completion.
    pub(crate) uncovered: usize,
    /// Requests in the card, not yet passed to the transmit engine.
    pub(crate) pending: VecDeque<u32>,
    /// Requests passed to the engine, not yet retired; in order.
    pub(crate) flight: VecDeque<u32>,
    pub(crate) posted: u64,
    pub(crate) reads_out: u64,
    /// Time when the last request was ready for the link: the next one is not earlier.
    pub(crate) departed_at: Ps,
    /// Time when its last request is in the card: requests enter in the order of posting.
    pub(crate) ingested_at: Ps,
    /// Number of lists that the card is fetching, and of requests that wait for them.
    pub(crate) fetches: u32,
    /// Time from which the card may fetch the next request of a list.
    pub(crate) fetch_at: Ps,
    /// Time when the last message to it is completely visible.
    pub(crate) landed_at: Ps,
    pub(crate) rc: Reliable,
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
    pub(crate) ctx: u32,
    pub(crate) depth: usize,
    /// RECVs posted whose completions are not polled yet.
    pub(crate) used: usize,
    pub(crate) wrs: VecDeque<RecvWr>,
}

impl RecvQueue {
    pub(crate) fn new(ctx: u32, depth: usize) -> RecvQueue {
        RecvQueue {
            ctx,
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
}

/// A registration, by local key.
#[derive(Debug)]
pub(crate) struct Mr {
    pub(crate) ctx: u32,
    pub(crate) region: Region,
    pub(crate) access: Access,
}

/// A peer's region as one context imported it, by remote key.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) ctx: u32,
    pub(crate) mr: u32,
    /// Watched offsets, each with the context to notify of writes.
    pub(crate) watches: Vec<(Range<u64>, u32)>,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ah {
    pub(crate) ctx: u32,
    /// Context and machine of the receiver.
    pub(crate) to: (u32, u16),
}
