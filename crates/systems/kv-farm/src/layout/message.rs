//! Layout of replies.
//!
//! A request is the payload of a record: a [`Request`](drover_one_sided::Request). Its slot selects the reply's place
//! in the mailbox; its sequence is never 0, and unique within a session.
//!
//! # Reply, at the end of its place in the mailbox
//!
//! | offset from the place's end | size | field | meaning |
//! |---|---|---|---|
//! | -32 - length | length | value | `Value` |
//! | -32 | 8 | sum | CRC-64 of the words at -24 and -8 and of the value, wherever the value is; 0 where the fabric orders WRITEs |
//! | -24 | 4 | length | of the value, bytes: `Value`, `Written`, `Long` |
//! | -20 | 1 | status | [`Status`] |
//! | -19 | 3 | | 0 |
//! | -16 | 8 | | 0 |
//! | -8 | 8 | sequence | of the request |
//!
//! The word at the highest address becomes visible last: when the sequence is visible, so is the rest; on other
//! fabrics the checksum shows whether it is.

use super::{u32_at, u64_at};
use drover_index::Crc64;
use drover_one_sided::Status;

/// Bytes of a reply after its value.
pub const REPLY_TRAILER_BYTES: usize = 32;

/// Trailer of a reply, without the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Result of the request.
    pub status: Status,
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

    /// Decodes a trailer; the length of the value is not checked. `None` if the status is unknown.
    pub fn decode(bytes: &[u8; REPLY_TRAILER_BYTES]) -> Option<Reply> {
        Some(Reply {
            status: Status::decode(bytes[12])?,
            value_bytes: u32_at(bytes, 8) as usize,
            sequence: u64_at(bytes, 24),
            sum: u64_at(bytes, 0),
        })
    }

    fn word(&self) -> u64 {
        self.value_bytes as u64 | (self.status as u64) << 32
    }
}

/// Computes the checksum of `reply` (without its field `sum`) and `value`, which is empty unless the reply or a WRITE
/// before it transfers one.
pub fn reply_sum(reply: &Reply, value: &[u8]) -> u64 {
    let head = Crc64::default().word(reply.word()).word(reply.sequence);
    head.bytes(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_back_as_they_were(sequence in 1u64.., value in proptest::collection::vec(any::<u8>(), 0..100), status in 1u8..11) {
            let mut trailer = [0; 32];
            trailer[12] = status;
            let mut reply = Reply::decode(&trailer).expect("a status");
            (reply.sequence, reply.value_bytes) = (sequence, value.len());
            reply.sum = reply_sum(&reply, &value);
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in any::<[u8; 32]>()) {
            let _ = Reply::decode(&bytes);
        }
    }

    /// The checksum detects any flipped bit of a reply or its value.
    #[test]
    fn a_flipped_bit_of_a_reply_is_found() {
        let mut reply = Reply {
            status: Status::Value,
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
            Reply {
                status: Status::Long,
                ..reply
            },
        ] {
            assert_ne!(reply_sum(&other, b"value"), reply.sum);
        }
    }
}
