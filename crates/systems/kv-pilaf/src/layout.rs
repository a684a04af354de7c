//! Layout of all data that is read or sent: records, requests, replies. Little-endian throughout. For the table see
//! [`drover_index::cuckoo`].
//!
//! # Record, in the extents: written by the server, READ by clients
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 2 | key length | bytes |
//! | 2 | 2 | | 0 |
//! | 4 | 4 | value length | bytes |
//! | 8 | 8 | version | of the shard, incremented by every write |
//! | 16 | 4 | expiry | seconds of the server's clock; 0 = never |
//! | 20 | 4 | flags | the client's |
//! | 24 | | key, value | |
//!
//! # Request, client to server, by SEND
//!
//! A [`Request`]; the reply carries its slot and sequence.
//!
//! # Reply, server to client, by SEND
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | status | [`Status`] |
//! | 1 | 1 | | 0 |
//! | 2 | 2 | slot | of the request |
//! | 4 | 4 | length | of the value that follows, or of the record named, bytes |
//! | 8 | 8 | sequence | of the request |
//! | 16 | 8 | record offset | `Location` |
//! | 24 | 8 | record sum | `Location` |
//! | 32 | | value | `Value`; if the request asked for version and flags, behind them: [`ItemInfo`](drover_kv::ItemInfo) |

use drover_base::crc64;
use drover_index::cuckoo::RecordRef;
use drover_kv::ItemInfo;
use drover_one_sided::REQUEST_HEADER_BYTES;

pub use drover_one_sided::{Request, RequestKind, Status};

/// Bytes of a record before its key.
pub const RECORD_HEADER_BYTES: usize = 24;

/// Bytes of a request before its key, and of a reply before its value.
pub const MESSAGE_HEADER_BYTES: usize = REQUEST_HEADER_BYTES;

/// Bytes of a record with a key and a value of these lengths.
pub const fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + key_bytes + value_bytes
}

/// Fields of a record other than key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// Length of the key, bytes.
    pub key_bytes: usize,
    /// Length of the value, bytes.
    pub value_bytes: usize,
    /// Number of the value among those that the shard has begun to write, from 1. The record of a touched item keeps it.
    pub version: u64,
    /// Time at which the record expires, in seconds of the server's clock; 0 = never.
    pub expire_s: u32,
    /// The client's flags.
    pub flags: u32,
}

impl RecordHeader {
    /// Encodes the header as it is stored in memory.
    pub fn encode(self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..2].copy_from_slice(&(self.key_bytes as u16).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.expire_s.to_le_bytes());
        bytes[20..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// Decodes a header; its lengths are not checked.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> RecordHeader {
        RecordHeader {
            key_bytes: usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            value_bytes: u32_at(bytes, 4) as usize,
            version: u64_at(bytes, 8),
            expire_s: u32_at(bytes, 16),
            flags: u32_at(bytes, 20),
        }
    }

    /// Version and flags of the item.
    pub fn info(&self) -> ItemInfo {
        ItemInfo {
            version: self.version,
            flags: self.flags,
        }
    }

    /// Whether the record has expired at second `now_s` of the server's clock.
    pub fn is_expired(&self, now_s: u32) -> bool {
        self.expire_s != 0 && now_s >= self.expire_s
    }
}

/// A record whose checksum was verified; it borrows the bytes that were READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Lengths, version, expiry.
    pub header: RecordHeader,
    /// The whole key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// The bytes read are not the requested record: its memory was reused, or is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the record that the entry names")]
pub struct BadRecord;

impl<'a> Record<'a> {
    /// Verifies and decodes the bytes that a READ of `wanted` returned.
    ///
    /// # Errors
    /// [`BadRecord`] if length or checksum is not that of `wanted`, or the header's lengths are inconsistent.
    pub fn open(bytes: &'a [u8], wanted: &RecordRef) -> Result<Record<'a>, BadRecord> {
        if bytes.len() != wanted.len as usize || crc64(bytes) != wanted.sum {
            return Err(BadRecord);
        }
        let header = RecordHeader::decode(bytes.first_chunk().ok_or(BadRecord)?);
        let rest = &bytes[RECORD_HEADER_BYTES..];
        if header.key_bytes + header.value_bytes != rest.len() {
            return Err(BadRecord);
        }
        let (key, value) = rest.split_at(header.key_bytes);
        Ok(Record { header, key, value })
    }
}

/// Header of a reply, without the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Result of the request.
    pub status: Status,
    /// Slot of the request.
    pub slot: u16,
    /// Sequence number of the request.
    pub sequence: u64,
    /// `Location`: the record to READ. `Value`: only the length is used, as that of the value. Otherwise all 0.
    pub record: RecordRef,
}

impl Reply {
    /// Encodes the header as it is sent.
    pub fn encode(&self) -> [u8; MESSAGE_HEADER_BYTES] {
        let mut bytes = [0; MESSAGE_HEADER_BYTES];
        bytes[0] = self.status as u8;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.record.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.record.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.record.sum.to_le_bytes());
        bytes
    }

    /// Decodes `message` into reply and value; `None` if the status is unknown or the lengths are inconsistent.
    pub fn decode(message: &[u8]) -> Option<(Reply, &[u8])> {
        let (bytes, value) = message.split_first_chunk::<MESSAGE_HEADER_BYTES>()?;
        let status = Status::decode(bytes[0])?;
        let reply = Reply {
            status,
            slot: u16::from_le_bytes([bytes[2], bytes[3]]),
            sequence: u64_at(bytes, 8),
            record: RecordRef {
                offset: u64_at(bytes, 16),
                len: u32_at(bytes, 4),
                sum: u64_at(bytes, 24),
            },
        };
        let value_bytes = if status == Status::Value {
            reply.record.len as usize
        } else {
            0
        };
        (value.len() == value_bytes).then_some((reply, value))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> (Vec<u8>, RecordRef) {
        let header = RecordHeader {
            key_bytes: 3,
            value_bytes: 5,
            version: 9,
            expire_s: 0,
            flags: 0,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(b"keyvalue");
        let wanted = RecordRef {
            offset: 0,
            len: bytes.len() as u32,
            sum: crc64(&bytes),
        };
        (bytes, wanted)
    }

    #[test]
    fn any_flipped_bit_of_a_record_is_found() {
        let (bytes, wanted) = record();
        let whole = Record::open(&bytes, &wanted).expect("whole");
        assert_eq!((whole.key, whole.value), (&b"key"[..], &b"value"[..]));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::open(&flipped, &wanted), Err(BadRecord));
        }
        assert_eq!(Record::open(&vec![0; bytes.len()], &wanted), Err(BadRecord));
    }

    proptest! {
        #[test]
        fn messages_come_back_as_they_were(slot in any::<u16>(), sequence in any::<u64>(), value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let record = RecordRef { offset: 64, len: value.len() as u32, sum: 3 };
            let reply = Reply { status: Status::Value, slot, sequence, record };
            let message = [&reply.encode()[..], &value].concat();
            prop_assert_eq!(Reply::decode(&message), Some((reply, &value[..])));
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0u8..10) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let _ = Reply::decode(&bytes);
            let wanted = RecordRef { offset: 0, len: bytes.len() as u32, sum: crc64(&bytes) };
            let _ = Record::open(&bytes, &wanted);
        }
    }
}
