//! Layout of the ring's records.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | length | of the payload, bytes; 0: no record yet; [`FILLER`]: the next record is at the ring's start |
//! | 4 | 4 | sequence | number of the record or filler in the session, from 1; 31 bits |
//! | 8 | 8 | sum | CRC-64 of the first word and the payload; 0 where the fabric orders WRITEs |
//! | 16 | | payload | any bytes: a request of the system |
//! | | | | zeros up to the last word |
//! | -4 | 4 | trailer | sequence, with bit 31 set |
//!
//! A record is a number of whole lines at a multiple of 64. The client writes it by one WRITE; the server zeroes it
//! after execution, so the next word that it polls is 0 until a record arrives. Where the last word of a WRITE becomes
//! visible last, the trailer shows that the record is complete; elsewhere the checksum does. A filler is a single
//! word. *(Length, trailer, zeroing, filler: from the literature on `[FaRM]`; the bytes: our choice.)*

use crate::{u32_at, u64_at};
use drover_base::Crc64;
use drover_mem::LINE_BYTES;

/// Bytes of a record in the ring before its payload.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Value of [`Header::len`] that marks a filler: the next record is at the ring's start.
pub const FILLER: u32 = u32::MAX;

const TRAILER_BYTES: usize = 4;
const TRAILER_BIT: u32 = 1 << 31;

/// Length in bytes of a record in the ring with a payload of `payload` bytes: whole lines of 64 bytes.
pub const fn record_bytes(payload: usize) -> usize {
    (RECORD_HEADER_BYTES + payload + TRAILER_BYTES).next_multiple_of(LINE_BYTES)
}

/// The last 4 bytes of a record in the ring with sequence number `sequence`, which has 31 bits.
pub const fn trailer(sequence: u32) -> u32 {
    sequence | TRAILER_BIT
}

/// The 8 bytes of a filler in the ring with sequence number `sequence`.
pub const fn filler_word(sequence: u32) -> u64 {
    FILLER as u64 | (sequence as u64) << 32
}

/// The first 8 bytes of a record or filler in the ring, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Length of the payload, bytes, or [`FILLER`]; not checked.
    pub len: u32,
    /// Number of the record or filler in the session, from 1; 31 bits.
    pub sequence: u32,
}

impl Header {
    /// Decodes the first word of a record or filler; `None` if the word is 0, which means that neither has arrived.
    /// Checks nothing else: any other word gives `Some`, and the rest of the record may still be missing.
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

/// Replaces the contents of `out` with a record for the ring whose payload is the concatenation of `pieces`. `sums`
/// says whether it gets a checksum, for fabrics that may show the bytes of a WRITE in any order.
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

/// Whether all bytes of `record`, which has the length that `header` announces, have arrived. `sums` says whether its
/// checksum is checked, in addition to its trailer.
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

#[cfg(all(test, not(loom)))]
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

    /// Lines of a record arrive in any order: with a checksum the record is never accepted before all lines are there;
    /// without, only the last word must be last.
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
            // Shows that the check is needed: the trailer alone accepts this record.
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
