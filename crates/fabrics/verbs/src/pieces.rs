//! [`Pieces`]: splits a long transfer into several messages.

use crate::{Payload, SendOp, SendWr};

/// Bytes of a piece. *(our choice: 16 packets of the smallest common MTU of RoCE, and few enough requests that posting
/// them is cheap compared with the copy)*
const PIECE_BYTES: usize = 16 << 10;

/// The `count_max` that our callers pass to [`Pieces::new`], and the number of places that they reserve in a send queue
/// for one transfer: 64 pieces of 16 KiB are 1 MiB, and longer transfers get longer pieces. Nothing enforces it. *(our
/// choice)*
pub const PIECES_MAX: usize = 64;

/// Splits a long READ or WRITE into several requests, all pieces of the same length except the last. A device that
/// misses a packet may resend the whole message and counts a retry: on a lossy wire a message of a megabyte is resent
/// many times, or fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pieces {
    bytes: usize,
}

impl Pieces {
    /// Creates a splitter for transfers of at most `len_max` bytes. Pieces are 16 KiB long, or longer (a multiple of 8
    /// bytes) where `count_max` of them would not cover `len_max`. A `count_max` of 0 counts as 1.
    pub fn new(len_max: usize, count_max: usize) -> Pieces {
        let bytes = len_max.div_ceil(count_max.max(1)).next_multiple_of(8);
        Pieces {
            bytes: bytes.max(PIECE_BYTES),
        }
    }

    /// Number of messages for a transfer of `len` bytes: at least 1. Up to the `len_max` given to [`new`](Pieces::new)
    /// it is at most `count_max`.
    pub fn count(self, len: usize) -> usize {
        // Nearly all transfers are short, and a division is expensive compared with posting one.
        match len <= self.bytes {
            true => 1,
            false => len.div_ceil(self.bytes),
        }
    }

    /// Splits a READ or WRITE of one piece of registered memory into requests, in order. All keep the id and fence of
    /// `wr`. The last one is signaled if `wr` is, and has its immediate data; the others are unsignaled and have none.
    /// Other verbs, and inline or gathered payloads, stay whole.
    pub fn of(self, wr: SendWr) -> impl Iterator<Item = SendWr> {
        let len = match (wr.payload, wr.op) {
            (Payload::Region(sge), SendOp::Read { .. } | SendOp::Write { .. }) => sge.len as usize,
            _ => 0,
        };
        let count = self.count(len);
        (0..count).map(move |n| match count {
            1 => wr,
            _ => cut(
                wr,
                n * self.bytes,
                self.bytes.min(len - n * self.bytes),
                n + 1 == count,
            ),
        })
    }
}

/// The piece of `wr` with `len` bytes from `at` on.
fn cut(mut wr: SendWr, at: usize, len: usize, is_last: bool) -> SendWr {
    if let SendOp::Read { remote } | SendOp::Write { remote, .. } = &mut wr.op {
        remote.offset += at as u64;
    }
    if let Payload::Region(sge) = &mut wr.payload {
        (sge.offset, sge.len) = (sge.offset + at as u64, len as u32);
    }
    if !is_last {
        wr.signaled = false;
        if let SendOp::Write { imm, .. } = &mut wr.op {
            *imm = None;
        }
    }
    wr
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Imm, RemoteAddr, Sge, WrId};

    fn write(len: u32) -> SendWr {
        SendWr::write(
            RemoteAddr {
                rkey: 3,
                offset: 1000,
            },
            Sge {
                lkey: 1,
                len,
                offset: 64,
            },
        )
        .with_imm(Imm(5))
        .signaled(WrId(7))
    }

    #[test]
    fn pieces_are_short_unless_there_would_be_too_many() {
        assert_eq!(Pieces::new(1 << 20, 128).bytes, PIECE_BYTES);
        assert_eq!(Pieces::new(100, 128).bytes, PIECE_BYTES);
        assert_eq!(Pieces::new(1 << 20, 8).bytes, 128 << 10);
        assert_eq!(Pieces::new(1_000_001, 1).bytes, 1_000_008);
    }

    #[test]
    fn pieces_cover_every_byte_once_and_the_last_one_speaks() {
        let pieces = Pieces::new(1 << 20, 1024);
        for len in [0, 1, 16_384, 16_385, 40_000, 1 << 20] {
            let cut: Vec<SendWr> = pieces.of(write(len)).collect();
            assert_eq!(cut.len(), pieces.count(len as usize), "{len} bytes");
            let mut covered = 0;
            for (n, wr) in cut.iter().enumerate() {
                let (Payload::Region(sge), SendOp::Write { remote, imm }) = (wr.payload, wr.op) else {
                    panic!("{wr:?} is no WRITE of a region");
                };
                assert_eq!((sge.offset - 64, remote.offset - 1000), (covered, covered));
                let is_last = n + 1 == cut.len();
                assert_eq!((wr.signaled, imm.is_some()), (is_last, is_last));
                covered += u64::from(sge.len);
            }
            assert_eq!(covered, u64::from(len));
        }
    }

    #[test]
    fn what_cannot_be_cut_stays_whole() {
        let mut send = write(100_000);
        send.op = SendOp::Send {
            dest: None,
            imm: None,
        };
        assert_eq!(Pieces::new(1 << 20, 1024).of(send).collect::<Vec<_>>(), [send]);
    }
}
