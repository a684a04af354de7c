//! [`Session`]: the queue pairs and memory of one connection, and the two ends of the hot path: staging a
//! request, recognising its reply.

use super::RequestFormat;
use super::imports::Imports;
use super::receive::Receive;
use super::request::Line;
use super::window::{Before, Slot, Window};
use crate::layout::{DATAGRAM_HEADER_BYTES, ReplyImm};
use crate::staging::Staging;
use drover_base::{KeyHash, KeyHasher};
use drover_verbs::{
    Payload, PostErrorKind, Provider, Qpn, QueuePair, RemoteRegion, SendList, SendOp, SendWr, UdDest, Wc,
    WrId,
};
use std::hint::cold_path;

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

/// Bookkeeping of a send queue whose requests are mostly unsignaled: the last of a list asks for a completion, once in
/// `period` requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    period: u32,
    since: u32,
}

impl Signals {
    /// For a queue of `depth`: a quarter, so that the queue never fills before a completion frees it.
    pub(super) fn new(depth: usize) -> Signals {
        Signals {
            period: (depth as u32 / 4).clamp(1, 64),
            since: 0,
        }
    }

    /// Whether request number `nth` of a list is to be signaled, be it the last or not: lists may be longer than `period`.
    fn is_due_within(self, nth: usize) -> bool {
        (nth as u32).is_multiple_of(self.period)
    }

    /// Most requests in a list that is signaled at its end only.
    pub(super) fn list_max(self) -> usize {
        self.period as usize
    }

    /// The next list is signaled: its completion will tell how far the queue has come.
    fn hurry(&mut self) {
        self.since = self.period - 1;
    }

    /// Whether the last of the next `count` requests is to be signaled.
    #[inline(always)]
    fn is_due(&mut self, count: usize) -> bool {
        self.since += count as u32;
        let due = self.since >= self.period;
        if due {
            self.since = 0;
        }
        due
    }
}

/// Everything that lives as long as one connection.
pub(super) struct Session<P: Provider, F: RequestFormat> {
    pub(super) window: Window,
    pub(super) hasher: KeyHasher,
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
    pub(super) epoch: u64,
    pub(super) front: RequestPath<P>,
    pub(super) receive: Receive<P>,
    /// Sender's queue pair number to partition; open addressing, empty entries have partition `u32::MAX`.
    pub(super) routes: Box<[(Qpn, u32)]>,
    /// Staged requests. The bytes of every slot's request are kept in it, right-aligned in a block each: built once,
    /// posted from there, and sent again from there. A block is left alone while a request is staged, because slots
    /// become free in [`poll`](drover_kv::KvClient::poll) only, behind the flush that it begins with.
    pub(super) list: SendList,
    /// Bytes of a block: the image of a slot, and what stands before it.
    pub(super) block_bytes: usize,
    pub(super) signals: Signals,
    /// Staged requests that are worth a doorbell.
    pub(super) post_batch: usize,
    pub(super) inline_bytes: usize,
    /// Where requests too long to be inline are sent from.
    pub(super) staging: Option<Staging<P>>,
    /// Number of the last request posted, counted from 1.
    pub(super) posted: u64,
    /// Number of the last one known to have left the queue, and all before it.
    pub(super) left: u64,
    /// A queue pair failed: the session is over.
    pub(super) broken: bool,
    pub(super) cq: P::Cq,
    /// What `front` refers to.
    pub(super) imports: Imports<P>,
}

impl<P: Provider, F: RequestFormat> Session<P, F> {
    /// The table of [`routes`](Session::routes); `None` if two partitions have the same sender.
    pub(super) fn route_table(qpns: &[u32]) -> Option<Box<[(Qpn, u32)]>> {
        let size = (qpns.len() * 4).next_power_of_two();
        let mut table = vec![(Qpn(0), u32::MAX); size].into_boxed_slice();
        for (partition, &qpn) in qpns.iter().enumerate() {
            let mut at = qpn as usize & (size - 1);
            while table[at].1 != u32::MAX {
                if table[at].0 == Qpn(qpn) {
                    return None;
                }
                at = (at + 1) & (size - 1);
            }
            table[at] = (Qpn(qpn), partition as u32);
        }
        Some(table)
    }

