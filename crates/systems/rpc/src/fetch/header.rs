//! Bytes of requests and results: our header, and the one of the paper.
//!
//! # Header of version 1, 16 bytes, little-endian; the payload follows
//!
//! | offset | size | field of a request | field of a result |
//! |---|---|---|---|
//! | 0 | 4 | bit 31: present; bits 30..0: bytes of the payload | same; more than the slot has: the result did not fit |
//! | 4 | 2 | rpc id: kind of the call | time that the call took, 0.1 us; 0xffff: longer |
//! | 6 | 2 | sequence number of the call in its place, from 1; skips 0 | of the request |
//! | 8 | 4 | CRC-32C of bytes 0..8 and the payload | same |
//! | 12 | 4 | incarnation of the client | of the server |
//!
//! # The paper's, for comparisons
//!
//! | offset | size | field of a request | field of a result |
//! |---|---|---|---|
//! | 0 | 4 | bit 31: parity of the call in its place; bits 30..0: bytes of the payload | same |
//! | 4 | 2 | (the payload begins here) | time that the call took, 0.1 us; then the payload |
//!
//! The paper's has neither checksum nor sequence number: a READ of a result that is being written may be half of it, and
//! a push that is two calls late is taken for the call's own. It also carries no rpc id: all calls of a place share
//! one mode. It is no format for services.
//!
//! A request ends with a byte of 1 behind its payload, the *tail*; so does a pushed result. Who polls memory takes
//! nothing whose tail is missing. *(Sizes, presence, time, tail: stated in `[RFP]`; the rest is our choice.)*

use drover_base::Ns;
use drover_mem::{Region, crc32c_of};

/// Format of headers. Both ends of a connection use the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Format {
    /// Ours, with sequence number, checksum and incarnation.
    #[default]
    V1,
    /// The paper's: 4 bytes before a request, 6 before a result.
    Paper,
}

/// Bytes of the header of version 1.
pub const HEADER_BYTES: usize = 16;

/// Value of the byte behind a payload.
pub(super) const TAIL: u8 = 1;

/// Bit of the first word that says that a message is present; in the paper's format, the parity of its call.
const STATUS_BIT: u64 = 1 << 31;

/// Largest value of the field `time`: this long or longer.
pub const TIME_MAX: Ns = Ns(100 * 0xffff);

impl Format {
    /// Bytes of a request before its payload.
    pub const fn request_header_bytes(self) -> usize {
        match self {
            Format::V1 => HEADER_BYTES,
            Format::Paper => 4,
        }
    }

    /// Bytes of a result before its payload.
    pub const fn result_header_bytes(self) -> usize {
        match self {
            Format::V1 => HEADER_BYTES,
            Format::Paper => 6,
        }
    }
}

/// The first word of a request or result, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct First {
    /// Bytes of the payload; not checked.
    pub(super) size: usize,
    /// The rpc id, or the time in units of 0.1 us. 0 in a request of the paper's format.
    pub(super) detail: u16,
    /// Sequence number. In the paper's format only its parity travels: this is 1 or 0.
    pub(super) seq: u16,
    is_present: bool,
}

impl First {
    /// The first word of a message of `size` bytes in call `seq`.
    #[inline]
    pub(super) fn new(size: usize, detail: u16, seq: u16) -> First {
        First {
            size,
            detail,
            seq,
            is_present: true,
        }
    }

    /// Decodes the first eight bytes of a message.
    #[inline]
    pub(super) fn decode(format: Format, word: u64) -> First {
        let is_set = word & STATUS_BIT != 0;
        let detail = (word >> 32) as u16;
        let size = (word & (STATUS_BIT - 1)) as usize;
        match format {
            Format::V1 => First {
                size,
                detail,
                seq: (word >> 48) as u16,
                is_present: is_set,
            },
            Format::Paper => First {
                size,
                detail,
                seq: u16::from(is_set),
                is_present: true,
            },
        }
    }

    /// Encodes the first eight bytes; of the paper's format, only the header's are used.
    #[inline]
    pub(super) fn encode(self, format: Format) -> u64 {
        let low = self.size as u64 | u64::from(self.detail) << 32;
        match format {
            Format::V1 => low | STATUS_BIT | u64::from(self.seq) << 48,
            Format::Paper => low | u64::from(self.seq & 1) << 31,
        }
    }

    /// Whether this is a message of call `seq`.
    #[inline]
    pub(super) fn is_of(self, format: Format, seq: u16) -> bool {
        match format {
            Format::V1 => self.is_present && self.seq == seq,
            Format::Paper => self.seq == seq & 1,
        }
    }

    /// Whether there is a message at all, whichever call it belongs to; always true in the paper's format.
    #[inline]
    pub(super) fn is_present(self) -> bool {
        self.is_present
    }
}

/// The second word of version 1: checksum and incarnation.
#[inline]
pub(super) fn second(sum: u32, incarnation: u32) -> u64 {
    u64::from(sum) | u64::from(incarnation) << 32
}

