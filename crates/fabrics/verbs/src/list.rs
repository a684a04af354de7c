//! Work requests and the lists they are posted in. Lists are reused and do not allocate after warm-up.

use crate::RemoteAddr;

/// The caller's id of a request, returned in its completion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WrId(pub u64);

/// 32 bits of immediate data, sent along with the payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Imm(pub u32);

/// A piece of registered local memory. Made by [`MemoryRegion::sge`](crate::MemoryRegion::sge).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Key of the registration.
    pub lkey: u32,
    /// Length in bytes.
    pub len: u32,
    /// Offset from the start of the registered region.
    pub offset: u64,
}

/// Location of the bytes of a request (the destination for READ and atomics).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// In the list's own arena: copied at posting, reusable at once. SEND and WRITE only.
    Inline {
        /// Offset in the arena.
        start: u32,
        /// Length in bytes.
        len: u32,
    },
    /// In registered memory, which must not be touched until the completion.
    Region(Sge),
    /// Several pieces of registered memory, gathered or scattered in order.
    Gather {
        /// Index of the first element in the list's table.
        start: u32,
        /// Number of elements.
        count: u32,
    },
}

impl Payload {
    /// An empty payload.
    pub const EMPTY: Payload = Payload::Inline { start: 0, len: 0 };
}

/// Destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdDest {
    /// Address handle of the posting context.
    pub ah: u32,
    /// Queue pair of the receiver.
    pub qpn: crate::Qpn,
    /// Queue key of the receiver, which drops datagrams with another key.
    pub qkey: u32,
}

