//! Layout of a request and of a result: the payloads of [`drover_rpc::fetch`], which precedes them with its own header.
//!
//! A request is a [`Request`] as in the other one-sided systems, but shorter: the slot is the call's place, and there is
//! little of the sequence, because [`drover_rpc::fetch`] tells calls apart; so a GET with a key of 16 bytes fits a cache line. Its kind is also the rpc id, so
//! that calls of one kind share a mode. Little-endian:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | kind | [`RequestKind`] |
//! | 1 | 1 | key length | bytes, 1 to 250 |
//! | 2 | 1 | extended | as in a [`Request`] of the other systems: 0, or 1 if an extension precedes the key, or the answer is to begin with version and flags |
//! | 3 | 1 | | 0 |
//! | 4 | 4 | value length | bytes; `Get`: space at the value offset, 0 = none |
//! | 8 | 4 | time to live | seconds; 0 = for ever |
//! | 12 | 4 | value offset | `PutLarge`, `Get`: offset in the client's memory for long values |
//! | 12 | 4 | number | `Put`, `Delete`, `Touch`: lower half of the sequence, which tells whether an update comes again |
//! | 16 | 16 | extension | if the request has one |
//! | then | | key, value | the value only for `Put`; for `PutLarge` the number |
//!
//! A result:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | status | [`Status`] |
//! | 1 | 3 | | 0 |
//! | 4 | 4 | value length | bytes; `Value`, `Written`, `Long` and `InPlace`; otherwise 0 |
//! | 8 | | `Value`: the value, as in the client's memory after `Written` behind version and flags ([`ItemInfo`](drover_kv::ItemInfo)) if they were asked for | |
//! | 8 | 4 | `Written`: CRC-32C of the value | the value is in the client's memory |
//! | 8 | 8 | `InPlace`: offset of the value in the server's memory of items; version and flags follow if they were asked for | the client READs it, and then WRITEs a byte other than 0 into its place's acknowledgement |
//! | 8 | 8 | `Elsewhere`: epoch of the shard's map of partitions | the shard does not own the key |

pub use drover_one_sided::{Request, RequestKind, Status};

use drover_kv::{ITEM_INFO_BYTES, KEY_BYTES_MAX};
use drover_one_sided::take_extension;

/// Bytes of a request before its key.
pub const REQUEST_HEADER_BYTES: usize = 16;

const _: () = assert!(KEY_BYTES_MAX <= u8::MAX as usize, "a key's length fits its field");

