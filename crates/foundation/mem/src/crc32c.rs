//! [`crc32c_of`]: the checksum of a short message in pieces, one instruction for eight bytes.

use crate::arch;
use drover_base::{crc32c, crc32c_append};

/// From so many bytes on, several words at a time are faster than one after the other.
const LONG_BYTES: usize = 256;

/// CRC-32C of `first`, little-endian, followed by the bytes of `pieces`. For messages of some tens of bytes that follow a
/// header: [`drover_base::crc32c`] takes longer to begin, and wants one slice.
#[inline]
pub fn crc32c_of(first: u64, pieces: &[&[u8]]) -> u32 {
    if !arch::has_crc32c() {
        return crc32c_anywhere(first, pieces);
    }
    let mut state = arch::crc32c_word(u64::from(u32::MAX), first);
    for piece in pieces {
        state = match piece.len() {
            LONG_BYTES.. => u64::from(!crc32c_append(!(state as u32), piece)),
            _ => after(state, piece),
        };
    }
    !(state as u32)
}

#[inline(always)]
fn after(state: u64, piece: &[u8]) -> u64 {
    let (words, rest) = piece.as_chunks::<8>();
    let whole = words.iter().fold(state, |state, word| {
        arch::crc32c_word(state, u64::from_le_bytes(*word))
    });
    rest.iter()
        .fold(whole, |state, byte| arch::crc32c_byte(state, *byte))
}

#[cold]
fn crc32c_anywhere(first: u64, pieces: &[&[u8]]) -> u32 {
    let head = crc32c(&first.to_le_bytes());
    pieces.iter().fold(head, |sum, piece| crc32c_append(sum, piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_the_bytes_in_a_row() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in (0..80).chain([255, 256, 257, 500]) {
            for cut in [0, 1, 7, 8, 9, len / 2] {
                let cut = cut.min(len);
                let (a, b) = bytes[8..8 + len].split_at(cut);
                let first = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
                let whole = crc32c(&bytes[..8 + len]);
                assert_eq!(crc32c_of(first, &[a, b]), whole, "{cut} of {len} bytes");
                assert_eq!(crc32c_anywhere(first, &[a, b]), whole, "{cut} of {len} bytes");
            }
        }
    }
}