    /// Whether the operation is one request in a slot. In the paper's format the key does not travel; what is too long
    /// for that was refused before.
    #[inline(always)]
    pub(super) fn fits(&self, key: &[u8], value: &[u8], ttl_s: u32) -> bool {
        let extra = if self.crc { 4 } else { 0 } + if ttl_s != 0 { 4 } else { 0 };
        self.format.is_paper() || key.len() + value.len() + extra <= self.body_bytes_max
    }

    /// What stands before an operation in its lane.
    pub(super) fn before(&self, hash: KeyHash, write: bool) -> Before {
        let lane = self.window.lane(hash.partition_index(self.partition_count));
        let conflicting = lane.iter().filter(|slot| slot.conflicts_with(hash, write));
        let before = |slot: &Slot| match self.keeps_order {
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
        let payload = if len <= self.inline_bytes {
            self.list.inline_kept((at + 1) * self.block_bytes, len)
        } else {
            cold_path();
            let Some(payload) = self.staged_payload(at, len) else {
                // It goes the way of lost requests: it is sent when its time is over.
                return self.signals.hurry();
            };
            payload
        };
        debug_assert!(!self.is_staged(at), "slot {at} is staged twice");
        self.list.push(SendWr {
            wr_id: WrId(0),
            op,
            payload,
            signaled: false,
            fence: false,
        });
        if self.signals.is_due_within(self.list.len()) {
            cold_path();
            self.list.sign_last(WrId(self.posted + self.list.len() as u64));
        }
    }

    /// Adds a request of `len` bytes for slot `at` of a [`plain`](Session::plain) session, which `build` puts to the end
    /// of a line.
    #[inline(always)]
    pub(super) fn stage_plain(&mut self, at: usize, len: usize, build: impl FnOnce(&mut Line)) {
        debug_assert!(!self.is_staged(at), "slot {at} is staged twice");
        let RequestPath::Slots { remote, .. } = &self.front else {
            unreachable!("plain sessions have slots");
        };
        // Nothing stands before the image of a slot: its block is where the slot is.
        let end = (at + 1) * self.block_bytes;
        build(self.list.kept_block_mut(end));
        let payload = self.list.inline_kept(end, len);
        let remote = remote.at(end - len);
        self.list.push(SendWr {
            wr_id: WrId(0),
            op: SendOp::Write { remote, imm: None },
            payload,
            signaled: false,
            fence: false,
        });
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
        let block = self.block_mut(at);
        let start = block.len() - len;
        block[start..start + DATAGRAM_HEADER_BYTES].copy_from_slice(&header);
        (op, len)
    }

    /// The number of the request that is staged next.
    fn next_number(&self) -> u64 {
        self.posted + self.list.len() as u64 + 1
    }

    /// The payload of a request that is too long to be inline; `None`: there is no memory free to send it from.
    #[inline(never)]
    fn staged_payload(&mut self, at: usize, len: usize) -> Option<Payload> {
        let (number, left) = (self.next_number(), self.left);
        let block = &self.list.kept()[at * self.block_bytes..][..self.block_bytes];
        let staging = self
            .staging
            .as_mut()
            .expect("made when slots are longer than inline payloads");
        staging.payload(number, left, len, |region, piece| {
            region.copy_in(piece, &block[block.len() - len..]);
        })
    }

    /// A completion says that request `number` has left the queue.
    pub(super) fn has_left(&mut self, number: WrId) {
        self.left = self.left.max(number.0);
    }

    /// The request bytes of a slot.
    pub(super) fn block(&self, at: usize) -> &[u8] {
        &self.list.kept()[at * self.block_bytes..][..self.block_bytes]
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.list.kept_mut()[at * self.block_bytes..][..self.block_bytes]
    }

    /// Whether the list names a slot's block.
    fn is_staged(&self, at: usize) -> bool {
        let (start, end) = (at * self.block_bytes, (at + 1) * self.block_bytes);
        let inside = |offset: u64| (start as u64..end as u64).contains(&offset);
        self.list.wrs().iter().any(|wr| match wr.payload {
            Payload::Inline { start, .. } => inside(start.into()),
            Payload::Region(_) | Payload::Gather { .. } => false,
        })
    }

    /// Posts what is staged.
    #[inline(always)]
    pub(super) fn flush(&mut self, cpu: &P::Cpu) {
        if !self.list.is_empty() {
            let count = self.list.len() as u64;
            if self.signals.is_due(self.list.len()) {
                self.list.sign_last(WrId(self.posted + count));
            }
            self.posted += count;
            let posted = match &mut self.front {
                RequestPath::Slots { uc, .. } => uc.post_send(cpu, &self.list),
                RequestPath::Datagrams { .. } => self.receive.qp.post_send(cpu, &self.list),
            };
            if let Err(error) = posted {
                self.not_posted(error.accepted, error.kind);
            }
            self.list.clear();
        }
    }

    /// What a full queue did not take goes the way of lost requests: it is sent again when its time is over.
    #[cold]
    fn not_posted(&mut self, accepted: usize, kind: PostErrorKind) {
        if let Some(staging) = &mut self.staging {
            let refused = &self.list.wrs()[accepted..];
            refused.iter().for_each(|wr| staging.refused(wr.payload));
        }
        if kind != PostErrorKind::QueueFull {
            tracing::warn!(%kind, "a request could not be posted: the session is over");
            self.broken = true;
        }
        self.signals.hurry();
    }
}

/// Which partition a datagram's sender serves.
#[inline(always)]
fn partition_of(routes: &[(Qpn, u32)], sender: Qpn) -> Option<usize> {
    let mask = routes.len().wrapping_sub(1);
    let mut at = sender.0 as usize & mask;
    loop {
        let &(qpn, partition) = routes.get(at)?;
        if qpn == sender && partition != u32::MAX {
            return Some(partition as usize);
        }
        if partition == u32::MAX {
            return None;
        }
        at = (at + 1) & mask;
    }
}

/// As [`Session::answered`], with the slot itself.
#[inline(always)]
pub(super) fn answered<'w>(
    window: &'w mut Window,
    routes: &[(Qpn, u32)],
    wc: &Wc,
) -> Option<(usize, ReplyImm, &'w mut Slot)> {
    let imm = ReplyImm(wc.imm?.0);
    let partition = partition_of(routes, wc.src_qpn)?;
    let (at, slot) = window.answered(partition, imm)?;
    Some((at, imm, slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests in a row without a completion, at most, when lists of these lengths are posted by turns.
    fn longest_silence(depth: usize, lengths: &[usize]) -> usize {
        let mut signals = Signals::new(depth);
        let (mut silence, mut longest) = (0, 0);
        for &length in lengths.iter().cycle().take(1000) {
            let due_at_end = signals.is_due(length);
            for nth in 1..=length {
                silence += 1;
                longest = longest.max(silence);
                if (nth == length && due_at_end) || signals.is_due_within(nth) {
                    silence = 0;
                }
            }
        }
        longest
    }

    #[test]
    fn a_queue_never_fills_with_requests_that_nobody_hears_of() {
        for depth in [1usize, 2, 4, 16, 128, 1024] {
            for lengths in [
                &[1][..],
                &[8],
                &[1, 7, 3],
                &[16, 1],
                &[depth.div_ceil(4)],
                &[200, 1],
            ] {
                let longest = longest_silence(depth, lengths);
                assert!(
                    longest <= depth.div_ceil(2).max(1),
                    "{longest} of {depth}: {lengths:?}"
                );
            }
        }
    }
}
