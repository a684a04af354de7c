//! Work requests and the lists they are posted in. A list is reused: after warm-up it never allocates.

use crate::RemoteAddr;

/// The caller's name for a request; comes back in its completion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WrId(pub u64);

/// 32 bits of immediate data, carried beside the payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Imm(pub u32);

/// A piece of registered local memory. Made by [`MemoryRegion::sge`](crate::MemoryRegion::sge).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Key of the registration.
    pub lkey: u32,
    /// Bytes.
    pub len: u32,
    /// Offset from the start of the registered region.
    pub offset: u64,
}

/// Where the bytes of a request are (or go, for READ and atomics).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// In the list's own arena: copied at posting, free for reuse at once. SEND and WRITE only.
    Inline {
        /// Where in the arena.
        start: u32,
        /// Bytes.
        len: u32,
    },
    /// In registered memory: not to be touched until the completion.
    Region(Sge),
    /// Several pieces of registered memory, gathered or scattered in order.
    Gather {
        /// First element in the list's table.
        start: u32,
        /// How many.
        count: u32,
    },
}

impl Payload {
    /// No bytes at all.
    pub const EMPTY: Payload = Payload::Inline { start: 0, len: 0 };
}

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdDest {
    /// Address handle, of the context that posts.
    pub ah: u32,
    /// The receiver's queue pair.
    pub qpn: crate::Qpn,
    /// Its key; a datagram with another one is dropped there.
    pub qkey: u32,
}

/// What a send-queue request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// To the peer's next RECV (`dest` for UD queue pairs, `None` else).
    Send {
        /// Receiver of a datagram.
        dest: Option<UdDest>,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// Into the peer's memory; with immediate data it also takes a RECV there.
    Write {
        /// Where to.
        remote: RemoteAddr,
        /// Immediate data.
        imm: Option<Imm>,
    },
    /// From the peer's memory.
    Read {
        /// Where from.
        remote: RemoteAddr,
    },
    /// If the remote word is `compare`, makes it `swap`; the old value goes to the 8-byte payload.
    CompareSwap {
        /// The word, aligned to 8.
        remote: RemoteAddr,
        /// Expected.
        compare: u64,
        /// New.
        swap: u64,
    },
    /// Adds to the remote word; the old value goes to the 8-byte payload.
    FetchAdd {
        /// The word, aligned to 8.
        remote: RemoteAddr,
        /// Addend.
        add: u64,
    },
}

/// One request of a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: WrId,
    /// What to do.
    pub op: SendOp,
    /// With which bytes.
    pub payload: Payload,
    /// Ask for a completion. Failures complete always.
    pub signaled: bool,
    /// Wait for earlier READs and atomics of this queue pair first.
    pub fence: bool,
}

/// A list of send requests with the bytes of its inline payloads: one post, one doorbell.
#[derive(Debug, Default)]
pub struct SendList {
    wrs: Vec<SendWr>,
    /// Inline payloads in the first `used` bytes; what is behind them is left from earlier lists, so that
    /// space for a payload need not be zeroed first. The first `kept` bytes are the owner's for good.
    arena: Vec<u8>,
    used: u32,
    kept: u32,
    sges: Vec<Sge>,
}

impl SendList {
    /// A list with space for `count` requests and `inline_bytes` of payload before it grows.
    pub fn with_capacity(count: usize, inline_bytes: usize) -> SendList {
        SendList {
            wrs: Vec::with_capacity(count),
            arena: vec![0; inline_bytes],
            used: 0,
            kept: 0,
            sges: Vec::with_capacity(count),
        }
    }

    /// A list with space for `count` requests, and with `bytes` that outlive [`clear`](SendList::clear): for who builds
    /// payloads that may have to be sent again, so that they are built once and posted from there.
    ///
    /// # Panics
    /// If `bytes` has more than 32 bits.
    pub fn with_kept(count: usize, bytes: usize) -> SendList {
        let kept = u32::try_from(bytes).expect("kept bytes of a list have 32-bit offsets");
        SendList {
            used: kept,
            kept,
            ..SendList::with_capacity(count, bytes)
        }
    }

    /// The bytes that are kept.
    #[inline(always)]
    pub fn kept(&self) -> &[u8] {
        &self.arena[..self.kept as usize]
    }

    /// The same, to be changed: of what is in the list, only requests that may go out with the new bytes name them.
    #[inline(always)]
    pub fn kept_mut(&mut self) -> &mut [u8] {
        &mut self.arena[..self.kept as usize]
    }

    /// The `N` kept bytes before `end`.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub fn kept_block_mut<const N: usize>(&mut self, end: usize) -> &mut [u8; N] {
        debug_assert!(end <= self.kept as usize);
        let block = self
            .arena
            .get_mut(..end)
            .and_then(|before| before.last_chunk_mut());
        block.expect("a block inside the kept bytes")
    }

    /// The payload that stands in the `len` kept bytes before `end`.
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

    /// The request pushed last asks for a completion with `wr_id`.
    ///
    /// # Panics
    /// If there is none.
    pub fn sign_last(&mut self, wr_id: WrId) {
        let last = self.wrs.last_mut().expect("a request to sign");
        (last.signaled, last.wr_id) = (true, wr_id);
    }

    /// Space for `len` more bytes of payload; returns where.
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

    /// Copies `bytes` into the arena.
    #[inline]
    pub fn inline(&mut self, bytes: &[u8]) -> Payload {
        self.inline_with(bytes.len(), |to| to.copy_from_slice(bytes))
    }

    /// Reserves `len` bytes of arena and lets `fill` build the payload in place. What `fill` leaves alone is
    /// whatever stood there before.
    #[inline(always)]
    pub fn inline_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Payload {
        let (payload, space) = self.inline_space(len);
        fill(space);
        payload
    }

    /// Reserves `len` bytes of arena: the payload, and where to build it. As for
    /// [`inline_with`](SendList::inline_with), without a function in between.
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

    /// How many requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.wrs.len()
    }

    /// No requests.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.wrs.is_empty()
    }

    /// Forgets all requests, keeps the memory, and what is in the kept part of it.
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
    /// Comes back in the completion.
    pub wr_id: WrId,
    /// Where the message goes.
    pub sge: Sge,
}

/// A list of RECVs.
#[derive(Debug, Default)]
pub struct RecvList {
    wrs: Vec<RecvWr>,
}

impl RecvList {
    /// A list with space for `count`.
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

    /// Forgets all, keeps the memory.
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
