//! Requests and replies.
//!
//! # Request, the payload of a record
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | kind | [`RequestKind`] |
//! | 1 | 1 | | 0 |
//! | 2 | 2 | slot | where in the mailbox the reply goes |
//! | 4 | 2 | key length | bytes |
//! | 6 | 2 | | 0 |
//! | 8 | 4 | value length | bytes; `Get`: room at the value offset, 0 = none |
//! | 12 | 4 | time to live | seconds; 0 = for ever |
//! | 16 | 8 | sequence | comes back in the reply, never 0, never used twice in a session |
//! | 24 | 8 | value offset | `PutLarge`, `Get`: where in the client's memory of values |
//! | 32 | | key, value | the value only of `Put` |
//!
//! # Reply, at the end of its place in the mailbox
//!
//! | offset from the place's end | size | field | meaning |
//! |---|---|---|---|
//! | -32 - length | length | value | `Value` |
//! | -32 | 8 | sum | CRC-64 of the next two words and the value, wherever that is; 0 where the fabric orders WRITEs |
//! | -24 | 4 | length | of the value, bytes: `Value`, `Written`, `Long` |
//! | -20 | 1 | status | [`Status`] |
//! | -19 | 3 | | 0 |
//! | -16 | 8 | | 0 |
//! | -8 | 8 | sequence | of the request |
//!
//! The word at the highest address lands last: when the sequence is there, so is the rest, or the sum says that it is not.

use super::{u16_at, u32_at, u64_at};
use drover_index::Crc64;

/// Bytes of a request before its key.
pub const REQUEST_HEADER_BYTES: usize = 32;

/// Bytes of a reply behind its value.
pub const REPLY_TRAILER_BYTES: usize = 32;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RequestKind {
    /// Store the value behind the key.
    Put = 1,
    /// Store the value that lies in the client's memory.
    PutLarge = 2,
    /// Remove the key.
    Delete = 3,
    /// Say what the key has: asked to confirm a miss, and by who cannot get hold of it.
    Get = 4,
}

/// What the server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// PUT: done.
    Stored = 1,
    /// DELETE: done.
    Deleted = 2,
    /// GET, DELETE: no such key.
    NotFound = 3,
    /// GET: the value is before the trailer.
    Value = 4,
    /// GET: the value is where the client wanted it.
    Written = 5,
    /// GET: the value is longer than the reply and the room.
    Long = 6,
    /// No room.
    Full = 7,
    /// The item would be longer than the server allows.
    TooLarge = 8,
    /// The request contradicts itself.
    BadRequest = 9,
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What for.
    pub kind: RequestKind,
    /// Of the reply.
    pub slot: u16,
    /// Bytes.
    pub key_bytes: usize,
    /// Bytes.
    pub value_bytes: usize,
    /// Seconds; 0 = for ever.
    pub ttl_s: u32,
    /// Comes back.
    pub sequence: u64,
    /// In the client's memory.
    pub value_offset: u64,
}

impl Request {
    /// As it travels.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.key_bytes as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ttl_s.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.value_offset.to_le_bytes());
        bytes
    }

    /// The request in `payload` with its key and value; `None`: it contradicts itself.
    pub fn decode(payload: &[u8]) -> Option<(Request, &[u8], &[u8])> {
        let (bytes, rest) = payload.split_first_chunk::<REQUEST_HEADER_BYTES>()?;
        let request = Request {
            kind: match bytes[0] {
                1 => RequestKind::Put,
                2 => RequestKind::PutLarge,
                3 => RequestKind::Delete,
                4 => RequestKind::Get,
                _ => return None,
            },
            slot: u16_at(bytes, 2),
            key_bytes: usize::from(u16_at(bytes, 4)),
            value_bytes: u32_at(bytes, 8) as usize,
            ttl_s: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            value_offset: u64_at(bytes, 24),
        };
        let (key, value) = rest.split_at_checked(request.key_bytes)?;
        let value_bytes = match request.kind {
            RequestKind::Put => request.value_bytes,
            _ => 0,
        };
        let is_sound = (1..=drover_kv::KEY_BYTES_MAX).contains(&key.len()) && value.len() == value_bytes;
        (is_sound && request.sequence != 0).then_some((request, key, value))
    }
}

/// A reply's trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What came of it.
    pub status: Status,
    /// Of the value, bytes.
    pub value_bytes: usize,
    /// Of the request.
    pub sequence: u64,
    /// Of this and the value; 0 where the fabric orders WRITEs.
    pub sum: u64,
}

impl Reply {
    /// As it travels.
    pub fn encode(&self) -> [u8; REPLY_TRAILER_BYTES] {
        let mut bytes = [0; REPLY_TRAILER_BYTES];
        bytes[..8].copy_from_slice(&self.sum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.word().to_le_bytes());
        bytes[24..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Takes a trailer apart; its length may be anything. `None`: nothing that a server says.
    pub fn decode(bytes: &[u8; REPLY_TRAILER_BYTES]) -> Option<Reply> {
        Some(Reply {
            status: match bytes[12] {
                1 => Status::Stored,
                2 => Status::Deleted,
                3 => Status::NotFound,
                4 => Status::Value,
                5 => Status::Written,
                6 => Status::Long,
                7 => Status::Full,
                8 => Status::TooLarge,
                9 => Status::BadRequest,
                _ => return None,
            },
            value_bytes: u32_at(bytes, 8) as usize,
            sequence: u64_at(bytes, 24),
            sum: u64_at(bytes, 0),
        })
    }

    fn word(&self) -> u64 {
        self.value_bytes as u64 | (self.status as u64) << 32
    }
}

/// The sum of `reply` with `value`, which is empty unless the reply brings one.
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
        fn messages_come_back_as_they_were(
            slot in any::<u16>(), sequence in 1u64.., ttl_s in any::<u32>(), key in proptest::collection::vec(any::<u8>(), 1..251),
            value in proptest::collection::vec(any::<u8>(), 0..100), status in 1u8..10,
        ) {
            let request = Request {
                kind: RequestKind::Put, slot, key_bytes: key.len(), value_bytes: value.len(), ttl_s, sequence, value_offset: 7,
            };
            let payload = [&request.encode()[..], &key, &value].concat();
            prop_assert_eq!(Request::decode(&payload), Some((request, &key[..], &value[..])));
            let mut trailer = [0; 32];
            trailer[12] = status;
            let mut reply = Reply::decode(&trailer).expect("a status");
            (reply.sequence, reply.value_bytes) = (sequence, value.len());
            reply.sum = reply_sum(&reply, &value);
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in proptest::collection::vec(any::<u8>(), 32..120), kind in 0u8..10) {
            let mut bytes = bytes;
            bytes[0] = kind;
            if let Some((request, key, value)) = Request::decode(&bytes) {
                prop_assert_eq!(key.len(), request.key_bytes);
                prop_assert!(key.len() + value.len() + REQUEST_HEADER_BYTES == bytes.len());
            }
            let _ = Reply::decode(bytes.first_chunk().expect("32 bytes"));
        }
    }

    /// Any bit of a reply or its value: the sum knows.
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
