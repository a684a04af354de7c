//! Records of the ring.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | length | of the payload, bytes; 0: nothing here yet; [`FILLER`]: go on at the ring's start |
//! | 4 | 4 | sequence | of the session's records and fillers, from 1; 31 bits |
//! | 8 | 8 | sum | CRC-64 of the first word and the payload; 0 where the fabric orders WRITEs |
//! | 16 | | payload | a request |
//! | | | | 0 up to the last word |
//! | -4 | 4 | trailer | sequence, with bit 31 set |
//!
//! Whole lines, at a multiple of 64. Written by the client in one WRITE, zeroed by the server when consumed, so that what is polled
//! next is 0 until something arrives. Where the last word of a WRITE becomes visible last, the trailer says that all is there;
//! elsewhere the sum does. A filler is one word, alone. *(Length, trailer, zeroing, filler: from the literature on `[FaRM]`; the bytes: our
//! choice.)*

use super::{u32_at, u64_at};
use drover_index::Crc64;
use drover_mem::LINE_BYTES;

/// Bytes before the payload.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Length that says: go on at the ring's start.
pub const FILLER: u32 = u32::MAX;

const TRAILER_BYTES: usize = 4;
const TRAILER_BIT: u32 = 1 << 31;

/// Bytes of a record with `payload` bytes.
pub const fn record_bytes(payload: usize) -> usize {
    (RECORD_HEADER_BYTES + payload + TRAILER_BYTES).next_multiple_of(LINE_BYTES)
}

/// The trailer of the record numbered `sequence`.
pub const fn trailer(sequence: u32) -> u32 {
    sequence | TRAILER_BIT
}

/// The word of a filler.
pub const fn filler_word(sequence: u32) -> u64 {
    FILLER as u64 | (sequence as u64) << 32
}

/// The first word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Of the payload, bytes, or [`FILLER`].
    pub len: u32,
    /// From 1.
    pub sequence: u32,
}

impl Header {
    /// Takes the word apart; `None`: nothing is there yet.
    pub fn decode(word: u64) -> Option<Header> {
        let len = word as u32;
        (word != 0).then_some(Header {
            len,
            sequence: (word >> 32) as u32,
        })
    }

    fn word(self) -> u64 {
        u64::from(self.len) | u64::from(self.sequence) << 32
    }
}

/// Makes `out` a record of `pieces`, one behind the other. `sums`: the fabric may show its bytes in any order.
pub fn encode_record(out: &mut Vec<u8>, sequence: u32, pieces: &[&[u8]], sums: bool) {
    let payload: usize = pieces.iter().map(|piece| piece.len()).sum();
    let header = Header {
        len: payload as u32,
        sequence,
    };
    out.clear();
    out.extend_from_slice(&header.word().to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    if sums {
        let sum = sum(header.word(), &out[RECORD_HEADER_BYTES..]);
        out[8..RECORD_HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
    out.resize(record_bytes(payload), 0);
    let at = out.len() - TRAILER_BYTES;
    out[at..].copy_from_slice(&trailer(sequence).to_le_bytes());
}

/// Whether all of `record`, which begins with `header` and has its length, has arrived.
pub fn is_whole(record: &[u8], header: Header, sums: bool) -> bool {
    let end = RECORD_HEADER_BYTES + header.len as usize;
    if u32_at(record, record.len() - TRAILER_BYTES) != trailer(header.sequence) {
        return false;
    }
    !sums || u64_at(record, 8) == sum(header.word(), &record[RECORD_HEADER_BYTES..end])
}

fn sum(word: u64, payload: &[u8]) -> u64 {
    Crc64::default().word(word).bytes(payload).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back_as_they_were(sequence in 1u32..1 << 31, payload in proptest::collection::vec(any::<u8>(), 0..300), sums in any::<bool>()) {
            let mut record = Vec::new();
            let (front, back) = payload.split_at(payload.len() / 2);
            encode_record(&mut record, sequence, &[front, back], sums);
            prop_assert_eq!(record.len(), record_bytes(payload.len()));
            prop_assert!(record.len().is_multiple_of(64));
            let header = Header::decode(u64_at(&record, 0)).expect("a record");
            prop_assert_eq!(header, Header { len: payload.len() as u32, sequence });
            prop_assert!(is_whole(&record, header, sums));
            prop_assert_eq!(&record[16..16 + payload.len()], &payload[..]);
        }
    }

    /// Lines of a record in any order: with sums it is never whole before all of it is there; without, only the last word must be last.
    #[test]
    fn farm_a_record_that_landed_by_halves_is_not_whole() {
        let payload: Vec<u8> = (1..=250).collect();
        let mut record = Vec::new();
        encode_record(&mut record, 7, &[&payload], true);
        let lines = record.len() / 64;
        let header = Header::decode(u64_at(&record, 0)).expect("a record");
        for landed in 0..1u32 << lines {
            let mut seen = vec![0; record.len()];
            for line in (0..lines).filter(|line| landed >> line & 1 == 1) {
                seen[line * 64..][..64].copy_from_slice(&record[line * 64..][..64]);
            }
            let is_all = landed == (1 << lines) - 1;
            assert_eq!(is_whole(&seen, header, true), is_all, "lines {landed:b}");
            // The canary: the trailer alone would take this one.
            let has_last = landed >> (lines - 1) & 1 == 1;
            assert_eq!(is_whole(&seen, header, false), has_last);
        }
    }

    #[test]
    fn a_filler_is_a_word() {
        let header = Header::decode(filler_word(9)).expect("a filler");
        assert_eq!((header.len, header.sequence), (FILLER, 9));
        assert_eq!(Header::decode(0), None);
    }
}
