//! [`ShortList`]: requests of the two kinds that servers and clients post by the million, in a form that costs little to
//! build and to take apart.

use crate::{Imm, Payload, Qpn, RemoteAddr, SendList, SendWr, UdDest, WrId};

/// Payload bytes of a [`ShortSend`].
pub const SHORT_BYTES: usize = 40;

/// A request that says less than a [`SendWr`], and nothing that a [`SendWr`] could not say.
pub trait Short: Copy {
    /// Fills places that are not in use.
    const NONE: Self;

    /// The same request, for `sends`, which contains its bytes or gets them.
    fn to_wr(&self, sends: &mut SendList) -> SendWr;
}

/// A SEND of a datagram with immediate data and at most [`SHORT_BYTES`] of inline payload: a cache line that contains all
/// of it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct ShortSend {
    /// The receiver.
    pub dest: UdDest,
    /// Immediate data.
    pub imm: Imm,
    len: u32,
    bytes: [u8; SHORT_BYTES],
}

impl ShortSend {
    /// Length of the payload in bytes, at most [`SHORT_BYTES`].
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "it is the payload that may be empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The payload, and zeros up to [`SHORT_BYTES`]: to be copied without a loop.
    #[inline(always)]
    pub fn padded(&self) -> &[u8; SHORT_BYTES] {
        &self.bytes
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
}

impl Short for ShortSend {
    const NONE: ShortSend = ShortSend {
        dest: UdDest {
            ah: 0,
            qpn: Qpn(0),
            qkey: 0,
        },
        imm: Imm(0),
        len: 0,
        bytes: [0; SHORT_BYTES],
    };

    fn to_wr(&self, sends: &mut SendList) -> SendWr {
        let payload = sends.inline(self.payload());
        SendWr::send_to(self.dest, payload).with_imm(self.imm)
    }
}

/// A WRITE of [kept](SendList::with_kept) bytes of its list, without immediate data.
#[derive(Clone, Copy, Debug)]
pub struct ShortWrite {
    /// Where the bytes go.
    pub remote: RemoteAddr,
    start: u32,
    len: u32,
}

impl ShortWrite {
    /// Number of bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The bytes, which are in `kept`, the list's [kept](ShortList::kept) bytes.
    #[inline(always)]
    pub fn bytes<'k>(&self, kept: &'k [u8]) -> &'k [u8] {
        &kept[self.start as usize..self.start as usize + self.len as usize]
    }
}

impl Short for ShortWrite {
    const NONE: ShortWrite = ShortWrite {
        remote: RemoteAddr { rkey: 0, offset: 0 },
        start: 0,
        len: 0,
    };

    fn to_wr(&self, sends: &mut SendList) -> SendWr {
        let end = (self.start + self.len) as usize;
        SendWr::write(self.remote, sends.inline_kept(end, self.len()))
    }
}

/// Position of a signaled request in its list, and its id.
pub type Signed = (usize, WrId);

/// Requests in the order of posting. As long as all are short it is a list of them; with the first other one it becomes a
/// [`SendList`] of the same requests until it is cleared.
#[derive(Debug)]
pub struct ShortList<T> {
    /// Places for short requests; none while `sends` is in use, so that one comparison shows whether there is one.
    short: Box<[T]>,
    /// Number of requests, in `short` or in `sends`.
    len: usize,
    /// Positions of signaled requests, and their ids.
    signed: Vec<Signed>,
    sends: SendList,
    /// The places, while `sends` is in use.
    aside: Box<[T]>,
}

/// Datagrams, for [`post_datagrams`](crate::QueuePair::post_datagrams).
pub type DatagramList = ShortList<ShortSend>;
/// WRITEs, for [`post_writes`](crate::QueuePair::post_writes).
pub type WriteList = ShortList<ShortWrite>;

impl<T: Short> ShortList<T> {
    /// An empty list, with space for `count` requests beside those of `sends`, which is empty, too.
    fn beside(count: usize, sends: SendList) -> ShortList<T> {
        ShortList {
            short: vec![T::NONE; count].into_boxed_slice(),
            len: 0,
            signed: Vec::with_capacity(count),
            sends,
            aside: Box::default(),
        }
    }

    /// Number of requests.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has no requests.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds any request; its inline bytes are kept ones.
    #[cold]
    pub fn push_send(&mut self, wr: SendWr) {
        self.put_aside();
        self.sends.push(wr);
        self.len += 1;
    }

    /// Makes request number `at`, counted from 0, signaled, with this id. It is behind all that are signaled already.
    pub fn sign(&mut self, at: usize, wr_id: WrId) {
        debug_assert!(at < self.len() && self.signed.last().is_none_or(|(last, _)| *last < at));
        self.signed.push((at, wr_id));
    }

    /// The requests and the positions and ids of signaled ones in rising order, if all requests are short.
    #[inline(always)]
    pub fn short(&self) -> Option<(&[T], &[Signed])> {
        // Requests without places are in `sends`.
        Some((self.short.get(..self.len)?, &self.signed))
    }

