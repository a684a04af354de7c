//! Builds the bytes of requests, right-aligned in a block of a slot's size.

use crate::layout::{Commit, SlotOp, TRAILER_BYTES, request_crc};
use drover_base::KeyHash;
use drover_kv::{Extension, Op};
use drover_mem::LINE_BYTES;

/// Buffer for a request of one cache line.
pub type Line = [u8; LINE_BYTES];

/// Parts of a request.
pub struct Body<'a> {
    /// Commit word. The lengths that it contains must be those of `key` and `value`.
    pub commit: Commit,
    /// Hash of the key.
    pub hash: KeyHash,
    /// The key; empty if the hash is the key.
    pub key: &'a [u8],
    /// The value; for `PutBulk` and `GetBulk`, an encoded [`Bulk`](crate::layout::Bulk).
    pub value: &'a [u8],
    /// Time to live, seconds (0: unlimited), of operations that [have one](SlotOp::has_ttl); others ignore it.
    pub ttl_s: u32,
    /// Flags and condition of operations that [have some](SlotOp::has_extension); others ignore it.
    pub extension: Extension,
}

/// Copies `src` into `block` so that it ends at offset `end`; returns the offset of its start. The usual lengths are
/// copied in registers.
///
/// # Panics
/// `src` is longer than `end`, or `end` is outside `block`.
#[inline(always)]
pub fn prepend(block: &mut [u8], end: usize, src: &[u8]) -> usize {
    let at = end - src.len();
    let dst = &mut block[at..end];
    match src.len() {
        16 => dst.copy_from_slice(&src[..16]),
        32 => dst.copy_from_slice(&src[..32]),
        _ => dst.copy_from_slice(src),
    }
    at
}

/// Writes a request to the end of `block` and returns its length in bytes. The bytes before it stay as they are.
///
/// # Panics
/// The request is longer than the block.
#[inline(always)]
pub fn build(block: &mut [u8], body: &Body<'_>) -> usize {
    let slot_bytes = block.len();
    let trailer = slot_bytes - TRAILER_BYTES;
    block[slot_bytes - 8..].copy_from_slice(&body.commit.0.to_le_bytes());
    block[trailer..trailer + 8].copy_from_slice(&body.hash.low.to_le_bytes());
    block[trailer + 8..trailer + 16].copy_from_slice(&body.hash.high.to_le_bytes());
    let crc_at = trailer - if body.commit.has_crc() { 4 } else { 0 };
    let mut at = prepend(block, crc_at, body.key);
    if !body.value.is_empty() {
        at = prepend(block, at, body.value);
    }
    // As `Commit::body_len` counts: by the operation, so that no time to live can make the two differ.
    if let Some(op) = body.commit.op().filter(|op| op.lead_bytes() > 0) {
        if op.has_ttl() {
            at = prepend(block, at, &body.ttl_s.to_le_bytes());
        }
        if op.has_extension() {
            at = prepend(block, at, &body.extension.encode());
        }
    }
    if body.commit.has_crc() {
        let crc = request_crc(&block[at..crc_at], body.hash, body.commit);
        block[crc_at..trailer].copy_from_slice(&crc.to_le_bytes());
    }
    slot_bytes - at
}

/// Longest body of a request of `N` bytes.
pub const fn body_bytes_max<const N: usize>() -> usize {
    N - TRAILER_BYTES
}

/// Writes a request without checksum and time to live to the end of `N` bytes, one or two cache lines. There hash, commit
/// word and the end of the key have fixed offsets, so this takes half the instructions of [`build`].
///
/// # Panics
/// Key and value together are longer than [`body_bytes_max`].
#[inline(always)]
pub fn build_lines<const N: usize>(
    lines: &mut [u8; N],
    commit: Commit,
    hash: KeyHash,
    key: &[u8],
    value: &[u8],
) {
    const { assert!(N >= LINE_BYTES) };
    lines[N - 8..].copy_from_slice(&commit.0.to_le_bytes());
    lines[N - 16..N - 8].copy_from_slice(&hash.high.to_le_bytes());
    lines[N - 24..N - 16].copy_from_slice(&hash.low.to_le_bytes());
    let body_end = body_bytes_max::<N>();
    if let Ok(key) = <&[u8; 16]>::try_from(key) {
        lines[body_end - 16..body_end].copy_from_slice(key);
        // The usual length of a value, with all offsets fixed, too.
        if let (Ok(value), Some(at)) = (<&[u8; 32]>::try_from(value), body_end.checked_sub(48)) {
            return lines[at..body_end - 16].copy_from_slice(value);
        }
    } else {
        lines[body_end - key.len()..body_end].copy_from_slice(key);
    }
    if !value.is_empty() {
        prepend(lines, body_end - key.len(), value);
    }
}

