//! [`Op`]: a work request being processed, and the arena of all ops.

use super::prices::Verb;
use drover_sim::Ps;
use drover_verbs::{Imm, MaskedSwap, RecvWr, RemoteAddr, Sge, WcStatus, WrId};

/// Role in which an op travels or waits; an op and its role are an [`Item`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The request itself.
    Request,
    /// Its acknowledgement.
    Ack,
    /// The data it fetched.
    Response,
    /// No packet: the requester's card writes a completion.
    SelfCqe,
    /// Refusal with the status in [`Ending::status`].
    Nak,
    /// An earlier request is missing.
    SequenceNak,
    /// No RECV is posted.
    RnrNak,
}

const ROLES: [Role; 7] = [
    Role::Request,
    Role::Ack,
    Role::Response,
    Role::SelfCqe,
    Role::Nak,
    Role::SequenceNak,
    Role::RnrNak,
];

/// An op and its role in 32 bits, as events and stations carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item(pub(crate) u32);

impl Item {
    pub(crate) fn new(op: u32, role: Role) -> Item {
        Item(op << 3 | role as u32)
    }

    #[inline]
    pub(crate) fn op(self) -> u32 {
        self.0 >> 3
    }

    #[inline]
    pub(crate) fn role(self) -> Role {
        ROLES[(self.0 & 7) as usize]
    }
}

/// No op: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// A work request, from posting until the last reference is dropped.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) qp: u32,
    /// Sequence number in its queue pair.
    pub(crate) sequence: u64,
    pub(crate) wr: Posted,
    /// The payload in flight.
    pub(crate) data: Vec<u8>,
    /// Local memory to gather from or scatter to.
    pub(crate) pieces: Vec<Sge>,
    pub(crate) handover: Handover,
    /// Position in the cache of work requests, counted in entries.
    pub(crate) cached: u64,
    pub(crate) responder: AtResponder,
    pub(crate) ending: Ending,
    /// Number of references: its queue pair, and every item in flight.
    refs: u32,
}

/// What was posted; it does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) verb: Verb,
    pub(crate) is_ud: bool,
    pub(crate) wr_id: WrId,
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
    pub(crate) inline: bool,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) imm: Option<Imm>,
    pub(crate) remote: RemoteAddr,
    /// CAS: its operands; without masks, all bits count.
    pub(crate) swap: MaskedSwap,
    /// FAA: the addend.
    pub(crate) add: u64,
    /// Datagrams: the receiver's queue pair and key, and the context that it must belong to.
    pub(crate) dest: (u32, u32, u32),
}

/// How a request gets from its core into the card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    /// Id of the context that posted it.
    pub(crate) core: u32,
    /// Lines that its core wrote; 0 if the card fetched it.
    pub(crate) lines: u32,
    /// The next op of the same doorbell.
    pub(crate) next: u32,
    /// Time when it is in the card.
    pub(crate) ingested_at: Ps,
    /// Additional time at the transmit engine.
    pub(crate) tx_extra: Ps,
}

/// What the responder has done with a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtResponder {
    /// The RECV it took, and the receiving queue pair.
    pub(crate) recv: Option<(u32, RecvWr)>,
    /// Number of its bytes that are visible, or of those that were read.
    pub(crate) landed: u32,
    /// Whether the responder has executed it (a repeated atomic is answered from memory).
    pub(crate) executed: bool,
}

/// How far a request is from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// Whether the responder is done with it: only the requester's completion is missing.
    pub(crate) acked: bool,
    /// Whether it can complete as soon as all earlier ones have.
    pub(crate) done: bool,
    /// Whether it has left its queue pair.
    pub(crate) retired: bool,
    /// The status of its refusal.
    pub(crate) status: WcStatus,
}

impl Posted {
    /// Whether the card fetches its payload from the host.
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        !self.inline && !self.verb.fetches() && self.len > 0
    }

    /// Whether it takes a RECV at the responder.
    #[inline]
    pub(crate) fn takes_recv(&self) -> bool {
        self.verb == Verb::Send || self.imm.is_some()
    }
}

impl Op {
    /// A request of `qp`, posted by `core`, with one reference.
    fn new(qp: u32, core: u32, sequence: u64, wr: Posted) -> Op {
        Op {
            qp,
            sequence,
            wr,
            data: Vec::new(),
            pieces: Vec::new(),
            handover: Handover {
                core,
                lines: 0,
                next: NONE,
                ingested_at: Ps::ZERO,
                tx_extra: Ps::ZERO,
            },
            cached: 0,
            responder: AtResponder::default(),
            ending: Ending {
                acked: false,
                done: false,
                retired: false,
                status: WcStatus::Success,
            },
            refs: 1,
        }
    }
}

/// All ops; entries are reused together with the memory of their payloads.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    places: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// Adds a request of `qp`, posted by `core`, with one reference and without payload.
    pub(crate) fn add(&mut self, qp: u32, core: u32, sequence: u64, wr: Posted) -> u32 {
        let mut op = Op::new(qp, core, sequence, wr);
        let Some(id) = self.free.pop() else {
            self.places.push(op);
            return self.places.len() as u32 - 1;
        };
        let place = &mut self.places[id as usize];
        (op.data, op.pieces) = (std::mem::take(&mut place.data), std::mem::take(&mut place.pieces));
        op.data.clear();
        op.pieces.clear();
        *place = op;
        id
    }

    pub(crate) fn hold(&mut self, id: u32) {
        self.places[id as usize].refs += 1;
    }

    pub(crate) fn release(&mut self, id: u32) {
        let place = &mut self.places[id as usize];
        place.refs = place.refs.checked_sub(1).expect("a reference to give back");
        if place.refs == 0 {
            self.free.push(id);
        }
    }

    /// Number of ops in use.
    pub(crate) fn alive(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl std::ops::Index<u32> for Ops {
    type Output = Op;
    #[inline]
    fn index(&self, id: u32) -> &Op {
        &self.places[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Ops {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Op {
        &mut self.places[id as usize]
    }
}
