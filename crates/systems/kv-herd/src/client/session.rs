//! [`Session`]: the queue pairs and memory of one session, and the two ends of the hot path: staging a request, and
//! finding the request that a reply answers.

use super::RequestFormat;
use crate::layout::{BULK_BYTES, DATAGRAM_HEADER_BYTES, ReplyImm, SlotOp, paper};
use drover_base::{KeyHash, KeyHasher, Ns};
use drover_kv::{Op, SizeLimits};
use drover_rt::{DatagramReceiver, Imports, SendQueue};
use drover_slots::client::{Before, Routes, Slot, Window};
use drover_verbs::{Provider, QueuePair, RemoteRegion, SendOp, UdDest, Wc};

/// The path of requests to the server.
pub(super) enum RequestPath<P: Provider> {
    /// WRITEs into the client's slots at the server.
    Slots {
        /// The client's end of the UC connection.
        uc: P::Qp,
        /// The client's slots for all partitions.
        remote: RemoteRegion,
    },
    /// Datagrams to the worker of each partition, sent from the queue pair that receives replies.
    Datagrams {
        /// Address of each partition's worker.
        dests: Vec<UdDest>,
        /// Id that the server has assigned to the client.
        client_id: u32,
        /// Generation of the id.
        generation: u32,
    },
}

/// Parameters of a session: those of the server's Welcome, and what follows from them and the fabric.
pub(super) struct ServerParams<F: RequestFormat> {
    pub(super) epoch: u64,
    pub(super) partition_count: usize,
    /// Longest body of a request in a slot, bytes: ttl, value, key and checksum.
    pub(super) body_bytes_max: usize,
    /// Longest value that the server accepts, bytes.
    pub(super) item_bytes_max: usize,
    /// Whether request bodies end with a checksum.
    pub(super) crc: bool,
    pub(super) format: F,
    /// Longest body, bytes, of a request without time to live that is built and sent in the simplest way: one or two cache
    /// lines, if the session has slots, no checksums and our own format, and the fabric sends so much inline. Else 0.
    pub(super) plain_bytes_max: usize,
    /// Key of the region of slots, if plain requests can be sent; else any number.
    pub(super) plain_rkey: u32,
    /// Whether requests to one partition take effect in the order of posting, because none is lost on the way and the
    /// server takes them in turn.
    pub(super) keeps_order: bool,
    /// Least time after which a request is sent again.
    pub(super) patience: Ns,
}

/// Operation of the request for `op`, if its value is in the slot.
#[inline(always)]
pub(super) fn slot_op(op: &Op<'_>) -> SlotOp {
    match *op {
        Op::Get { .. } => SlotOp::Get,
        Op::GetItem { .. } => SlotOp::GetExt,
        Op::Put { .. } if op.extension().is_some() => SlotOp::PutExt,
        Op::Put { ttl_s: 0, .. } => SlotOp::Put,
        Op::Put { .. } => SlotOp::PutTtl,
        Op::Delete { .. } if op.extension().is_some() => SlotOp::DeleteExt,
        Op::Delete { .. } => SlotOp::Delete,
        Op::Touch { .. } => SlotOp::Touch,
    }
}

/// Everything that lives as long as one session.
pub(super) struct Session<P: Provider, F: RequestFormat> {
    pub(super) params: ServerParams<F>,
    pub(super) window: Window,
    pub(super) hasher: KeyHasher,
    pub(super) front: RequestPath<P>,
    pub(super) receive: DatagramReceiver<P>,
    /// Declared behind the queue pairs: they must be destroyed before the memory that they send from.
    pub(super) sends: SendQueue<P>,
    /// Partition of each queue pair from which replies come.
    pub(super) routes: Routes,
    /// Whether a queue pair has failed, so that the session is over.
    pub(super) broken: bool,
    pub(super) cq: P::Cq,
    /// The server's memory and address handles that `front` uses.
    pub(super) imports: Imports<P>,
}

impl<P: Provider, F: RequestFormat> Session<P, F> {
    /// Whether an operation fits into a slot as one request. Always true in the paper's format, in which values that
    /// are too long [cannot be expressed](Session::cannot_say).
    #[inline(always)]
    pub(super) fn fits(&self, op: &Op<'_>) -> bool {
        let extra = if self.params.crc { 4 } else { 0 } + slot_op(op).lead_bytes();
        self.params.format.is_paper()
            || op.key().len() + op.value().len() + extra <= self.params.body_bytes_max
    }

    /// Longest key that has space in a slot with this operation, whose value moves in bulk if it must, and longest value that
    /// the server accepts.
    pub(super) fn size_limits(&self, op: &Op<'_>) -> SizeLimits {
        let extra = if self.params.crc { 4 } else { 0 } + slot_op(op).lead_bytes();
        let value_bytes = op.value().len().min(BULK_BYTES);
        SizeLimits {
            key_bytes: self.params.body_bytes_max.saturating_sub(extra + value_bytes),
            value_bytes: self.params.item_bytes_max,
        }
    }

    /// How the conflicting operations in the lane of a new operation precede it.
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

    /// Index of the slot whose request a reply answers, and the reply's immediate; `None` if it answers none.
    pub(super) fn answered(&mut self, wc: &Wc) -> Option<(usize, ReplyImm)> {
        let imm = ReplyImm(wc.imm?.0);
        let partition = self.routes.partition_of(wc.src_qpn.0)?;
        let (at, _) = self.window.answered(partition, imm)?;
        Some((at, imm))
    }

    /// Whether the session's format has no request for this operation.
    #[inline(always)]
    pub(super) fn cannot_say(&self, op: &Op<'_>) -> bool {
        self.params.format.is_paper() && !paper::can_say(op, self.window.map().slot_bytes)
    }

    /// Stages the request in the block of slot `at`: its last `len` bytes, after a header in a datagram.
    #[inline(always)]
    pub(super) fn stage(&mut self, at: usize, len: usize) {
        match &self.front {
            RequestPath::Slots { remote, .. } => {
                let end = (at + 1) * self.window.map().slot_bytes;
                self.sends.push_write(at, remote.at(end - len), len);
            }
            RequestPath::Datagrams { .. } => {
                let (op, len) = self.address_datagram(at, len);
                self.sends.push(at, op, len);
            }
        }
    }

    /// Stages a request of `len` bytes in slot `at`, which `build` writes to the end of `N` bytes: its body is at most
    /// [`plain_bytes_max`](ServerParams::plain_bytes_max).
    #[inline(always)]
    pub(super) fn stage_plain<const N: usize>(
        &mut self,
        at: usize,
        len: usize,
        build: impl FnOnce(&mut [u8; N]),
    ) {
        self.sends.push_lines(at, len, self.params.plain_rkey, build);
    }

    /// Writes the header before the last `len` bytes of the block of slot `at`; returns the operation that sends the
    /// datagram, and its length.
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

    /// Posts the staged requests. If that fails, marks the session as broken.
    #[inline(always)]
    pub(super) fn flush(&mut self, cpu: &P::Cpu) {
        let (front, receive) = (&mut self.front, &mut self.receive);
        let went = self.sends.post(|list| match front {
            RequestPath::Slots { uc, .. } => uc.post_writes(cpu, list),
            RequestPath::Datagrams { .. } => receive.qp.post_send(cpu, list.spread()),
        });
        if !went {
            self.broken = true;
        }
    }
}