/// Checksum of a message with first word `first`, whose payload is the concatenation of `pieces`.
#[inline]
pub(super) fn sum(first: u64, pieces: &[&[u8]]) -> u32 {
    crc32c_of(first, pieces)
}

/// Most bytes of payload and tail that are put together before they are copied into the slot: one copy of a hundred bytes
/// and one checksum of them take less time than four of a few bytes each.
const SHORT_BYTES: usize = 128;

/// Stores payload, the concatenation of `pieces`, and tail at `start` of `slots`; returns the offset behind them, and, if
/// the format has one, the checksum of the message with first word `first`.
#[inline]
pub(super) fn store_payload(
    slots: &Region,
    start: usize,
    format: Format,
    first: u64,
    pieces: &[&[u8]],
    size: usize,
) -> (usize, u32) {
    if size >= SHORT_BYTES || pieces.len() < 2 {
        return store_pieces(slots, start, format, first, pieces);
    }
    let mut short = [0; SHORT_BYTES];
    let mut end = 0;
    for piece in pieces {
        short[end..end + piece.len()].copy_from_slice(piece);
        end += piece.len();
    }
    store_whole(slots, start, format, first, &mut short[..=end])
}

/// As [`store_payload`], for a payload in one piece, with space for the tail as its last byte.
#[inline]
pub(super) fn store_whole(
    slots: &Region,
    start: usize,
    format: Format,
    first: u64,
    whole: &mut [u8],
) -> (usize, u32) {
    let [payload @ .., tail] = whole else {
        unreachable!("there is space for the tail");
    };
    *tail = TAIL;
    let sum = match format {
        Format::V1 => crc32c_of(first, &[payload]),
        Format::Paper => 0,
    };
    slots.copy_in(start, whole);
    (start + whole.len(), sum)
}

#[inline(never)]
fn store_pieces(slots: &Region, start: usize, format: Format, first: u64, pieces: &[&[u8]]) -> (usize, u32) {
    let mut end = start;
    for piece in pieces {
        slots.copy_in(end, piece);
        end += piece.len();
    }
    slots.copy_in(end, &[TAIL]);
    let sum = match format {
        Format::V1 => crc32c_of(first, pieces),
        Format::Paper => 0,
    };
    (end + 1, sum)
}

/// The sequence number after `seq`. In the paper's format the parity alternates at the wrap, too.
#[inline]
pub(super) fn next_seq(format: Format, seq: u16) -> u16 {
    match format {
        Format::V1 => seq.checked_add(1).unwrap_or(1),
        Format::Paper => seq.checked_add(1).unwrap_or(2),
    }
}

/// A duration as the field `time`.
#[inline]
pub(super) fn encode_time(time: Ns) -> u16 {
    (time.0 / 100).min(0xffff) as u16
}

/// The duration that a field `time` says.
#[inline]
pub(super) fn decode_time(time: u16) -> Ns {
    Ns(u64::from(time) * 100)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_base::crc32c;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_words_come_back_as_they_were(size in 0usize..1 << 31, detail in any::<u16>(), seq in 1u16..) {
            let first = First::new(size, detail, seq);
            let word = first.encode(Format::V1);
            prop_assert_eq!(First::decode(Format::V1, word), first);
            let paper = First::decode(Format::Paper, first.encode(Format::Paper));
            prop_assert_eq!((paper.size, paper.detail, paper.seq), (size, detail, seq & 1));
            prop_assert!(paper.is_of(Format::Paper, seq));
            prop_assert!(!paper.is_of(Format::Paper, next_seq(Format::Paper, seq)));
        }
    }

    /// Offsets as in the table.
    #[test]
    fn fields_are_where_the_table_says() {
        let bytes = First::new(0x0102, 0x0304, 0x0506)
            .encode(Format::V1)
            .to_le_bytes();
        assert_eq!(bytes, [2, 1, 0, 0x80, 4, 3, 6, 5]);
        let bytes = First::new(0x0102, 0x0304, 6).encode(Format::Paper).to_le_bytes();
        assert_eq!(bytes[..6], [2, 1, 0, 0, 4, 3]);
        assert_eq!(second(1, 2).to_le_bytes(), [1, 0, 0, 0, 2, 0, 0, 0]);
        // The check value of CRC-32C, behind eight bytes of zero for a first word of 0.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(
            sum(0, &[b"1234", b"56789"]),
            crc32c(b"\0\0\0\0\0\0\0\x00123456789")
        );
    }

    #[test]
    fn sequences_skip_zero_and_times_saturate() {
        let after = |seq| (next_seq(Format::V1, seq), next_seq(Format::Paper, seq));
        assert_eq!((after(1), after(u16::MAX)), ((2, 2), (1, 2)));
        assert_eq!(encode_time(Ns(1_234)), 12);
        assert_eq!(decode_time(encode_time(Ns::from_s(1))), TIME_MAX);
    }
}
