//! [`Op`]: a work request on its way, and the arena they live in.

use super::prices::Verb;
use drover_sim::Ps;
use drover_verbs::{Imm, RecvWr, RemoteAddr, Sge, WcStatus, WrId};

/// What travels and queues is an [`Item`]: an op and in which role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The request itself.
    Request,
    /// Its acknowledgement.
    Ack,
    /// The data it fetched.
    Response,
    /// Nothing travels: the requester's card writes a completion.
    SelfCqe,
    /// "Refused": [`Op::status`] says why.
    Nak,
    /// "Something before this is missing."
    SequenceNak,
    /// "No RECV is posted."
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

/// An op in a role, in 32 bits: what events and stations carry.
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

/// A work request from posting until nobody refers to it.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) qp: u32,
    pub(crate) verb: Verb,
    pub(crate) is_ud: bool,
    pub(crate) wr_id: WrId,
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
    pub(crate) imm: Option<Imm>,
    pub(crate) remote: RemoteAddr,
    /// Atomics: expected and new value, or the addend.
    pub(crate) operands: (u64, u64),
    /// Datagrams: the receiver's queue pair and key, and the context that it must belong to.
    pub(crate) dest: (u32, u32, u32),
    pub(crate) inline: bool,
    /// Payload bytes.
    pub(crate) len: u32,
    /// The payload while it travels.
    pub(crate) data: Vec<u8>,
    /// Local memory: gathered from, or scattered to.
    pub(crate) pieces: Vec<Sge>,
    /// When it is in the card.
    pub(crate) ingested_at: Ps,
    /// Lines that its core wrote; 0 when the card fetched it.
    pub(crate) lines: u32,
    /// The core that posted it.
    pub(crate) core: u32,
    /// More time at the transmit engine.
    pub(crate) tx_extra: Ps,
    /// The next one of the same doorbell.
    pub(crate) next: u32,
    /// Number in the order of its queue pair.
    pub(crate) sequence: u64,
    /// When it entered the cache of work requests, in entries.
    pub(crate) cached: u64,
    /// Bytes of it that have become visible.
    pub(crate) landed: u32,
    /// The RECV it took, and whose.
    pub(crate) recv: Option<(u32, RecvWr)>,
    /// The responder has executed it (atomics answer a second request from memory).
    pub(crate) executed: bool,
    /// The responder is done with it: what is missing is the requester's completion.
    pub(crate) acked: bool,
    /// It can complete as soon as all before it have.
    pub(crate) done: bool,
    /// Its queue pair knows it no more.
    pub(crate) retired: bool,
    pub(crate) status: WcStatus,
    /// Who refers to it: its queue pair, and every item on its way.
    refs: u32,
}

impl Op {
    /// Whether the card fetches its payload from the host.
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        !self.inline && !self.verb.fetches() && self.len > 0
    }

    fn blank() -> Op {
        Op {
            qp: 0,
            verb: Verb::Send,
            is_ud: false,
            wr_id: WrId(0),
            signaled: false,
            fence: false,
            imm: None,
            remote: RemoteAddr::default(),
            operands: (0, 0),
            dest: (0, 0, 0),
            inline: false,
            len: 0,
            data: Vec::new(),
            pieces: Vec::new(),
            ingested_at: Ps::ZERO,
            lines: 0,
            core: 0,
            tx_extra: Ps::ZERO,
            next: NONE,
            sequence: 0,
            cached: 0,
            landed: 0,
            recv: None,
            executed: false,
            acked: false,
            done: false,
            retired: false,
            status: WcStatus::Success,
            refs: 0,
        }
    }
}

/// All ops; places are used again, with the memory of their payloads.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    places: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// A blank op with one reference.
    pub(crate) fn add(&mut self) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.places.push(Op::blank());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[id as usize];
        let (mut data, mut pieces) = (std::mem::take(&mut place.data), std::mem::take(&mut place.pieces));
        data.clear();
        pieces.clear();
        *place = Op {
            data,
            pieces,
            refs: 1,
            ..Op::blank()
        };
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

    /// How many are alive.
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
