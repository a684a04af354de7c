//! Every byte that is read or sent: records, requests, replies. Little-endian throughout. The table's bytes are those of
//! [`drover_index::cuckoo`].
//!
//! # Record, in the extents: written by the server, READ by clients
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 2 | key length | bytes |
//! | 2 | 2 | | 0 |
//! | 4 | 4 | value length | bytes |
//! | 8 | 8 | version | of the shard: one more for every write |
//! | 16 | 4 | expiry | in seconds of the server's clock; 0 = never |
//! | 20 | 4 | | 0 |
//! | 24 | | key, value | |
//!
//! # Request, client to server, by SEND
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | kind | [`RequestKind`] |
//! | 1 | 1 | | 0 |
//! | 2 | 2 | slot | comes back in the reply |
//! | 4 | 2 | key length | bytes |
//! | 6 | 2 | | 0 |
//! | 8 | 4 | value length | bytes |
//! | 12 | 4 | time to live | seconds; 0 = for ever |
//! | 16 | 8 | sequence | comes back in the reply |
//! | 24 | 8 | value offset | `PutLarge`: where in the client's memory the server READs the value |
//! | 32 | | key, value | the value only of `Put` |
//!
//! # Reply, server to client, by SEND
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | status | [`Status`] |
//! | 1 | 1 | | 0 |
//! | 2 | 2 | slot | of the request |
//! | 4 | 4 | length | of the value behind, or of the record named, bytes |
//! | 8 | 8 | sequence | of the request |
//! | 16 | 8 | record offset | `Location` |
//! | 24 | 8 | record sum | `Location` |
//! | 32 | | value | `Value` |

use drover_index::crc64;
use drover_index::cuckoo::RecordRef;

/// Bytes of a record before its key.
pub const RECORD_HEADER_BYTES: usize = 24;

/// Bytes of a request before its key, and of a reply before its value.
pub const MESSAGE_HEADER_BYTES: usize = 32;

/// Bytes of a record.
pub const fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + key_bytes + value_bytes
}

/// What a record says beside its key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// Bytes.
    pub key_bytes: usize,
    /// Bytes.
    pub value_bytes: usize,
    /// Of the shard.
    pub version: u64,
    /// In seconds of the server's clock; 0 = never.
    pub expire_s: u32,
}

impl RecordHeader {
    /// As it stands in memory.
    pub fn encode(self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..2].copy_from_slice(&(self.key_bytes as u16).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.expire_s.to_le_bytes());
        bytes
    }

    /// Takes a header apart; its lengths may be anything.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> RecordHeader {
        RecordHeader {
            key_bytes: usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            value_bytes: u32_at(bytes, 4) as usize,
            version: u64_at(bytes, 8),
            expire_s: u32_at(bytes, 16),
        }
    }

    /// Whether it has expired at second `now_s` of the server's clock.
    pub fn is_expired(&self, now_s: u32) -> bool {
        self.expire_s != 0 && now_s >= self.expire_s
    }
}

/// A record that proved itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Lengths, version, expiry.
    pub header: RecordHeader,
    /// The whole key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What was read is not the record asked for: its place was reused, or is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the record that the entry names")]
pub struct BadRecord;

impl<'a> Record<'a> {
    /// Takes apart what a READ of `wanted` brought.
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
    /// GET: the value is behind the header.
    Value = 4,
    /// GET: READ this record.
    Location = 5,
    /// No room.
    Full = 6,
    /// The record would be longer than the server allows.
    TooLarge = 7,
    /// The request contradicts itself.
    BadRequest = 8,
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What for.
    pub kind: RequestKind,
    /// Comes back.
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
    pub fn encode(&self) -> [u8; MESSAGE_HEADER_BYTES] {
        let mut bytes = [0; MESSAGE_HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.key_bytes as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ttl_s.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.value_offset.to_le_bytes());
        bytes
    }

    /// The request in `message` with its key and value; `None`: it contradicts itself.
    pub fn decode(message: &[u8]) -> Option<(Request, &[u8], &[u8])> {
        let (bytes, rest) = message.split_first_chunk::<MESSAGE_HEADER_BYTES>()?;
        let request = Request {
            kind: match bytes[0] {
                1 => RequestKind::Put,
                2 => RequestKind::PutLarge,
                3 => RequestKind::Delete,
                4 => RequestKind::Get,
                _ => return None,
            },
            slot: u16::from_le_bytes([bytes[2], bytes[3]]),
            key_bytes: usize::from(u16::from_le_bytes([bytes[4], bytes[5]])),
            value_bytes: u32_at(bytes, 8) as usize,
            ttl_s: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            value_offset: u64_at(bytes, 24),
        };
        let (key, value) = rest.split_at_checked(request.key_bytes)?;
        let value_bytes = if request.kind == RequestKind::Put {
            request.value_bytes
        } else {
            0
        };
        let is_sound = (1..=drover_kv::KEY_BYTES_MAX).contains(&key.len()) && value.len() == value_bytes;
        is_sound.then_some((request, key, value))
    }
}

/// A reply's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What came of it.
    pub status: Status,
    /// Of the request.
    pub slot: u16,
    /// Of the request.
    pub sequence: u64,
    /// `Value`: only its length. `Location`: all of it.
    pub record: RecordRef,
}

impl Reply {
    /// As it travels.
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

    /// The reply in `message` with its value; `None`: it contradicts itself.
    pub fn decode(message: &[u8]) -> Option<(Reply, &[u8])> {
        let (bytes, value) = message.split_first_chunk::<MESSAGE_HEADER_BYTES>()?;
        let status = match bytes[0] {
            1 => Status::Stored,
            2 => Status::Deleted,
            3 => Status::NotFound,
            4 => Status::Value,
            5 => Status::Location,
            6 => Status::Full,
            7 => Status::TooLarge,
            8 => Status::BadRequest,
            _ => return None,
        };
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
        fn messages_come_back_as_they_were(
            slot in any::<u16>(), sequence in any::<u64>(), ttl_s in any::<u32>(), key in proptest::collection::vec(any::<u8>(), 1..251),
            value in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let request = Request {
                kind: RequestKind::Put, slot, key_bytes: key.len(), value_bytes: value.len(), ttl_s, sequence, value_offset: 7,
            };
            let message = [&request.encode()[..], &key, &value].concat();
            prop_assert_eq!(Request::decode(&message), Some((request, &key[..], &value[..])));
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
            if let Some((request, key, value)) = Request::decode(&bytes) {
                prop_assert_eq!(key.len(), request.key_bytes);
                prop_assert!(key.len() + value.len() + MESSAGE_HEADER_BYTES == bytes.len());
            }
            let _ = Reply::decode(&bytes);
            let wanted = RecordRef { offset: 0, len: bytes.len() as u32, sum: crc64(&bytes) };
            let _ = Record::open(&bytes, &wanted);
        }
    }
}