    /// Makes a list of ordinary requests of it.
    pub fn spread(&mut self) -> &SendList {
        if self.sends.is_empty() && self.len > 0 {
            self.put_aside();
        }
        for (at, wr_id) in self.signed.drain(..) {
            self.sends.sign(at, wr_id);
        }
        &self.sends
    }

    /// Moves short requests to `sends`, and their places aside, if that has not been done.
    fn put_aside(&mut self) {
        if !self.short.is_empty() {
            self.aside = std::mem::take(&mut self.short);
            for short in &self.aside[..self.len] {
                let wr = short.to_wr(&mut self.sends);
                self.sends.push(wr);
            }
        }
    }

    /// The requests as an ordinary list; none is left here.
    pub fn take(&mut self) -> SendList {
        self.spread();
        let sends = std::mem::take(&mut self.sends);
        self.clear();
        sends
    }

    /// Removes all requests.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
        self.signed.clear();
        if self.short.is_empty() {
            self.sends.clear();
            self.short = std::mem::take(&mut self.aside);
        }
    }
}

impl DatagramList {
    /// An empty list with space for `count` requests and `inline_bytes` of longer inline payloads; it grows beyond that.
    pub fn with_capacity(count: usize, inline_bytes: usize) -> DatagramList {
        ShortList::beside(count, SendList::with_capacity(count, inline_bytes))
    }

    /// Adds a SEND of `len` inline bytes; returns the space for them, to be filled in.
    #[inline(always)]
    pub fn push(&mut self, dest: &UdDest, imm: Imm, len: usize) -> &mut [u8] {
        match len <= SHORT_BYTES && self.len < self.short.len() {
            true => self.push_next(dest, imm, len),
            false => self.push_long(dest, imm, len),
        }
    }

    /// As [`push`](ShortList::push), but `None` if the request is not short, or others in the list are not, or there are too
    /// many.
    #[inline(always)]
    pub fn push_short(&mut self, dest: &UdDest, imm: Imm, len: usize) -> Option<&mut [u8]> {
        match len <= SHORT_BYTES && self.len < self.short.len() {
            true => Some(self.push_next(dest, imm, len)),
            false => None,
        }
    }

    #[inline(always)]
    fn push_next(&mut self, dest: &UdDest, imm: Imm, len: usize) -> &mut [u8] {
        let send = &mut self.short[self.len];
        self.len += 1;
        // Field by field: a whole one would be put together elsewhere and copied.
        send.dest = *dest;
        (send.imm, send.len) = (imm, len as u32);
        send.bytes = [0; SHORT_BYTES];
        &mut send.bytes[..len]
    }

    #[inline(never)]
    fn push_long(&mut self, dest: &UdDest, imm: Imm, len: usize) -> &mut [u8] {
        self.put_aside();
        let (payload, _) = self.sends.inline_space(len);
        let Payload::Inline { start, len } = payload else {
            unreachable!("the space is inline");
        };
        self.sends.push(SendWr::send_to(*dest, payload).with_imm(imm));
        self.len += 1;
        self.sends.inline_bytes_mut(start, len)
    }
}

impl WriteList {
    /// An empty list with space for `count` requests, and with `bytes` zeroed bytes that survive
    /// [`clear`](ShortList::clear), as [`SendList::with_kept`].
    ///
    /// # Panics
    /// If `bytes` does not fit in 32 bits.
    pub fn with_kept(count: usize, bytes: usize) -> WriteList {
        ShortList::beside(count, SendList::with_kept(count, bytes))
    }

    /// The bytes that survive [`clear`](ShortList::clear).
    #[inline(always)]
    pub fn kept(&self) -> &[u8] {
        self.sends.kept()
    }

    /// The bytes that survive [`clear`](ShortList::clear), mutable. Requests in the list that refer to them will send the
    /// new bytes.
    #[inline(always)]
    pub fn kept_mut(&mut self) -> &mut [u8] {
        self.sends.kept_mut()
    }

    /// As [`SendList::kept_block_mut`].
    #[inline(always)]
    pub fn kept_block_mut<const N: usize>(&mut self, end: usize) -> &mut [u8; N] {
        self.sends.kept_block_mut(end)
    }

    /// As [`SendList::inline_kept`].
    #[inline(always)]
    pub fn inline_kept(&self, end: usize, len: usize) -> Payload {
        self.sends.inline_kept(end, len)
    }

