//! [`Queues`] and [`Port`]: send and receive PUTs and their answers, at either end.

use super::super::{ECHO_SCAN, wiring};
use drover_base::Cpu;
use drover_mem::Region;
use drover_verbs::{
    MemoryRegion, Payload, Provider, Qpn, QueuePair, RecvList, RecvWr, RemoteRegion, SendList, SendOp,
    SendWr, Sge, UdDest, Wc, WrId,
};
use std::sync::atomic::Ordering;

/// One message in this many of a queue pair is signaled.
const SIGNAL_EVERY: usize = 64;
/// Maximum inline payload, bytes.
const INLINE_MAX: usize = 188;

/// Layout of a row of slots for messages of one length, 64-byte aligned to each other. Owns no memory.
#[derive(Clone, Copy)]
pub struct Slots {
    /// Offset of the first slot in its memory, bytes.
    pub start: usize,
    /// Number of slots, which are used in turn.
    pub count: usize,
    /// Length of a message, bytes.
    pub bytes: usize,
}

impl Slots {
    /// Distance between two slots, bytes.
    fn stride(&self) -> usize {
        self.bytes.next_multiple_of(64)
    }

    /// Bytes of all slots together.
    pub fn total(&self) -> usize {
        self.count * self.stride()
    }

    /// Offset of slot `slot`, modulo the number of slots.
    fn place(&self, slot: usize) -> usize {
        self.start + slot % self.count * self.stride()
    }

    /// Offset of the word of a slot that arrives last.
    fn last_word(&self, slot: usize) -> usize {
        self.place(slot) + self.bytes.next_multiple_of(8) - 8
    }
}

/// Destination of a port's messages.
#[derive(Clone, Copy)]
pub enum To {
    /// Slots that the other end polls.
    Memory(RemoteRegion, Slots),
    /// A datagram queue pair.
    Datagrams(UdDest),
}

/// State of the messages exchanged with one peer: the destination of this end's messages, and the slots of received
/// ones.
pub struct Port {
    /// Lane (index of the queue pair) through which this end sends.
    pub lane: usize,
    /// Destination of the messages that this end sends.
    pub to: To,
    /// Slots for received messages, unless they are datagrams.
    pub inbox: Slots,
    sent: usize,
    received: usize,
}

impl Port {
    /// Creates a port over which no message has passed yet.
    pub fn new(lane: usize, to: To, inbox: Slots) -> Port {
        Port {
            lane,
            to,
            inbox,
            sent: 0,
            received: 0,
        }
    }

    /// Frees the slot of the next message in `region` and returns true; false if the message has not arrived. Its bytes
    /// are not read.
    pub fn take(&mut self, region: &Region) -> bool {
        let word = self.inbox.last_word(self.received);
        let arrived = region.load_u64(word, Ordering::Acquire) != 0;
        if arrived {
            region.store_u64(word, 0, Ordering::Relaxed);
            self.received += 1;
        }
        arrived
    }
}

/// The queue pairs and completion queues that all ports of a thread share.
pub struct Queues<P: Provider> {
    lanes: Vec<Lane<P>>,
    /// Completions of sent messages.
    pub send_cq: P::Cq,
    /// Completions of RECVs.
    pub recv_cq: P::Cq,
    /// Bytes of a message.
    bytes: Vec<u8>,
    /// The same bytes in registered memory, for messages that are too long to be inline.
    staged: Sge,
    owed: usize,
    list: SendList,
    recvs: RecvList,
}

struct Lane<P: Provider> {
    qp: P::Qp,
    since_signal: usize,
}

impl<P: Provider> Queues<P> {
    /// Creates queues without queue pairs. All messages have the same bytes, which are also written to `staged` in
    /// `mr`.
    pub fn new(send_cq: P::Cq, recv_cq: P::Cq, mr: &P::Mr, staged: Sge) -> Queues<P> {
        let bytes = vec![7; staged.len as usize];
        mr.region().copy_in(staged.offset as usize, &bytes);
        Queues {
            lanes: Vec::new(),
            send_cq,
            recv_cq,
            list: SendList::with_capacity(1, bytes.len()),
            bytes,
            staged,
            owed: 0,
            recvs: RecvList::with_capacity(1),
        }
    }

    /// Adds a queue pair and returns its lane.
    pub fn add(&mut self, qp: P::Qp) -> usize {
        self.lanes.push(Lane { qp, since_signal: 0 });
        self.lanes.len() - 1
    }

    /// The queue pair of a lane.
    pub fn qp(&self, lane: usize) -> &P::Qp {
        &self.lanes[lane].qp
    }

    /// Sends the next message of `port`.
    pub fn send(&mut self, cpu: &P::Cpu, port: &mut Port) {
        let op = match &port.to {
            To::Memory(remote, slots) => SendOp::Write {
                remote: remote.at(slots.place(port.sent)),
                imm: None,
            },
            To::Datagrams(dest) => SendOp::Send {
                dest: Some(*dest),
                imm: None,
            },
        };
        port.sent += 1;
        let lane = &mut self.lanes[port.lane];
        lane.since_signal += 1;
        let signaled = lane.since_signal == SIGNAL_EVERY;
        if signaled {
            lane.since_signal = 0;
            self.owed += 1;
        }
        self.list.clear();
        let payload = match self.bytes.len() <= INLINE_MAX {
            true => self.list.inline(&self.bytes),
            false => Payload::Region(self.staged),
        };
        self.list
            .push(SendWr::new(op, payload).signaled_if(signaled, WrId(0)));
        let posted = lane.qp.post_send(cpu, &self.list);
        posted.expect("a window fits the queue");
    }

    /// Polls up to 4 completions of sent messages, if any are expected.
    pub fn reap(&mut self, cpu: &P::Cpu) {
        if self.owed > 0 {
            let mut wcs = [Wc::default(); 4];
            self.owed -= wiring::poll::<P>(&mut self.send_cq, cpu, &mut wcs);
        }
    }

    /// Posts a RECV for slot `slot` of `slots` to the queue pair of lane 0.
    pub fn post_recv(&mut self, cpu: &P::Cpu, mr: &P::Mr, slots: &Slots, slot: usize) {
        self.recvs.clear();
        self.recvs.push(RecvWr {
            wr_id: WrId(slot as u64),
            sge: mr.sge(slots.place(slot), slots.bytes),
        });
        let posted = self.lanes[0].qp.post_recv(cpu, &self.recvs);
        posted.expect("space for what was used up");
    }

    /// Takes a datagram, posts its RECV again, and returns the sender; `None` if none has arrived.
    pub fn take_datagram(&mut self, cpu: &P::Cpu, mr: &P::Mr, slots: &Slots) -> Option<Qpn> {
        let mut wcs = [Wc::default(); 1];
        if wiring::poll::<P>(&mut self.recv_cq, cpu, &mut wcs) == 0 {
            return None;
        }
        self.post_recv(cpu, mr, slots, wcs[0].wr_id.0 as usize);
        Some(wcs[0].src_qpn)
    }
}

/// Charges the cost of polling `count` slots.
pub fn charge_looks<C: Cpu>(cpu: &C, count: usize) {
    cpu.charge(ECHO_SCAN, count as u32);
}