/// Encodes the header of `request`, whose value offset fits 32 bits. Its extension follows, if it has one; then the key, and
/// what [`number_after_key`] says.
#[inline]
pub fn encode_request(request: &Request) -> [u8; REQUEST_HEADER_BYTES] {
    let lengths = (request.key_bytes as u64) << 8 | (request.value_bytes as u64) << 32;
    let first = u64::from(request.kind as u8) | lengths | u64::from(request.is_extended()) << 16;
    let last = match request.kind {
        RequestKind::Put | RequestKind::Delete | RequestKind::Touch => request.sequence,
        RequestKind::PutLarge | RequestKind::Get => request.value_offset,
    };
    let second = u64::from(request.ttl_s) | last << 32;
    let mut bytes = [0; REQUEST_HEADER_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// Bytes of a number behind a key.
const NUMBER_BYTES: usize = size_of::<u32>();

/// The bytes behind the key of a `PutLarge`, which has no place for its number in the header.
#[inline]
pub fn number_after_key(request: &Request) -> Option<[u8; NUMBER_BYTES]> {
    let is_large = request.kind == RequestKind::PutLarge;
    is_large.then(|| (request.sequence as u32).to_le_bytes())
}

/// Decodes `message` into header, key and value; `None` if the kind is unknown, the key is empty or too long, or the
/// lengths are inconsistent.
#[inline]
pub fn decode_request(message: &[u8]) -> Option<(Request, &[u8], &[u8])> {
    let (header, rest) = message.split_first_chunk::<REQUEST_HEADER_BYTES>()?;
    let (words, _) = header.as_chunks::<8>();
    let [first, second] = [words[0], words[1]].map(u64::from_le_bytes);
    let last = second >> 32;
    let kind = RequestKind::decode(first as u8)?;
    let (is_detailed, extension, rest) = take_extension(kind, (first >> 16) as u8, rest)?;
    let mut request = Request {
        kind,
        slot: 0,
        key_bytes: usize::from((first >> 8) as u8),
        value_bytes: (first >> 32) as usize,
        ttl_s: second as u32,
        sequence: 0,
        value_offset: 0,
        is_detailed,
        extension,
    };
    let (key, value) = rest.split_at_checked(request.key_bytes)?;
    let mut value = value;
    let mut value_bytes = 0;
    match request.kind {
        RequestKind::Put => (request.sequence, value_bytes) = (last, request.value_bytes),
        RequestKind::Delete | RequestKind::Touch => request.sequence = last,
        RequestKind::Get => request.value_offset = last,
        RequestKind::PutLarge => {
            let (number, rest) = value.split_first_chunk()?;
            request.sequence = u64::from(u32::from_le_bytes(*number));
            (request.value_offset, value) = (last, rest);
        }
    }
    let is_sound = (1..=KEY_BYTES_MAX).contains(&key.len()) && value.len() == value_bytes;
    is_sound.then_some((request, key, value))
}

/// Number of rpc ids: those of the kinds of requests but `Touch`, and 0.
pub const RPC_COUNT: usize = RequestKind::Get as usize + 1;

/// The rpc id of a request: the number of its kind. A `Touch`, whose result is as short, has that of a `Delete`.
#[inline]
pub fn rpc_id(kind: RequestKind) -> u16 {
    match kind {
        RequestKind::Touch => RequestKind::Delete as u16,
        kind => kind as u16,
    }
}

/// Length of an item in bytes, as limits count it: 24 bytes of header, key and value.
pub const fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    24 + key_bytes + value_bytes
}

/// Bytes of a result before the value.
pub const REPLY_HEADER_BYTES: usize = 8;

/// Header of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What came of the request.
    pub status: Status,
    /// Length of the value that the result is about, bytes.
    pub value_bytes: usize,
}

impl Reply {
    /// Encodes the header.
    #[inline]
    pub fn encode(self) -> [u8; REPLY_HEADER_BYTES] {
        let word = u64::from(self.status as u8) | (self.value_bytes as u64) << 32;
        word.to_le_bytes()
    }

    /// Decodes `result` into header and what follows: the value, the checksum of one, or nothing. `None` if the status
    /// is unknown or the lengths are inconsistent.
    #[inline]
    pub fn decode(result: &[u8]) -> Option<(Reply, &[u8])> {
        let (bytes, rest) = result.split_first_chunk::<REPLY_HEADER_BYTES>()?;
        let reply = Reply {
            status: Status::decode(bytes[0])?,
            value_bytes: (u64::from_le_bytes(*bytes) >> 32) as usize,
        };
        let rest_bytes = match reply.status {
            Status::Value => reply.value_bytes,
            Status::Written => size_of::<u32>(),
            Status::InPlace if rest.len() > size_of::<u64>() => size_of::<u64>() + ITEM_INFO_BYTES,
            Status::InPlace | Status::Elsewhere => size_of::<u64>(),
            _ => 0,
        };
        (rest.len() == rest_bytes).then_some((reply, rest))
    }
}

/// Length of the shortest value that clients READ in the server's memory, where the system has that. *(8 KiB: from memory in
/// our specification of RDMA-Memcached)*
pub const IN_PLACE_BYTES_MIN: usize = 8 << 10;

/// Bytes of the acknowledgement of a place.
pub const ACK_BYTES: usize = 8;

