//! Work requests and the lists they are posted in. Lists are reused and do not allocate after warm-up.

use crate::{MaskedOperands, RemoteAddr};

/// The caller's id of a request, returned in its completion. It need not be unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WrId(pub u64);

/// 32 bits of immediate data, sent along with the payload. A plain number: fabrics convert the byte order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Imm(pub u32);

/// A piece of registered local memory (scatter/gather element). Made by
/// [`MemoryRegion::sge`](crate::MemoryRegion::sge).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Key of the registration, valid in the context that registered the region.
    pub lkey: u32,
    /// Length of the piece in bytes.
    pub len: u32,
    /// Offset of the piece from the start of the registered region, in bytes.
    pub offset: u64,
}

/// Location of the bytes of a request: the source of SEND and WRITE, the destination of the results of READ and
/// atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// In the arena of the list: copied at posting, so that the list can be cleared at once. SEND and WRITE only.
    Inline {
        /// Offset in the list's arena, in bytes.
        start: u32,
        /// Length of the payload in bytes.
        len: u32,
    },
    /// In one piece of registered memory. Until the request completes (an unsignaled one: until a later request
    /// completes), a source must not be changed, and a destination neither read nor changed.
    Region(Sge),
    /// In several pieces of registered memory, gathered or scattered in order, with the same rule for access as for
    /// `Region`.
    Gather {
        /// Index of the first piece in the list's table of elements.
        start: u32,
        /// Number of pieces, at most [`Caps::sge_max`](crate::Caps::sge_max).
        count: u32,
    },
}

impl Payload {
    /// A payload of length 0, for SEND and WRITE.
    pub const EMPTY: Payload = Payload::Inline { start: 0, len: 0 };
}

/// Destination of a datagram. Made by [`Context::create_ah`](crate::Context::create_ah). A plain value: only
/// [`Context::destroy_ah`](crate::Context::destroy_ah) destroys the handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdDest {
    /// Address handle, valid in the context that created it.
    pub ah: u32,
    /// Number of the receiver's queue pair.
    pub qpn: crate::Qpn,
    /// Queue key of the receiver, which drops datagrams with another key.
    pub qkey: u32,
}

impl UdDest {
    /// Address handle and queue pair as one number, for comparisons: datagrams with the same one go to the same receiver.
    #[inline(always)]
    pub fn receiver(&self) -> u64 {
        u64::from(self.ah) | u64::from(self.qpn.0) << 32
    }
}

/// Operation of a send-queue request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// SEND into the peer's next RECV.
    Send {
        /// Receiver of the datagram; `None` over RC and UC, whose receiver is the connected peer.
        dest: Option<UdDest>,
        /// Immediate data, delivered in the completion of the RECV.
        imm: Option<Imm>,
    },
    /// WRITE into the peer's memory.
    Write {
        /// Address of the first byte written.
        remote: RemoteAddr,
        /// Immediate data; if there is any, the WRITE also takes a RECV of the peer, which completes with it.
        imm: Option<Imm>,
    },
    /// READ from the peer's memory.
    Read {
        /// Address of the first byte read.
        remote: RemoteAddr,
    },
    /// CAS: if the remote word is `compare`, sets it to `swap`; the old value goes to the 8-byte payload in either
    /// case.
    CompareSwap {
        /// Address of the word, aligned to 8.
        remote: RemoteAddr,
        /// Value that the word must have to be replaced.
        compare: u64,
        /// Value that replaces it.
        swap: u64,
    },
    /// FAA: adds `add` to the remote word, modulo 2^64; the old value goes to the 8-byte payload.
    FetchAdd {
        /// Address of the word, aligned to 8.
        remote: RemoteAddr,
        /// Number to add.
        add: u64,
    },
    /// CAS that compares and replaces only bits that masks name; the old value of the whole word goes to the 8-byte
    /// payload in either case. Only with [`Support::masked_atomics`](crate::Support::masked_atomics).
    MaskedCompareSwap {
        /// Address of the word, aligned to 8.
        remote: RemoteAddr,
        /// Values and masks, in the list's arena: from [`SendList::masked_swap`].
        operands: MaskedOperands,
    },
}

