//! [`Parsed`]: a commit word that passed all checks, and the offsets of the parts of its body.

use super::{SlotState, Turn, Verdict};
use crate::layout::{BULK_BYTES, Commit, SLOT_BYTES_MIN, SlotMap, SlotOp, TRAILER_BYTES, request_crc};
use drover_base::KeyHash;

/// Longest key, bytes.
const KEY_BYTES_MAX: usize = drover_kv::KEY_BYTES_MAX;
/// Bits 42-45 of the commit word.
const RESERVED: u64 = 0xf << 42;
/// Bit 46.
const CONDITION: u64 = 1 << 46;

/// A server's rules for keys and checksums of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRule {
    /// Whether requests without a key are allowed; their hash is the key. A `Nop` may lack a key in any case.
    pub hash_only: bool,
    /// Whether bodies must end with a checksum.
    pub crc_required: bool,
}

/// Error of [`Parsed::new`]: the commit word is malformed or breaks a rule. The request is answered `BadRequest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// The fields of a commit word that passed all checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// Operation of the request.
    pub op: SlotOp,
    /// Length of the key, bytes, at most 250; 0: the hash is the key, or the operation is a `Nop` without one.
    pub key_len: usize,
    /// Length of the value in the slot, bytes; 12 for [bulk operations](SlotOp::is_bulk), whose value is a
    /// [`Bulk`](crate::layout::Bulk).
    pub value_len: usize,
    /// Length of the body with extension, ttl and checksum, bytes; it fits into the slot.
    pub body_len: usize,
    /// Whether the body ends with a checksum.
    pub has_crc: bool,
}

impl Parsed {
    /// Checks operation, lengths, reserved bits and the checksum bit of `commit`, for a slot that holds bodies of up to
    /// `body_bytes_max` bytes. Valid bit, seq, attempt and condition may have any value.
    ///
    /// # Errors
    /// [`Refused`]: an unknown operation, a length that is too large or does not suit the operation, a set reserved
    /// bit, or a key or checksum missing that `rule` requires.
    #[inline(always)]
    pub fn new(commit: Commit, rule: KeyRule, body_bytes_max: usize) -> Result<Parsed, Refused> {
        let op = commit.op().ok_or(Refused)?;
        let (key_len, value_len, has_crc) = (commit.key_len(), commit.value_len(), commit.has_crc());
        let crc_bytes = if has_crc { 4 } else { 0 };
        let body_len = op.lead_bytes() + value_len + key_len + crc_bytes;
        let value_fits_op = match op {
            SlotOp::Put | SlotOp::PutTtl | SlotOp::PutExt => true,
            op if op.is_bulk() => value_len == BULK_BYTES,
            _ => value_len == 0,
        };
        let key_fits = key_len <= KEY_BYTES_MAX && (key_len > 0 || rule.hash_only || op == SlotOp::Nop);
        let sane = value_fits_op
            && key_fits
            && body_len <= body_bytes_max
            && commit.0 & RESERVED == 0
            && (has_crc || !rule.crc_required);
        let parsed = Parsed {
            op,
            key_len,
            value_len,
            body_len,
            has_crc,
        };
        if sane { Ok(parsed) } else { Err(Refused) }
    }

    /// Length of the body without its checksum, bytes.
    #[inline(always)]
    pub fn plain_len(&self) -> usize {
        self.body_len - if self.has_crc { 4 } else { 0 }
    }

    /// Offsets of the body's parts in a buffer that contains the body from offset `start` on.
    #[inline(always)]
    pub fn body_at(&self, start: usize) -> BodyAt {
        let value = start + self.op.lead_bytes();
        let key = value + self.value_len;
        BodyAt {
            start,
            value,
            key,
            crc: key + self.key_len,
        }
    }

    /// Whether the body that starts at offset `start` of `image` has the right checksum; true if it has none.
    ///
    /// # Panics
    /// The request has a checksum, and `image` ends before its body ends.
    pub fn is_intact(&self, image: &[u8], start: usize, hash: KeyHash, commit: Commit) -> bool {
        if !self.has_crc {
            return true;
        }
        let at = self.body_at(start);
        let (body, crc) = image[start..start + self.body_len].split_at(at.crc - start);
        u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]) == request_crc(body, hash, commit)
    }
}

/// The fields of a plain commit word, as nearly all are: a first attempt of a GET or PUT with a key, without time to
/// live, checksum or condition. It is recognised by two comparisons instead of a dozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// GET or PUT.
    pub op: SlotOp,
    /// Length of the key, bytes: 1 to 250.
    pub key_len: usize,
    /// Length of the value, bytes; 0 for a GET.
    pub value_len: usize,
}