    /// Adds a WRITE of the kept bytes `end - len` to `end` (exclusive) to `remote`. `len` is at most `end`, and `end` at
    /// most the length of the kept bytes.
    #[inline(always)]
    pub fn push(&mut self, remote: RemoteAddr, end: usize, len: usize) {
        debug_assert!(len <= end && end <= self.kept().len());
        let (start, len) = ((end - len) as u32, len as u32);
        match self.short.get_mut(self.len) {
            Some(write) => {
                // Field by field: a whole one would be put together elsewhere and copied.
                write.remote.rkey = remote.rkey;
                write.remote.offset = remote.offset;
                write.start = start;
                write.len = len;
                self.len += 1;
            }
            None => self.push_spread(ShortWrite { remote, start, len }),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_spread(&mut self, write: ShortWrite) {
        self.put_aside();
        let wr = write.to_wr(&mut self.sends);
        self.push_send(wr);
    }

    /// Whether a request in the list sends any of the kept bytes in `range`.
    pub fn sends_kept(&self, range: std::ops::Range<usize>) -> bool {
        let short = self.short.get(..self.len).unwrap_or_default();
        short.iter().any(|write| range.contains(&(write.start as usize)))
            || self.sends.wrs().iter().any(|wr| match wr.payload {
                Payload::Inline { start, .. } => range.contains(&(start as usize)),
                Payload::Region(_) | Payload::Gather { .. } => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SendOp, Sge};

    const fn to(ah: u32) -> UdDest {
        UdDest {
            ah,
            qpn: Qpn(ah + 100),
            qkey: 7,
        }
    }

    /// The receivers, immediates, payloads and signals of a list.
    fn requests(list: &SendList) -> Vec<(u32, u32, Vec<u8>, Option<u64>)> {
        let each = |wr: &SendWr| {
            let SendOp::Send {
                dest: Some(dest),
                imm: Some(imm),
            } = wr.op
            else {
                panic!("{wr:?} is no datagram");
            };
            let bytes = match wr.payload {
                Payload::Inline { start, len } => list.inline_bytes(start, len).to_vec(),
                other => panic!("{other:?} is not inline"),
            };
            (dest.ah, imm.0, bytes, wr.signaled.then_some(wr.wr_id.0))
        };
        list.wrs().iter().map(each).collect()
    }

    #[test]
    fn requests_keep_their_order_and_signals_whatever_their_lengths() {
        for lens in [vec![0, 40, 8], vec![3, 41, 2], vec![100, 5, 200, 1], vec![4; 9]] {
            let mut list = DatagramList::with_capacity(8, 16);
            for round in 0..2 {
                let mut want = Vec::new();
                for (at, &len) in lens.iter().enumerate() {
                    let signed = (at % 3 == round).then_some(at as u64);
                    list.push(&to(at as u32 & 1), Imm(at as u32), len).fill(at as u8);
                    signed.into_iter().for_each(|id| list.sign(at, WrId(id)));
                    want.push((at as u32 & 1, at as u32, vec![at as u8; len], signed));
                    assert_eq!(list.len(), at + 1);
                }
                let short = list.short().map(|(sends, _)| sends.len());
                let all_short = lens.iter().all(|&len| len <= SHORT_BYTES) && lens.len() <= 8;
                assert_eq!(short, all_short.then_some(lens.len()));
                assert_eq!(requests(list.spread()), want, "{lens:?}");
                list.clear();
                assert!(list.is_empty() && list.short().is_some_and(|(sends, _)| sends.is_empty()));
            }
        }
    }

    #[test]
    fn a_payload_in_registered_memory_keeps_its_place() {
        let mut list = DatagramList::with_capacity(4, 64);
        list.push(&to(1), Imm(1), 2).fill(1);
        let sge = Sge {
            lkey: 1,
            len: 100,
            offset: 0,
        };
        list.push_send(SendWr::send_to(to(2), sge).with_imm(Imm(2)));
        list.push(&to(3), Imm(3), 2).fill(3);
        let sends = list.take();
        assert_eq!((sends.len(), list.len()), (3, 0));
        assert_eq!(sends.wrs()[1].payload, Payload::Region(sge));
        list.push(&to(4), Imm(4), 2);
        assert!(list.short().is_some(), "short again");
    }

    #[test]
    fn writes_are_of_kept_bytes_and_become_ordinary_ones() {
        let remote = |offset| RemoteAddr { rkey: 3, offset };
        for others in [None, Some(0), Some(1), Some(4)] {
            let mut list = WriteList::with_kept(2, 128);
            list.kept_block_mut::<64>(64).fill(5);
            let mut want = Vec::new();
            for nth in 0..3 {
                if others == Some(nth) {
                    let payload = list.inline_kept(128, 2);
                    list.push_send(SendWr::write(remote(0), payload));
                    want.push((remote(0), vec![0; 2]));
                }
                list.push(remote(64 - nth), 64, nth as usize + 1);
                want.push((remote(64 - nth), vec![5; nth as usize + 1]));
                assert!(list.sends_kept(60..64) && !list.sends_kept(64..100));
            }
            list.sign(2, WrId(9));
            assert_eq!(
                (list.len(), list.short().is_none()),
                (want.len(), true),
                "too many"
            );
            let sends = list.spread();
            let each = |wr: &SendWr| match (wr.op, wr.payload) {
                (SendOp::Write { remote, imm: None }, Payload::Inline { start, len }) => {
                    (remote, sends.inline_bytes(start, len).to_vec())
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(sends.wrs().iter().map(each).collect::<Vec<_>>(), want);
            assert!(
                sends
                    .wrs()
                    .iter()
                    .enumerate()
                    .all(|(at, wr)| wr.signaled == (at == 2))
            );
            list.clear();
            list.push(remote(1), 64, 8);
            let (writes, signed) = list.short().expect("short again");
            assert_eq!((writes[0].bytes(list.kept()), signed.len()), (&[5; 8][..], 0));
        }
    }
}