impl SendOp {
    /// Name of the verb, for log lines.
    pub fn verb(&self) -> &'static str {
        match self {
            SendOp::Send { .. } => "SEND",
            SendOp::Write { .. } => "WRITE",
            SendOp::Read { .. } => "READ",
            SendOp::CompareSwap { .. } => "CAS",
            SendOp::FetchAdd { .. } => "FAA",
            SendOp::MaskedCompareSwap { .. } => "masked CAS",
        }
    }

    /// Address in the peer's memory; `None` for a SEND.
    #[inline]
    pub fn remote(&self) -> Option<RemoteAddr> {
        match *self {
            SendOp::Send { .. } => None,
            SendOp::Write { remote, .. }
            | SendOp::Read { remote }
            | SendOp::CompareSwap { remote, .. }
            | SendOp::FetchAdd { remote, .. }
            | SendOp::MaskedCompareSwap { remote, .. } => Some(remote),
        }
    }

    /// Whether it is a CAS, masked or not, or an FAA.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        matches!(
            self,
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } | SendOp::MaskedCompareSwap { .. }
        )
    }
}

/// One request of a send queue: a SEND, WRITE, READ, CAS or FAA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Id returned in the completion; unsignaled requests complete with it only if they fail.
    pub wr_id: WrId,
    /// Verb, with the remote address and other operands.
    pub op: SendOp,
    /// Location of the local bytes: source or, for READ and atomics, destination.
    pub payload: Payload,
    /// Whether success is reported by a completion. Failures always are.
    pub signaled: bool,
    /// Whether the request waits for earlier READs and atomics of its queue pair to finish before it starts.
    pub fence: bool,
}

/// A list of send requests with the bytes of its inline payloads and the operands of masked CAS (the *arena*), and the pieces of its gathered ones,
/// posted in one call.
#[derive(Debug, Default)]
pub struct SendList {
    wrs: Vec<SendWr>,
    /// Inline payloads in the first `used` bytes; the bytes after them are left from earlier lists, so that space for a
    /// payload need not be zeroed first. The first `kept` bytes are never reused.
    arena: Vec<u8>,
    used: u32,
    kept: u32,
    sges: Vec<Sge>,
}

impl SendList {
    /// Creates an empty list with space for `count` requests and `inline_bytes` of inline payloads; it grows beyond
    /// that.
    pub fn with_capacity(count: usize, inline_bytes: usize) -> SendList {
        SendList {
            wrs: Vec::with_capacity(count),
            arena: vec![0; inline_bytes],
            used: 0,
            kept: 0,
            sges: Vec::with_capacity(count),
        }
    }

    /// Creates an empty list with space for `count` requests, and with `bytes` zeroed bytes that survive
    /// [`clear`](SendList::clear): for payloads that may have to be sent again, so that they are built once and posted
    /// from there.
    ///
    /// # Panics
    /// If `bytes` does not fit in 32 bits.
    pub fn with_kept(count: usize, bytes: usize) -> SendList {
        let kept = u32::try_from(bytes).expect("kept bytes of a list have 32-bit offsets");
        SendList {
            used: kept,
            kept,
            ..SendList::with_capacity(count, bytes)
        }
    }

    /// The bytes that survive [`clear`](SendList::clear).
    #[inline(always)]
    pub fn kept(&self) -> &[u8] {
        &self.arena[..self.kept as usize]
    }

    /// The bytes that survive [`clear`](SendList::clear), mutable. Requests in the list that refer to them will send
    /// the new bytes.
    #[inline(always)]
    pub fn kept_mut(&mut self) -> &mut [u8] {
        &mut self.arena[..self.kept as usize]
    }