/// As [`build_lines`], for a GET of a 16-byte key, given as two little-endian words: five stores.
#[inline(always)]
pub fn build_get(line: &mut Line, commit: Commit, hash: KeyHash, key: [u64; 2]) {
    let words = [key[0], key[1], hash.low, hash.high, commit.0];
    for (at, word) in (24..).step_by(8).zip(words) {
        line[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// The operation whose request [`build`] wrote to the end of `block`; `None` for those that only a client itself makes.
pub fn parse(block: &[u8], commit: Commit) -> Option<Op<'_>> {
    let op = commit.op()?;
    let crc_at = block.len() - TRAILER_BYTES - if commit.has_crc() { 4 } else { 0 };
    let key_at = crc_at - commit.key_len();
    let value_at = key_at - commit.value_len();
    let (key, value) = (&block[key_at..crc_at], &block[value_at..key_at]);
    let ttl_s = match op.has_ttl() {
        true => u32::from_le_bytes(*block[..value_at].last_chunk()?),
        false => 0,
    };
    let Extension {
        flags,
        condition,
        keep,
    } = match op.has_extension() {
        true => Extension::decode(block[value_at - op.lead_bytes()..].first_chunk()?)?,
        false => Extension::default(),
    };
    Some(match op {
        SlotOp::Get => Op::Get { key },
        SlotOp::GetExt => Op::GetItem { key },
        SlotOp::Put | SlotOp::PutTtl | SlotOp::PutExt => Op::Put {
            key,
            value,
            ttl_s,
            flags,
            condition,
            keep,
        },
        SlotOp::Delete | SlotOp::DeleteExt => Op::Delete { key, condition },
        SlotOp::Touch => Op::Touch { key, ttl_s },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Condition;
    use proptest::prelude::*;

    fn built(op: SlotOp, key: &[u8], value: &[u8], ttl_s: u32, crc: bool) -> (Vec<u8>, usize, Commit) {
        let commit = Commit::new(op, 9, key.len(), value.len(), crc);
        let mut block = vec![0xee; 1024];
        let hash = KeyHash { low: 1, high: 2 };
        let len = build(
            &mut block,
            &Body {
                commit,
                hash,
                key,
                value,
                ttl_s,
                extension: Extension::default(),
            },
        );
        (block, len, commit)
    }

    #[test]
    fn a_get_is_key_hash_and_commit_word() {
        let (block, len, commit) = built(SlotOp::Get, b"key", b"", 0, false);
        assert_eq!((len, len - TRAILER_BYTES), (27, commit.body_len()));
        assert_eq!(&block[1024 - 27..1000], b"key");
        assert_eq!(&block[1000..1008], &1u64.to_le_bytes());
        assert_eq!(&block[1016..], &commit.0.to_le_bytes());
        assert_eq!(block[1024 - 28], 0xee);
    }

    proptest! {
        #[test]
        fn short_requests_are_the_same_either_way(
            key in prop_oneof![proptest::collection::vec(any::<u8>(), 1..=40), proptest::collection::vec(any::<u8>(), 16)],
            fill in prop_oneof![Just(0), 0usize..=39],
        ) {
            let value = vec![9; fill.min(body_bytes_max::<LINE_BYTES>() - key.len())];
            let (block, len, commit) = built(SlotOp::Put, &key, &value, 0, false);
            let mut line = [0; LINE_BYTES];
            if let (Some(words), 0) = (drover_base::key_words(&key), value.len()) {
                build_get(&mut line, commit, KeyHash { low: 1, high: 2 }, words);
                prop_assert_eq!(&line[LINE_BYTES - len..], &block[1024 - len..]);
            }
            build_lines(&mut line, commit, KeyHash { low: 1, high: 2 }, &key, &value);
            prop_assert_eq!(&line[64 - len..], &block[1024 - len..]);
        }

        #[test]
        fn requests_of_two_lines_are_the_same_either_way(
            key in prop_oneof![proptest::collection::vec(any::<u8>(), 1..=104), proptest::collection::vec(any::<u8>(), 16)],
            fill in prop_oneof![Just(0), Just(32), 0usize..=103],
        ) {
            let value = vec![9; fill.min(body_bytes_max::<128>() - key.len())];
            let (block, len, commit) = built(SlotOp::Put, &key, &value, 0, false);
            let mut lines = [0; 2 * LINE_BYTES];
            build_lines(&mut lines, commit, KeyHash { low: 1, high: 2 }, &key, &value);
            prop_assert_eq!(&lines[128 - len..], &block[1024 - len..]);
        }

        #[test]
        fn what_was_built_is_parsed(
            key in proptest::collection::vec(any::<u8>(), 1..=250),
            value in proptest::collection::vec(any::<u8>(), 0..=700),
            ttl_s in 0u32..3,
            flags in any::<u32>(),
            version in any::<u64>(),
            crc in any::<bool>(),
        ) {
            let (key, value) = (&key[..], &value[..]);
            let put = |ttl_s, flags, condition| Op::Put { key, value, ttl_s, flags, condition, keep: flags == 1 };
            let always = Condition::Always;
            for (slot_op, op) in [
                (SlotOp::Get, Op::Get { key }),
                (SlotOp::GetExt, Op::GetItem { key }),
                (SlotOp::Put, put(0, 0, always)),
                (SlotOp::PutTtl, put(ttl_s, 0, always)),
                (SlotOp::PutExt, put(ttl_s, flags, Condition::IfVersion(version))),
                (SlotOp::Delete, Op::delete(key)),
                (SlotOp::DeleteExt, Op::Delete { key, condition: Condition::IfVersion(version) }),
                (SlotOp::Touch, Op::Touch { key, ttl_s }),
            ] {
                let value = if let Op::Put { value, .. } = op { value } else { &[] };
                let commit = Commit::new(slot_op, 9, key.len(), value.len(), crc);
                let (hash, extension) = (KeyHash { low: 1, high: 2 }, op.extension().unwrap_or_default());
                let mut block = vec![0xee; 1024];
                let len = build(&mut block, &Body { commit, hash, key, value, ttl_s, extension });
                prop_assert_eq!(len, TRAILER_BYTES + commit.body_len());
                prop_assert_eq!(parse(&block, commit), Some(op));
            }
        }
    }
}