/// Operation of a send-queue request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// SEND into the peer's next RECV (`dest` for UD queue pairs, otherwise `None`).
    Send {
        /// Receiver of a datagram.
        dest: Option<UdDest>,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// WRITE into the peer's memory; with immediate data it also takes a RECV there.
    Write {
        /// Target address.
        remote: RemoteAddr,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// READ from the peer's memory.
    Read {
        /// Source address.
        remote: RemoteAddr,
    },
    /// CAS: if the remote word is `compare`, sets it to `swap`; the old value goes to the 8-byte payload.
    CompareSwap {
        /// Address of the word, aligned to 8.
        remote: RemoteAddr,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// FAA: adds to the remote word; the old value goes to the 8-byte payload.
    FetchAdd {
        /// Address of the word, aligned to 8.
        remote: RemoteAddr,
        /// Addend.
        add: u64,
    },
}

/// One request of a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Id returned in the completion.
    pub wr_id: WrId,
    /// Operation.
    pub op: SendOp,
    /// Location of the bytes.
    pub payload: Payload,
    /// Whether to report success by a completion. Failures are always reported.
    pub signaled: bool,
    /// Whether to wait for earlier READs and atomics of this queue pair first.
    pub fence: bool,
}

/// A list of send requests with the bytes of its inline payloads: one post, one doorbell.
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
    /// A list that holds `count` requests and `inline_bytes` of payload before it grows.
    pub fn with_capacity(count: usize, inline_bytes: usize) -> SendList {
        SendList {
            wrs: Vec::with_capacity(count),
            arena: vec![0; inline_bytes],
            used: 0,
            kept: 0,
            sges: Vec::with_capacity(count),
        }
    }

    /// A list that holds `count` requests, and `bytes` that survive [`clear`](SendList::clear): for payloads that may
    /// have to be sent again, so that they are built once and posted from there.
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

    /// The kept bytes.
    #[inline(always)]
    pub fn kept(&self) -> &[u8] {
        &self.arena[..self.kept as usize]
    }

    /// The kept bytes, mutable. Only requests that may be sent with the new bytes may refer to them.
    #[inline(always)]
    pub fn kept_mut(&mut self) -> &mut [u8] {
        &mut self.arena[..self.kept as usize]
    }

    /// The `N` kept bytes before `end`.
    ///
    /// # Panics
    /// If `end` is beyond the kept bytes or less than `N`.
    #[inline(always)]
    pub fn kept_block_mut<const N: usize>(&mut self, end: usize) -> &mut [u8; N] {
        debug_assert!(end <= self.kept as usize);
        let block = self
            .arena
            .get_mut(..end)
            .and_then(|before| before.last_chunk_mut());
        block.expect("a block inside the kept bytes")
    }

    /// The payload in the `len` kept bytes before `end`.
    #[inline(always)]
    pub fn inline_kept(&self, end: usize, len: usize) -> Payload {
        debug_assert!(len <= end && end <= self.kept as usize);
        Payload::Inline {
            start: (end - len) as u32,
            len: len as u32,
        }
    }

    /// Adds a request.
    #[inline(always)]
    pub fn push(&mut self, wr: SendWr) {
        self.wrs.push(wr);
    }

    /// Makes the last request of the list signaled, with `wr_id`.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn sign_last(&mut self, wr_id: WrId) {
        let last = self.wrs.last_mut().expect("a request to sign");
        (last.signaled, last.wr_id) = (true, wr_id);
    }

    /// Reserves `len` more bytes of payload; returns their offset.
    #[inline(always)]
    fn space(&mut self, len: usize) -> usize {
        let start = self.used as usize;
        let end = start + len;
        self.used = end as u32;
        if end > self.arena.len() {
            self.grow(end);
        }
        start
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        assert!(
            end <= u32::MAX as usize,
            "{end} bytes of inline payload in one list"
        );
        self.arena.resize((2 * end).max(256), 0);
    }

    /// Copies `bytes` into the arena as a payload.
    #[inline]
    pub fn inline(&mut self, bytes: &[u8]) -> Payload {
        self.inline_with(bytes.len(), |to| to.copy_from_slice(bytes))
    }

    /// Reserves `len` bytes of arena and lets `fill` build the payload in place. Bytes that `fill` does not write keep
    /// their previous contents.
    #[inline(always)]
    pub fn inline_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Payload {
        let (payload, space) = self.inline_space(len);
        fill(space);
        payload
    }

    /// Reserves `len` bytes of arena: returns the payload and the space to build it in. As
    /// [`inline_with`](SendList::inline_with), without a closure.
    #[inline(always)]
    pub fn inline_space(&mut self, len: usize) -> (Payload, &mut [u8]) {
        let start = self.space(len);
        let payload = Payload::Inline {
            start: start as u32,
            len: len as u32,
        };
        (payload, &mut self.arena[start..start + len])
    }

    /// Adds a gather list.
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

    /// The bytes of an inline payload.
    #[inline]
    pub fn inline_bytes(&self, start: u32, len: u32) -> &[u8] {
        &self.arena[start as usize..start as usize + len as usize]
    }

    /// The pieces of a gather list.
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

    /// Removes all requests; keeps the memory and the kept bytes.
    #[inline]
    pub fn clear(&mut self) {
        self.wrs.clear();
        self.used = self.kept;
        self.sges.clear();
    }
}

/// One RECV: a piece of registered memory (for UD: 40 bytes longer than the longest payload).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// Id returned in the completion.
    pub wr_id: WrId,
    /// Memory for the message.
    pub sge: Sge,
}

/// A list of RECVs.
#[derive(Debug, Default)]
pub struct RecvList {
    wrs: Vec<RecvWr>,
}

impl RecvList {
    /// A list that holds `count` RECVs before it grows.
    pub fn with_capacity(count: usize) -> RecvList {
        RecvList {
            wrs: Vec::with_capacity(count),
        }
    }

    /// Adds a RECV.
    #[inline]
    pub fn push(&mut self, wr: RecvWr) {
        self.wrs.push(wr);
    }

    /// The RECVs in posting order.
    #[inline]
    pub fn wrs(&self) -> &[RecvWr] {
        &self.wrs
    }

    /// Removes all RECVs; keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
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