/// Checksum of a value that is WRITTEN to the client's memory.
pub fn value_sum(value: &[u8]) -> [u8; 4] {
    crc32c::crc32c(value).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::{Condition, EXTENSION_BYTES, Extension};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_back_as_they_were(
            kind in 1u8..=5, is_extended in any::<bool>(), ttl_s in any::<u32>(), offset in any::<u32>(), long in any::<u32>(),
            key in proptest::collection::vec(any::<u8>(), 1..251), value in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let kind = RequestKind::decode(kind).expect("a kind");
            let (value, value_bytes) = match kind {
                RequestKind::Put => (&value[..], value.len()),
                _ => (&[][..], long as usize),
            };
            let (number, value_offset) = match kind {
                RequestKind::Put | RequestKind::Delete | RequestKind::Touch => (offset, 0),
                RequestKind::PutLarge => (!offset, offset),
                RequestKind::Get => (0, offset),
            };
            let has_extension = is_extended && !matches!(kind, RequestKind::Get | RequestKind::Touch);
            let extension = has_extension.then_some(Extension { flags: offset, condition: Condition::IfVersion(u64::from(long)), keep: false });
            let request = Request {
                kind, slot: 0, key_bytes: key.len(), value_bytes, ttl_s, sequence: u64::from(number), value_offset: u64::from(value_offset),
                is_detailed: is_extended && kind == RequestKind::Get, extension,
            };
            let lead = extension.map(Extension::encode);
            let lead = lead.as_ref().map_or(&[][..], |bytes| bytes);
            let behind = number_after_key(&request).unwrap_or_default();
            let behind = if kind == RequestKind::PutLarge { &behind[..] } else { &[] };
            let message = [&encode_request(&request)[..], lead, &key, value, behind].concat();
            prop_assert_eq!(decode_request(&message), Some((request, &key[..], value)));
            prop_assert_eq!(decode_request(&message[..message.len() - 1]), None);
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..320), kind in 0u8..7) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some((request, key, value)) = decode_request(&bytes) {
                prop_assert_eq!(key.len(), request.key_bytes);
                let behind = number_after_key(&request).map_or(0, |number| number.len());
                let behind = behind + request.extension.map_or(0, |_| EXTENSION_BYTES);
                prop_assert_eq!(key.len() + value.len() + behind + REQUEST_HEADER_BYTES, bytes.len());
            }
        }

        #[test]
        fn results_come_back_as_they_were(value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let reply = Reply { status: Status::Value, value_bytes: value.len() };
            let result = [&reply.encode()[..], &value].concat();
            prop_assert_eq!(Reply::decode(&result), Some((reply, &value[..])));
            prop_assert_eq!(Reply::decode(&result[..result.len() - 1]), None);
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_a_result_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40), status in 0u8..17) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = status;
            }
            if let Some((reply, rest)) = Reply::decode(&bytes) {
                prop_assert_eq!(rest.len() + REPLY_HEADER_BYTES, bytes.len());
                prop_assert!(reply.status != Status::Value || rest.len() == reply.value_bytes);
            }
        }
    }

    /// Offsets as in the table.
    #[test]
    fn fields_are_where_the_table_says() {
        let reply = Reply {
            status: Status::Long,
            value_bytes: 0x0102_0304,
        };
        assert_eq!(reply.encode(), [Status::Long as u8, 0, 0, 0, 4, 3, 2, 1]);
        let request = Request {
            kind: RequestKind::Delete,
            slot: 0,
            key_bytes: 0x21,
            value_bytes: 0x0102_0304,
            ttl_s: 0x0506_0708,
            sequence: 0x1_090a_0b0c,
            value_offset: 0,
            is_detailed: false,
            extension: None,
        };
        let bytes = [3, 0x21, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 0xc, 0xb, 0xa, 9];
        assert_eq!(encode_request(&request), bytes);
    }
}
