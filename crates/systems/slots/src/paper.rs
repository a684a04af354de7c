//! Format P, HERD's as published: a request is the key hash, preceded for a PUT by `value, len u16`, right-aligned in its
//! slot.
//!
//! A length of 0 means GET, so values have at least one byte. The last byte of the hash, at the slot's highest address,
//! shows that a request is there, so it is never 0.

use crate::client::request::{Body, prepend};
use crate::layout::{Commit, SlotOp, Status};
use crate::server::{Act, Share};
use drover_base::KeyHash;
use drover_kv::Op;
use drover_mem::MaskedRef;

/// Length of a GET request, bytes: the key hash.
pub const GET_BYTES: usize = 16;
/// Longest value, bytes `[HERD §4.3]`; in slots too short for that, the length of the slot less [`TRAILER_BYTES`].
pub const VALUE_BYTES_MAX: usize = 1000;
/// Bytes at the start of a block (the client's own copy of a request), before the image of the slot. They hold the key,
/// which the request does not contain.
pub const LEAD_BYTES: usize = 256;
/// Bytes that follow the value in a PUT request: its length and the key hash.
pub const TRAILER_BYTES: usize = 2 + GET_BYTES;
/// Beyond so many partitions the last byte of the hash, which the format may change, decides about the partition.
const CHECKED_PARTITIONS_MAX: usize = 128;

/// Converts a key hash to the bytes that requests carry: a last byte of 0 becomes 1.
#[inline(always)]
pub fn wire_hash(hash: KeyHash) -> [u8; 16] {
    let mut bytes = hash.to_bytes();
    if bytes[15] == 0 {
        bytes[15] = 1;
    }
    bytes
}

/// Length of a PUT request for a value of `value_len` bytes, bytes: value, length and key hash.
pub const fn put_bytes(value_len: usize) -> usize {
    value_len + TRAILER_BYTES
}

/// Whether this format has a request for `op` that fits a slot of `slot_bytes`: a GET, or a PUT without a time to live
/// flags or condition whose value is neither empty nor too long. It has none for others.
pub fn can_say(op: &Op<'_>, slot_bytes: usize) -> bool {
    match *op {
        Op::Get { .. } => true,
        Op::Put { value, ttl_s: 0, .. } if op.extension().is_none() => {
            (1..=value_bytes_max(slot_bytes)).contains(&value.len())
        }
        _ => false,
    }
}

fn value_bytes_max(slot_bytes: usize) -> usize {
    VALUE_BYTES_MAX.min(slot_bytes - TRAILER_BYTES)
}

/// Writes a request at the end of `block`, and a copy of its key at the start; returns the length of the request
/// without that copy, bytes. An empty value makes it a GET.
///
/// # Panics
/// If `block` is too short for key and request.
pub fn build(block: &mut [u8], body: &Body<'_>) -> usize {
    block[..body.key.len()].copy_from_slice(body.key);
    let block_bytes = block.len();
    let at = prepend(block, block_bytes, &wire_hash(body.hash));
    if body.value.is_empty() {
        return block_bytes - at;
    }
    let at = prepend(block, at, &(body.value.len() as u16).to_le_bytes());
    block_bytes - prepend(block, at, body.value)
}

/// As [`build`], for a GET of a 16-byte key, given as two little-endian words.
///
/// # Panics
/// If `block` is shorter than the key or the request.
#[inline(always)]
pub fn build_get(block: &mut [u8], key: [u64; 2], hash: KeyHash) {
    let lead = block.first_chunk_mut::<16>().expect("space for the key");
    lead[..8].copy_from_slice(&key[0].to_le_bytes());
    lead[8..].copy_from_slice(&key[1].to_le_bytes());
    let request = block.last_chunk_mut::<GET_BYTES>().expect("space for the hash");
    *request = wire_hash(hash);
}

/// The operation whose request [`build`] wrote to `block`; `commit` holds the lengths of its key and value.
pub fn parse(block: &[u8], commit: Commit) -> Option<Op<'_>> {
    let value_end = block.len() - TRAILER_BYTES;
    let value = &block[value_end - commit.value_len()..value_end];
    let key = &block[..commit.key_len()];
    match commit.op()? {
        SlotOp::Get => Some(Op::Get { key }),
        SlotOp::Put => Some(Op::put(key, value)),
        _ => None,
    }
}

/// Whether the worker that has `share` owns the key with this hash. Always true if there are more than 128 partitions.
#[inline(always)]
pub fn owns(share: Share, hash: KeyHash) -> bool {
    share.partition_count > CHECKED_PARTITIONS_MAX || share.has(hash)
}

/// Decides what a server does with a request whose hash is `hash` and whose length field is `len`, in a slot of
/// `slot_bytes`, on a worker that owns `share`. In this order: refuses too long a value with `BadRequest`; refuses the
/// key of another partition with `WrongPartition` (not checked if there are more than 128 partitions); executes a GET
/// if `len` is 0, else a PUT.
#[inline(always)]
pub fn judge(share: Share, hash: KeyHash, len: usize, slot_bytes: usize) -> Act {
    if len > value_bytes_max(slot_bytes) {
        Act::Say(Status::BadRequest)
    } else if !owns(share, hash) {
        Act::Say(Status::WrongPartition)
    } else if len == 0 {
        Act::Do(SlotOp::Get)
    } else {
        Act::Do(SlotOp::Put)
    }
}

/// Removes the request in whose slot `end` is the place 24 bytes before the end: zeroes these bytes, which are the key
/// hash, the length, and for a PUT the end of the value.
#[inline(always)]
pub fn clear(end: MaskedRef<'_>) {
    for at in [0, 8, 16] {
        end.store(at, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::Extension;

    #[test]
    fn the_papers_requests_have_the_papers_lengths() {
        let mut block = vec![0; LEAD_BYTES + 1024];
        let body = |value| Body {
            commit: Commit::new(SlotOp::Put, 1, 3, <[u8]>::len(value), false),
            hash: KeyHash { low: 5, high: 0 },
            key: b"key",
            value,
            ttl_s: 0,
            extension: Extension::default(),
        };
        assert_eq!(build(&mut block, &body(b"")), GET_BYTES);
        assert_eq!(
            block.last(),
            Some(&1),
            "the last byte says that a request is here"
        );
        let value = [7; 32];
        assert_eq!(build(&mut block, &body(&value)), put_bytes(32));
        let end = block.len();
        assert_eq!(&block[end - 18..end - 16], &32u16.to_le_bytes());
        assert_eq!(&block[end - 50..end - 18], &value);
        assert_eq!(parse(&block, body(&value).commit), Some(Op::put(b"key", &value)));
    }

    #[test]
    fn a_get_is_the_same_either_way() {
        let key = *b"sixteen bytes...";
        for high in [1, 7 << 56] {
            let hash = KeyHash { low: 9, high };
            let (mut one, mut other) = (vec![0; LEAD_BYTES + 64], vec![0; LEAD_BYTES + 64]);
            let body = Body {
                commit: Commit::new(SlotOp::Get, 1, 16, 0, false),
                hash,
                key: &key,
                value: &[],
                ttl_s: 0,
                extension: Extension::default(),
            };
            assert_eq!(build(&mut one, &body), GET_BYTES);
            build_get(&mut other, drover_base::key_words(&key).expect("16 bytes"), hash);
            assert_eq!(one, other);
        }
    }
}