    /// Bytes `end - N` to `end` (exclusive) of [`kept`](SendList::kept), mutable.
    ///
    /// # Panics
    /// If `end` is less than `N` or beyond the list's inline bytes; in debug builds, also if it is beyond the kept
    /// bytes.
    #[inline(always)]
    pub fn kept_block_mut<const N: usize>(&mut self, end: usize) -> &mut [u8; N] {
        debug_assert!(end <= self.kept as usize);
        let block = self
            .arena
            .get_mut(..end)
            .and_then(|before| before.last_chunk_mut());
        block.expect("a block inside the kept bytes")
    }

    /// The payload that consists of bytes `end - len` to `end` (exclusive) of [`kept`](SendList::kept). `len` is at
    /// most `end`, and `end` at most the length of the kept bytes; only debug builds check it.
    #[inline(always)]
    pub fn inline_kept(&self, end: usize, len: usize) -> Payload {
        debug_assert!(len <= end && end <= self.kept as usize);
        Payload::Inline {
            start: (end - len) as u32,
            len: len as u32,
        }
    }

    /// Adds `wr` at the end. Its payload must be from this list or registered memory.
    #[inline(always)]
    pub fn push(&mut self, wr: SendWr) {
        self.wrs.push(wr);
    }

    /// Removes the last request, if there is one. The bytes of its payload stay until the list is cleared.
    pub fn pop(&mut self) -> Option<SendWr> {
        self.wrs.pop()
    }

    /// Makes the last request of the list signaled, if it is not yet, and in any case replaces its id by `wr_id`.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn sign_last(&mut self, wr_id: WrId) {
        self.sign(self.wrs.len() - 1, wr_id);
    }

    /// Makes request number `at` signaled.
    pub(crate) fn sign(&mut self, at: usize, wr_id: WrId) {
        let wr = &mut self.wrs[at];
        (wr.signaled, wr.wr_id) = (true, wr_id);
    }

    /// [`inline_space`](SendList::inline_space) after making the arena larger.
    #[cold]
    #[inline(never)]
    fn grown_space(&mut self, len: usize) -> (Payload, &mut [u8]) {
        let end = self.used as usize + len;
        assert!(
            end <= u32::MAX as usize,
            "{end} bytes of inline payload in one list"
        );
        self.arena.resize((2 * end).max(256), 0);
        self.inline_space(len)
    }

    /// Copies `bytes` into the list's arena; returns the payload, to be used in a request of this list.
    #[inline]
    pub fn inline(&mut self, bytes: &[u8]) -> Payload {
        self.inline_with(bytes.len(), |to| to.copy_from_slice(bytes))
    }

    /// Reserves `len` bytes of the list's arena and lets `fill` build the payload in place; returns the payload. Bytes
    /// that `fill` does not write are sent as they are: zeros, or bytes of earlier payloads.
    #[inline(always)]
    pub fn inline_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Payload {
        let (payload, space) = self.inline_space(len);
        fill(space);
        payload
    }

    /// Reserves `len` bytes of the list's arena: returns the payload and the space to build it in. As
    /// [`inline_with`](SendList::inline_with), without a closure.
    #[inline(always)]
    pub fn inline_space(&mut self, len: usize) -> (Payload, &mut [u8]) {
        let start = self.used as usize;
        let end = start + len;
        if end > self.arena.len() {
            return self.grown_space(len);
        }
        self.used = end as u32;
        let payload = Payload::Inline {
            start: start as u32,
            len: len as u32,
        };
        (payload, &mut self.arena[start..end])
    }

    /// Copies `sges` into the list's table; returns the payload that consists of these pieces, for a request of this
    /// list.
    pub fn gather(&mut self, sges: &[Sge]) -> Payload {
        let start = self.sges.len() as u32;
        self.sges.extend_from_slice(sges);
        Payload::Gather {
            start,
            count: sges.len() as u32,
        }
    }

    /// The requests in posting order.
    #[inline]
    pub fn wrs(&self) -> &[SendWr] {
        &self.wrs
    }

    /// The bytes of a [`Payload::Inline`] of this list with these fields.
    ///
    /// # Panics
    /// If they are not inside the arena.
    #[inline]
    pub fn inline_bytes(&self, start: u32, len: u32) -> &[u8] {
        &self.arena[start as usize..start as usize + len as usize]
    }

    /// The bytes of a [`Payload::Inline`] of this list with these fields, to be filled in.
    pub(crate) fn inline_bytes_mut(&mut self, start: u32, len: u32) -> &mut [u8] {
        &mut self.arena[start as usize..start as usize + len as usize]
    }

    /// The pieces of a [`Payload::Gather`] of this list with these fields.
    ///
    /// # Panics
    /// If they are not inside the table.
    #[inline]
    pub fn sges(&self, start: u32, count: u32) -> &[Sge] {
        &self.sges[start as usize..start as usize + count as usize]
    }

    /// Number of requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Whether the list has no requests.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.wrs.is_empty()
    }

    /// Removes all requests and their payloads; keeps the allocated memory and the kept bytes.
    #[inline]
    pub fn clear(&mut self) {
        self.wrs.clear();
        self.used = self.kept;
        self.sges.clear();
    }
}

