//! [`Parsed`]: a commit word that makes sense, and where the pieces of its body are.

use super::{SlotState, Turn, Verdict};
use crate::layout::{BULK_BYTES, Commit, SLOT_BYTES_MIN, SlotMap, SlotOp, TRAILER_BYTES, request_crc};
use drover_base::KeyHash;

/// Longest key, bytes.
const KEY_BYTES_MAX: usize = drover_kv::KEY_BYTES_MAX;
/// Bits 42-45 of the commit word.
const RESERVED: u64 = 0xf << 42;
/// Bit 46.
const CONDITION: u64 = 1 << 46;

/// What a server expects of keys and checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRule {
    /// Requests without a key are allowed: the hash is the key.
    pub hash_only: bool,
    /// Bodies must end with a checksum.
    pub crc_required: bool,
}

/// Why a commit word makes no sense: answered `BadRequest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// A commit word checked against the slot it stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// What is asked for.
    pub op: SlotOp,
    /// Bytes of key, at most 250.
    pub key_len: usize,
    /// Bytes of value.
    pub value_len: usize,
    /// Bytes of body, at most what the slot holds.
    pub body_len: usize,
    /// The body ends with a checksum.
    pub has_crc: bool,
}

impl Parsed {
    /// Checks `commit` for a slot with space for `body_bytes_max`.
    #[inline(always)]
    pub fn new(commit: Commit, rule: KeyRule, body_bytes_max: usize) -> Result<Parsed, Refused> {
        let op = commit.op().ok_or(Refused)?;
        let (key_len, value_len, has_crc) = (commit.key_len(), commit.value_len(), commit.has_crc());
        let crc_bytes = if has_crc { 4 } else { 0 };
        let ttl_bytes = if op.has_ttl() { 4 } else { 0 };
        let body_len = ttl_bytes + value_len + key_len + crc_bytes;
        let value_fits_op = match op {
            SlotOp::Get | SlotOp::Delete | SlotOp::Nop => value_len == 0,
            SlotOp::Put | SlotOp::PutTtl => true,
            SlotOp::PutBulk | SlotOp::GetBulk => value_len == BULK_BYTES,
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

    /// Bytes of body without the checksum.
    #[inline(always)]
    pub fn plain_len(&self) -> usize {
        self.body_len - if self.has_crc { 4 } else { 0 }
    }

    /// Where the pieces are in a buffer that has the body from `start` on.
    #[inline(always)]
    pub fn body_at(&self, start: usize) -> BodyAt {
        let value = start + if self.op.has_ttl() { 4 } else { 0 };
        let key = value + self.value_len;
        BodyAt {
            start,
            value,
            key,
            crc: key + self.key_len,
        }
    }

    /// Whether the checksum of the body that `image` has from `start` on is right (or not there).
    pub fn is_intact(&self, image: &[u8], start: usize, hash: KeyHash, commit: Commit) -> bool {
        if !self.has_crc {
            return true;
        }
        let at = self.body_at(start);
        let (body, crc) = image[start..start + self.body_len].split_at(at.crc - start);
        u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]) == request_crc(body, hash, commit)
    }
}

/// A commit word of the kind that nearly all are: a first attempt at a GET or PUT with a key, without checksum or condition.
/// Recognised by two comparisons instead of a dozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// GET or PUT.
    pub op: SlotOp,
    /// 1 to 250 bytes of key.
    pub key_len: usize,
    /// Bytes of value.
    pub value_len: usize,
}

impl Plain {
    /// Valid bit, attempt, op, reserved bits, condition, checksum bit.
    const SHAPE: u64 = 0xff << 56 | RESERVED | CONDITION | 1 << 47;
    /// The same and the length of the value.
    const SHAPE_EMPTY: u64 = Plain::SHAPE | 0x3ff << 32;
    const GET: u64 = 1 << 63 | (SlotOp::Get as u64) << 56;
    const PUT: u64 = 1 << 63 | (SlotOp::Put as u64) << 56;

    /// `None`: something else, or nonsense; see [`Parsed::new`]. With `body_bytes_max` 0 nothing is plain.
    #[inline(always)]
    pub fn new(commit: Commit, body_bytes_max: usize) -> Option<Plain> {
        Plain::get(commit, body_bytes_max).or_else(|| Plain::put(commit, body_bytes_max))
    }

    /// As [`new`](Plain::new), GETs only.
    #[inline(always)]
    pub fn get(commit: Commit, body_bytes_max: usize) -> Option<Plain> {
        let get = commit.0 & Plain::SHAPE_EMPTY == Plain::GET;
        let plain = Plain {
            op: SlotOp::Get,
            key_len: commit.key_len(),
            value_len: 0,
        };
        (get && plain.fits(body_bytes_max)).then_some(plain)
    }

    /// As [`new`](Plain::new), PUTs only.
    #[inline(always)]
    pub fn put(commit: Commit, body_bytes_max: usize) -> Option<Plain> {
        let put = commit.0 & Plain::SHAPE == Plain::PUT;
        let plain = Plain {
            op: SlotOp::Put,
            key_len: commit.key_len(),
            value_len: commit.value_len(),
        };
        (put && plain.fits(body_bytes_max)).then_some(plain)
    }

    #[inline(always)]
    fn fits(&self, body_bytes_max: usize) -> bool {
        self.key_len.wrapping_sub(1) < KEY_BYTES_MAX && self.body_len() <= body_bytes_max
    }

    /// Bytes of body: value and key.
    #[inline(always)]
    pub fn body_len(&self) -> usize {
        self.value_len + self.key_len
    }
}

/// Offsets of the pieces of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyAt {
    /// The ttl, if there is one, else the value.
    pub start: usize,
    /// The value.
    pub value: usize,
    /// The key.
    pub key: usize,
    /// The checksum, if there is one.
    pub crc: usize,
}

/// Walks any bytes as the slots of one client, as a server would: decides, parses, slices. For `cargo fuzz`;
/// returns how many requests would have been executed. Never panics.
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
