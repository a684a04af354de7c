//! Layout of replies: each lies at the end of its place in the mailbox.
//!
//! | offset from the place's end | size | field | meaning |
//! |---|---|---|---|
//! | -32 - length | length | value | if the reply carries it |
//! | -32 | 8 | sum | CRC-64 of the words at -24 and -8 and of the value, wherever the value is; 0 where the fabric orders WRITEs |
//! | -24 | 4 | length | of the value that the reply is about, bytes |
//! | -20 | 1 | code | what the server says: the system's business |
//! | -19 | 3 | | 0 |
//! | -16 | 8 | | 0 |
//! | -8 | 8 | sequence | of the request |
//!
//! The word at the highest address becomes visible last: when the sequence is visible, so is the rest; on other
//! fabrics the checksum shows whether it is.

use crate::{u32_at, u64_at};
use drover_base::Crc64;

/// Bytes of a reply after its value.
pub const REPLY_TRAILER_BYTES: usize = 32;

/// Trailer of a reply, without the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Result of the request, a code of the system.
    pub code: u8,
    /// Length of the value, bytes, wherever the value is; 0 if the reply is not about one.
    pub value_bytes: usize,
    /// Sequence number of the request.
    pub sequence: u64,
    /// Checksum of the trailer's other fields and the value: see [`reply_sum`]. 0 if the session uses no checksums.
    pub sum: u64,
}

impl Reply {
    /// Encodes the trailer as it is sent.
    pub fn encode(&self) -> [u8; REPLY_TRAILER_BYTES] {
        let mut bytes = [0; REPLY_TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.sum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.word().to_le_bytes());
        bytes[24..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Decodes a trailer; neither the code nor the length of the value is checked.
    pub fn decode(bytes: &[u8; REPLY_TRAILER_BYTES]) -> Reply {
        Reply {
            code: bytes[12],
            value_bytes: u32_at(bytes, 8) as usize,
            sequence: u64_at(bytes, 24),
            sum: u64_at(bytes, 0),
        }
    }

    fn word(&self) -> u64 {
        self.value_bytes as u64 | u64::from(self.code) << 32
    }
}

/// Computes the checksum of `reply` (without its field `sum`) and `value`, which is empty unless the reply or a WRITE
/// before it transfers one.
pub fn reply_sum(reply: &Reply, value: &[u8]) -> u64 {
    let head = Crc64::default().word(reply.word()).word(reply.sequence);
    head.bytes(value).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any code and length is a trailer.
        #[test]
        fn replies_come_back_as_they_were(sequence in any::<u64>(), code in any::<u8>(), value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut reply = Reply { code, value_bytes: value.len(), sequence, sum: 0 };
            reply.sum = reply_sum(&reply, &value);
            prop_assert_eq!(Reply::decode(&reply.encode()), reply);
        }
    }

    /// The checksum detects any flipped bit of a reply or its value.
    #[test]
    fn a_flipped_bit_of_a_reply_is_found() {
        let mut reply = Reply {
            code: 4,
            value_bytes: 5,
            sequence: 3,
            sum: 0,
        };
        reply.sum = reply_sum(&reply, b"value");
        for bit in 0..40 {
            let mut value = *b"value";
            value[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(reply_sum(&reply, &value), reply.sum);
        }
        for other in [
            Reply { sequence: 4, ..reply },
            Reply {
                value_bytes: 4,
                ..reply
            },
            Reply { code: 7, ..reply },
        ] {
            assert_ne!(reply_sum(&other, b"value"), reply.sum);
        }
    }
}