impl Plain {
    /// Valid bit, attempt, op, reserved bits, condition, checksum bit, seq.
    const SHAPE: u64 = 0xff << 56 | RESERVED | CONDITION | 1 << 47 | 0xffff_ffff;
    /// The same and the length of the value.
    const SHAPE_EMPTY: u64 = Plain::SHAPE | 0x3ff << 32;
    const GET: u64 = Plain::GET_BYTE << 56;
    const PUT: u64 = Plain::PUT_BYTE << 56;
    /// The last byte of the word of a plain GET, and of a plain PUT.
    pub(super) const GET_BYTE: u64 = 1 << 7 | SlotOp::Get as u64;
    pub(super) const PUT_BYTE: u64 = 1 << 7 | SlotOp::Put as u64;

    /// Checks whether `commit` is plain and its body has at most `body_bytes_max` bytes. `None`: it is not plain, or is
    /// malformed, which [`Parsed::new`] distinguishes. With `body_bytes_max` 0 no word is plain.
    #[inline(always)]
    pub fn new(commit: Commit, body_bytes_max: usize) -> Option<Plain> {
        let seq = commit.seq();
        Plain::get(commit, seq, body_bytes_max).or_else(|| Plain::put(commit, seq, body_bytes_max))
    }

    /// As [`new`](Plain::new), but `None` for a PUT, and for another use of the slot than `seq`.
    #[inline(always)]
    pub fn get(commit: Commit, seq: u32, body_bytes_max: usize) -> Option<Plain> {
        let get = commit.0 & Plain::SHAPE_EMPTY == Plain::GET | u64::from(seq);
        let plain = Plain {
            op: SlotOp::Get,
            key_len: commit.key_len(),
            value_len: 0,
        };
        let fits = plain.key_len.wrapping_sub(1) < KEY_BYTES_MAX.min(body_bytes_max);
        (get && fits).then_some(plain)
    }

    /// As [`new`](Plain::new), but `None` for a GET, and for another use of the slot than `seq`.
    #[inline(always)]
    pub fn put(commit: Commit, seq: u32, body_bytes_max: usize) -> Option<Plain> {
        let put = commit.0 & Plain::SHAPE == Plain::PUT | u64::from(seq);
        let plain = Plain {
            op: SlotOp::Put,
            key_len: commit.key_len(),
            value_len: commit.value_len(),
        };
        let fits = plain.key_len.wrapping_sub(1) < KEY_BYTES_MAX && plain.body_len() <= body_bytes_max;
        (put && fits).then_some(plain)
    }

    /// Length of the body, bytes: value and key.
    #[inline(always)]
    pub fn body_len(&self) -> usize {
        self.value_len + self.key_len
    }
}

/// Offsets of the parts of a body in a buffer that contains it: the result of [`Parsed::body_at`]. Each part ends where
/// the next one starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyAt {
    /// Offset of the extension, of the ttl if there is none, or of the value if there is neither.
    pub start: usize,
    /// Offset of the value.
    pub value: usize,
    /// Offset of the key.
    pub key: usize,
    /// Offset of the checksum, or of the end of the body if there is no checksum.
    pub crc: usize,
}

/// For `cargo fuzz`: treats each 128 bytes of `input` as the contents of the slot whose turn it is, and decides, parses
/// and slices as a server does. Bits 0 and 1 of the first byte choose the [`KeyRule`]. Returns how many new requests
/// would have been executed; retransmissions are ignored. Never panics, unless the code under test has a bug.
pub fn fuzz_slots(input: &[u8]) -> usize {
    let map = SlotMap {
        slot_bytes: SLOT_BYTES_MIN * 2,
        window: 4,
        partition_count: 1,
    };
    let rule = KeyRule {
        hash_only: input.first().is_some_and(|b| b & 1 != 0),
        crc_required: input.first().is_some_and(|b| b & 2 != 0),
    };
    let mut states = vec![SlotState::UNUSED; map.window];
    let mut turn = Turn::FIRST;
    let mut executed = 0;
    for image in input.chunks_exact(map.slot_bytes) {
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes"));
        let commit = Commit(word(map.slot_bytes - 8));
        turn = turn.skip_done(&states);
        let state = &mut states[turn.slot as usize];
        if commit.0 == state.last_commit() || state.judge(commit) != Verdict::Execute {
            state.note(commit);
            continue;
        }
        state.take(commit);
        turn.seq = commit.seq();
        let Ok(parsed) = Parsed::new(commit, rule, map.body_bytes_max()) else {
            continue;
        };
        let trailer = map.slot_bytes - TRAILER_BYTES;
        let hash = KeyHash {
            low: word(trailer),
            high: word(trailer + 8),
        };
        let start = trailer - parsed.body_len;
        if parsed.is_intact(image, start, hash, commit) {
            let at = parsed.body_at(start);
            assert_eq!(image[at.value..at.key].len(), parsed.value_len);
            assert_eq!(image[at.key..at.crc].len(), parsed.key_len);
            executed += 1;
        }
    }
    executed
}
