//! What verbs create: contexts, queue pairs, completion and receive queues, regions, keys.

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
    /// The doorbell registers of its process.
    pub(crate) registers: u32,
    /// Something has arrived since it was armed.
    pub(crate) rung: bool,
    /// Lines it has written and the card has not ingested.
    pub(crate) lines_ahead: u32,
    /// When its last post reaches the card: posts of one core do not overtake each other.
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
    /// Which doorbell register; `None`: one of its own.
    pub(crate) register: Option<u32>,
    /// Its places in the context cache, as requester and as responder.
    pub(crate) places: (u32, u32),
    /// Posted slots that no polled completion covers.
    pub(crate) send_used: usize,
    /// Done without completion since the last one.
    pub(crate) uncovered: usize,
    /// In the card, not yet handed to the transmit engine.
    pub(crate) pending: VecDeque<u32>,
    /// Handed to it, not yet retired; in order.
    pub(crate) flight: VecDeque<u32>,
    pub(crate) posted: u64,
    pub(crate) reads_out: u64,
    /// When the last request was ready for the link: the next one is not earlier.
    pub(crate) departed_at: Ps,
    /// When its last request is in the card: requests enter in the order of posting.
    pub(crate) ingested_at: Ps,
    /// Lists that the card is fetching, and requests that wait behind them.
    pub(crate) fetches: u32,
    /// When the card may fetch the next request of a list.
    pub(crate) fetch_at: Ps,
    /// When the last message to it is wholly visible.
    pub(crate) landed_at: Ps,
    pub(crate) rc: Reliable,
}

/// What RC keeps at both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reliable {
    /// Responder: the next request's number.
    pub(crate) expected: u64,
    /// Responder: the requester knows that something is missing.
    pub(crate) nak_sent: bool,
    /// Requester: everything below is acknowledged.
    pub(crate) acked: u64,
    /// Requester: timeouts in a row.
    pub(crate) retries: u32,
    /// Requester: a TIMEOUT event is in the queue.
    pub(crate) timer_set: bool,
    /// Requester: when something was sent or answered last.
    pub(crate) progress_at: Ps,
    /// Requester: since when the peer has no RECV.
    pub(crate) rnr_since: Option<Ps>,
    /// Requester: waits before it tries again.
    pub(crate) rnr_wait: bool,
    pub(crate) rnr_timeout: Ps,
    /// Requester: the request that the peer refused, and why. It fails when all before it are done.
    pub(crate) refused: Option<(u32, WcStatus)>,
}

/// RECVs of one queue pair, or shared by several.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    pub(crate) ctx: u32,
    pub(crate) depth: usize,
    /// Posted, and no completion polled.
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

/// A completion, and what polling it gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) wc: Wc,
    pub(crate) frees: Frees,
}

/// Slots that a completion covers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frees {
    /// So many of the queue pair's send queue.
    Send(usize),
    /// One of its receive queue.
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
    /// Offsets, and the context that wants to know of writes there.
    pub(crate) watches: Vec<(Range<u64>, u32)>,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ah {
    pub(crate) ctx: u32,
    /// The context and machine that it leads to.
    pub(crate) to: (u32, u16),
}
