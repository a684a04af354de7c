//! CRC-32C, the checksum of what may be torn on its way.

use crc_fast::{CrcAlgorithm, Digest};

/// From so many bytes on, `crc-fast` continues a checksum sooner than `crc32c` does.
const LONG_BYTES: usize = 256;

/// CRC-32C of `bytes`, by the widest instructions that the processor has.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of some bytes followed by `bytes`, from `crc`, that of the first ones.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG_BYTES {
        return ::crc32c::crc32c_append(crc, bytes);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, from the polynomial.
    fn plain(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        !bytes
            .iter()
            .fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
    }

    #[test]
    fn it_is_crc_32c_of_every_length_and_in_pieces() {
        assert_eq!(
            crc32c(b"123456789"),
            0xe306_9283,
            "the check value of the catalogue"
        );
        let bytes: Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in (0..900).chain([1000, 1023, 1024, 1025, 2999, 3000]) {
            let whole = plain(&bytes[..len]);
            assert_eq!(crc32c(&bytes[..len]), whole, "{len}");
            let (first, second) = bytes[..len].split_at(len / 3);
            assert_eq!(crc32c_append(crc32c(first), second), whole, "{len}");
        }
    }
}
