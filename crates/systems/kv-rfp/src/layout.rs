//! Layout of a request and of a result: the payloads of [`drover_rpc::fetch`], which precedes them with its own header.
//!
//! A request is a [`Request`] with key and value, as in the other one-sided systems; its kind is also the rpc id, so that
//! calls of one kind share a mode. Slot and sequence are not used: [`drover_rpc::fetch`] tells calls apart. A result,
//! little-endian:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | status | [`Status`] |
//! | 1 | 3 | | 0 |
//! | 4 | 4 | value length | bytes; `Value`, `Written`, `Long` and `InPlace`; otherwise 0 |
//! | 8 | | `Value`: the value | |
//! | 8 | 4 | `Written`: CRC-32C of the value | the value is in the client's memory |
//! | 8 | 8 | `InPlace`: offset of the value in the server's memory of items | the client READs it, and then WRITEs a byte other than 0 into its place's acknowledgement |

pub use drover_one_sided::{REQUEST_HEADER_BYTES, Request, RequestKind, Status};

/// Number of rpc ids: those of the kinds of requests, and 0.
pub const RPC_COUNT: usize = RequestKind::Get as usize + 1;

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
            Status::InPlace => size_of::<u64>(),
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_come_back_as_they_were(value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let reply = Reply { status: Status::Value, value_bytes: value.len() };
            let result = [&reply.encode()[..], &value].concat();
            prop_assert_eq!(Reply::decode(&result), Some((reply, &value[..])));
            prop_assert_eq!(Reply::decode(&result[..result.len() - 1]), None);
        }

        /// Nothing that arrives can panic.
        #[test]
        fn any_bytes_are_a_result_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40), status in 0u8..14) {
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
    }
}
