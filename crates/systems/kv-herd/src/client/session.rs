//! [`Session`]: the queue pairs and memory of one connection, and the two ends of the hot path: staging a
//! request, recognising its reply.

use super::RequestFormat;
use crate::layout::{DATAGRAM_HEADER_BYTES, ReplyImm, paper};
use drover_base::{KeyHash, KeyHasher};
use drover_kv::Op;
use drover_rt::{DatagramReceiver, Imports, SendQueue};
use drover_slots::client::request::Line;
use drover_slots::client::{Before, Routes, Slot, Window};
use drover_verbs::{Provider, QueuePair, RemoteRegion, SendOp, UdDest, Wc};

/// How requests travel.
pub(super) enum RequestPath<P: Provider> {
    /// WRITEs into our slots at the server.
    Slots {
        /// Our end of the connection.
        uc: P::Qp,
        /// The slots.
        remote: RemoteRegion,
    },
    /// Datagrams to the worker of each partition; sent by the queue pair that receives replies.
    Datagrams {
        /// One per partition.
        dests: Vec<UdDest>,
        /// What the server calls us, and how often it has called somebody so.
        client_id: u32,
        generation: u32,
    },
}

/// What a session's requests are like: what the server said, and what follows from that and the fabric.
pub(super) struct ServerParams<F: RequestFormat> {
    pub(super) epoch: u64,
    pub(super) partition_count: usize,
    /// Longest body (with everything in it) that goes into a slot.
    pub(super) body_bytes_max: usize,
    pub(super) item_bytes_max: usize,
    pub(super) crc: bool,
    pub(super) format: F,
    /// Neither checksums, nor format P, nor datagrams, and a line can be inline: the usual.
    pub(super) plain: bool,
    /// Requests of one lane take effect in the order of their posting: none is lost on the way, and the server takes
    /// them in turn.
    pub(super) keeps_order: bool,
}

/// Everything that lives as long as one connection.
pub(super) struct Session<P: Provider, F: RequestFormat> {
    pub(super) params: ServerParams<F>,
    pub(super) window: Window,
    pub(super) hasher: KeyHasher,
    pub(super) front: RequestPath<P>,
    pub(super) receive: DatagramReceiver<P>,
    /// Declared behind the queue pairs: they must be destroyed before the memory that they send from.
    pub(super) sends: SendQueue<P>,
    /// Partition of each sender of replies.
    pub(super) routes: Routes,
    /// A queue pair failed: the session is over.
    pub(super) broken: bool,
    pub(super) cq: P::Cq,
    /// What `front` refers to.
    pub(super) imports: Imports<P>,
}

impl<P: Provider, F: RequestFormat> Session<P, F> {
    /// Whether the operation is one request in a slot. In the paper's format the key does not travel; what is too long
    /// for that was refused before.
    #[inline(always)]
    pub(super) fn fits(&self, key: &[u8], value: &[u8], ttl_s: u32) -> bool {
        let extra = if self.params.crc { 4 } else { 0 } + if ttl_s != 0 { 4 } else { 0 };
        self.params.format.is_paper() || key.len() + value.len() + extra <= self.params.body_bytes_max
    }

    /// What stands before an operation in its lane.
    pub(super) fn before(&self, hash: KeyHash, write: bool) -> Before {
        let lane = self
            .window
            .lane(hash.partition_index(self.params.partition_count));
        let conflicting = lane.iter().filter(|slot| slot.conflicts_with(hash, write));
        let before = |slot: &Slot| match self.params.keeps_order {
            true => slot.as_before(),
            false => Before::Unsure,
        };
        conflicting.map(before).max().unwrap_or(Before::Nothing)
    }

    /// The slot that a datagram answers, where it is, and what its immediate says.
    #[inline(always)]
    pub(super) fn answered(&mut self, wc: &Wc) -> Option<(usize, ReplyImm)> {
        let (at, imm, _) = answered(&mut self.window, &self.routes, wc)?;
        Some((at, imm))
    }

    /// Whether the session's format has no request for this operation.
    #[inline(always)]
    pub(super) fn cannot_say(&self, op: &Op<'_>) -> bool {
        self.params.format.is_paper() && !paper::can_say(op, self.window.map().slot_bytes)
    }

    /// Adds the request in slot `at` to the list, `len` bytes of its block.
    #[inline(always)]
    pub(super) fn stage(&mut self, at: usize, len: usize) {
        let (op, len) = match &self.front {
            RequestPath::Slots { remote, .. } => {
                let end = (at + 1) * self.window.map().slot_bytes;
                let remote = remote.at(end - len);
                (SendOp::Write { remote, imm: None }, len)
            }
            RequestPath::Datagrams { .. } => self.address_datagram(at, len),
        };
        self.sends.push(at, op, len);
    }

    /// Adds a request of `len` bytes for slot `at` of a [`plain`](ServerParams::plain) session, which `build` puts to the end
    /// of a line.
    #[inline(always)]
    pub(super) fn stage_plain(&mut self, at: usize, len: usize, build: impl FnOnce(&mut Line)) {
        let RequestPath::Slots { remote, .. } = &self.front else {
            unreachable!("plain sessions have slots");
        };
        self.sends.push_line(at, len, remote, build);
    }

    /// Puts the header before the `len` bytes of a request, and says where they go and how long they are now.
    fn address_datagram(&mut self, at: usize, len: usize) -> (SendOp, usize) {
        let RequestPath::Datagrams {
            dests,
            client_id,
            generation,
        } = &self.front
        else {
            unreachable!("called for datagrams only");
        };
        let (partition, index) = self.window.place(at);
        let mut header = [0; DATAGRAM_HEADER_BYTES];
        header[..4].copy_from_slice(&client_id.to_le_bytes());
        header[4..6].copy_from_slice(&(index as u16).to_le_bytes());
        header[6..].copy_from_slice(&(*generation as u16).to_le_bytes());
        let op = SendOp::Send {
            dest: Some(dests[partition]),
            imm: None,
        };
        let len = len + DATAGRAM_HEADER_BYTES;
        let block = self.sends.block_mut(at);
        let start = block.len() - len;
        block[start..start + DATAGRAM_HEADER_BYTES].copy_from_slice(&header);
        (op, len)
    }

    /// Posts what is staged.
    #[inline(always)]
    pub(super) fn flush(&mut self, cpu: &P::Cpu) {
        let (front, receive) = (&mut self.front, &mut self.receive);
        let went = self.sends.post(|list| match front {
            RequestPath::Slots { uc, .. } => uc.post_send(cpu, list),
            RequestPath::Datagrams { .. } => receive.qp.post_send(cpu, list),
        });
        if !went {
            self.broken = true;
        }
    }
}

/// As [`Session::answered`], with the slot itself.
#[inline(always)]
pub(super) fn answered<'w>(
    window: &'w mut Window,
    routes: &Routes,
    wc: &Wc,
) -> Option<(usize, ReplyImm, &'w mut Slot)> {
    let imm = ReplyImm(wc.imm?.0);
    let partition = routes.partition_of(wc.src_qpn.0)?;
    let (at, slot) = window.answered(partition, imm)?;
    Some((at, imm, slot))
}
