//! [`Request`]: a client's request to a server, independent of its transport. Little-endian.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | kind | [`RequestKind`] |
//! | 1 | 1 | extended | 0, or 1: an [`Extension`] precedes the key of an update, and an [`ItemInfo`](drover_kv::ItemInfo) the value in the answer to a `Get` |
//! | 2 | 2 | slot | the operation's place; the reply carries it |
//! | 4 | 2 | key length | bytes |
//! | 6 | 2 | | 0 |
//! | 8 | 4 | value length | bytes; `Get`: space at the value offset, 0 = none |
//! | 12 | 4 | time to live | `Put`, `PutLarge`, `Touch`: seconds; 0 = for ever |
//! | 16 | 8 | sequence | the reply carries the same number |
//! | 24 | 8 | value offset | `PutLarge`, `Get`: offset in the client's memory for long values |
//! | 32 | 16 | extension | if the request has one |
//! | then | | key, value | the value only for `Put` |

use drover_kv::{EXTENSION_BYTES, Extension};

/// Bytes of a request before its extension or key.
pub const REQUEST_HEADER_BYTES: usize = 32;

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RequestKind {
    /// Store the value that follows the key.
    Put = 1,
    /// Store a value from the client's memory, which the server READs.
    PutLarge = 2,
    /// Remove the key.
    Delete = 3,
    /// Return the value. A client sends it to confirm a miss or an expiry, and after too many torn or late READs.
    Get = 4,
    /// Set the time to live of an existing key's value.
    Touch = 5,
}

impl RequestKind {
    /// The kind with this number.
    #[inline]
    pub fn decode(kind: u8) -> Option<RequestKind> {
        Some(match kind {
            1 => RequestKind::Put,
            2 => RequestKind::PutLarge,
            3 => RequestKind::Delete,
            4 => RequestKind::Get,
            5 => RequestKind::Touch,
            _ => return None,
        })
    }
}

/// Header and extension of a request to a server, without key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Kind of the request.
    pub kind: RequestKind,
    /// Number of the operation at the client. A reply in Pilaf carries it; in FaRM-KV it selects the place in the
    /// client's mailbox to which the reply is WRITTEN.
    pub slot: u16,
    /// Length of the key, bytes.
    pub key_bytes: usize,
    /// `Put`, `PutLarge`: length of the value, bytes. `Get`: bytes of space for the value at `value_offset` in the
    /// client's memory, 0 = none. `Delete`: 0.
    pub value_bytes: usize,
    /// Time to live of a value, seconds; 0 = it does not expire.
    pub ttl_s: u32,
    /// Sequence number, returned in the reply.
    pub sequence: u64,
    /// Offset in the client's memory for long values, bytes. `PutLarge`: of the value; `Get`: of the space for it;
    /// otherwise 0.
    pub value_offset: u64,
    /// `Get`: whether the answer is to begin with version and flags.
    pub is_detailed: bool,
    /// Flags and condition of an update, if it has some.
    pub extension: Option<Extension>,
}

impl Request {
    /// Whether the second byte of the header is 1.
    #[inline]
    pub fn is_extended(&self) -> bool {
        self.is_detailed || self.extension.is_some()
    }

    /// Encodes the header as it is sent; the extension, if there is one, follows.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.is_extended());
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.key_bytes as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ttl_s.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.value_offset.to_le_bytes());
        bytes
    }

    /// Decodes `message` into header with extension, key and value; `None` if the kind is unknown, the key is empty or too
    /// long, the extension is malformed, or the lengths are inconsistent.
    pub fn decode(message: &[u8]) -> Option<(Request, &[u8], &[u8])> {
        let (bytes, rest) = message.split_first_chunk::<REQUEST_HEADER_BYTES>()?;
        let u32_at = |at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let kind = RequestKind::decode(bytes[0])?;
        let (is_detailed, extension, rest) = take_extension(kind, bytes[1], rest)?;
        let request = Request {
            kind,
            slot: u16::from_le_bytes([bytes[2], bytes[3]]),
            key_bytes: usize::from(u16::from_le_bytes([bytes[4], bytes[5]])),
            value_bytes: u32_at(8) as usize,
            ttl_s: u32_at(12),
            sequence: u64_at(16),
            value_offset: u64_at(24),
            is_detailed,
            extension,
        };
        let (key, value) = rest.split_at_checked(request.key_bytes)?;
        let value_bytes = match request.kind {
            RequestKind::Put => request.value_bytes,
            _ => 0,
        };
        let is_sound = (1..=drover_kv::KEY_BYTES_MAX).contains(&key.len()) && value.len() == value_bytes;
        is_sound.then_some((request, key, value))
    }
}

/// What the byte `extended` of a request of `kind` means, and the bytes of `rest` behind its extension; `None` if it is
/// malformed.
#[inline]
pub fn take_extension(
    kind: RequestKind,
    extended: u8,
    rest: &[u8],
) -> Option<(bool, Option<Extension>, &[u8])> {
    match (kind, extended) {
        (_, 0) => Some((false, None, rest)),
        (RequestKind::Get, 1) => Some((true, None, rest)),
        (RequestKind::Put | RequestKind::PutLarge | RequestKind::Delete, 1) => {
            let (extension, rest) = rest.split_first_chunk::<EXTENSION_BYTES>()?;
            Some((false, Some(Extension::decode(extension)?), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::Condition;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_back_as_they_were(
            slot in any::<u16>(), sequence in any::<u64>(), ttl_s in any::<u32>(), key in proptest::collection::vec(any::<u8>(), 1..251),
            value in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let condition = Condition::IfVersion(sequence);
            for (kind, is_detailed, extension) in [
                (RequestKind::Put, false, None),
                (RequestKind::Put, false, Some(Extension { flags: ttl_s, condition, keep: true })),
                (RequestKind::PutLarge, false, Some(Extension { flags: 1, ..Extension::default() })),
                (RequestKind::Delete, false, None),
                (RequestKind::Delete, false, Some(Extension { condition, ..Extension::default() })),
                (RequestKind::Get, false, None),
                (RequestKind::Get, true, None),
                (RequestKind::Touch, false, None),
            ] {
                let value = if kind == RequestKind::Put { &value[..] } else { &[] };
                let request = Request {
                    kind, slot, key_bytes: key.len(), value_bytes: value.len(), ttl_s, sequence, value_offset: 7, is_detailed, extension,
                };
                let encoded = extension.map(Extension::encode);
                let encoded = encoded.as_ref().map_or(&[][..], |bytes| bytes);
                let message = [&request.encode()[..], encoded, &key, value].concat();
                prop_assert_eq!(Request::decode(&message), Some((request, &key[..], value)));
                prop_assert_eq!(Request::decode(&message[..message.len() - 1]).map(|(request, ..)| request), None);
            }
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0u8..10) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some((request, key, value)) = Request::decode(&bytes) {
                prop_assert_eq!(key.len(), request.key_bytes);
                let extension = request.extension.map_or(0, |_| EXTENSION_BYTES);
                prop_assert_eq!(extension + key.len() + value.len() + REQUEST_HEADER_BYTES, bytes.len());
            }
        }
    }
}