/// One RECV: a piece of registered memory for one message. Over UD it must have space for the 40 bytes before the
/// payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// Id returned in the completion of the RECV.
    pub wr_id: WrId,
    /// Memory for the message, registered with local write.
    pub sge: Sge,
}

/// A list of RECVs, posted in one call.
#[derive(Debug, Default)]
pub struct RecvList {
    wrs: Vec<RecvWr>,
    seal: std::cell::Cell<u64>,
}

impl RecvList {
    /// Creates an empty list with space for `count` RECVs; it grows beyond that.
    pub fn with_capacity(count: usize) -> RecvList {
        RecvList {
            wrs: Vec::with_capacity(count),
            seal: 0.into(),
        }
    }

    /// Adds `wr` at the end.
    #[inline]
    pub fn push(&mut self, wr: RecvWr) {
        self.seal.set(0);
        self.wrs.push(wr);
    }

    /// For fabrics, which need not check a list twice that is posted again and again: the number last passed to
    /// [`set_seal`](RecvList::set_seal), or 0 if the list has changed since.
    #[inline(always)]
    pub fn seal(&self) -> u64 {
        self.seal.get()
    }

    /// Notes that a fabric has checked the list: `seal` says under which conditions, and is not 0.
    #[inline]
    pub fn set_seal(&self, seal: u64) {
        self.seal.set(seal);
    }

    /// The RECVs in posting order.
    #[inline]
    pub fn wrs(&self) -> &[RecvWr] {
        &self.wrs
    }

    /// Removes all RECVs; keeps the allocated memory.
    #[inline]
    pub fn clear(&mut self) {
        self.seal.set(0);
        self.wrs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(list: &SendList, payload: Payload) -> Vec<u8> {
        match payload {
            Payload::Inline { start, len } => list.inline_bytes(start, len).to_vec(),
            other => panic!("{other:?} is not inline"),
        }
    }

    #[test]
    fn kept_bytes_outlive_what_is_in_the_list() {
        let mut list = SendList::with_kept(4, 128);
        list.kept_block_mut::<64>(128)[60..].copy_from_slice(b"kept");
        let kept = list.inline_kept(128, 4);
        let passing = list.inline(b"passing");
        assert_eq!(bytes_of(&list, kept), b"kept");
        assert_eq!(bytes_of(&list, passing), b"passing");
        list.clear();
        let next = list.inline(&[7; 300]);
        assert_eq!(bytes_of(&list, kept), b"kept", "neither cleared nor built over");
        assert_eq!(bytes_of(&list, next), [7; 300]);
        assert_eq!((list.kept().len(), &list.kept()[124..]), (128, &b"kept"[..]));
    }

    #[test]
    #[should_panic(expected = "a block inside the kept bytes")]
    fn a_block_before_the_kept_bytes_is_refused() {
        let mut list = SendList::with_kept(1, 128);
        list.kept_block_mut::<64>(40);
    }
}
