//! The bytes of request slots and of replies.
//!
//! **A client's slots.** Each client has its own region at the server (it can map nothing else), with
//! `partition_count * window` slots of `slot_bytes` (64..=1024, a multiple of 64):
//!
//! ```text
//! slot of request r to partition s  =  (s * window + r mod window) * slot_bytes        [HERD §4.3]
//! ```
//! The paper keeps all clients in one region, `s * (W * NC) + c * W + r mod W`; ours is the same formula with
//! one client per region, so that memory rights can be per client. *(our choice)*
//!
//! **A request** is right-aligned, because the word at the highest address lands last. Offsets from the slot's end:
//!
//! | from | size | field | written by |
//! |---|---|---|---|
//! | -24-B | B | body: `[ttl u32] value key [crc u32]` | client |
//! | -24 | 16 | key hash, low word then high word | client |
//! | -8 | 8 | commit word | client, last |
//!
//! **Commit word**, little-endian:
//!
//! | bits | field |
//! |---|---|
//! | 0-31 | seq: use count of this slot, from 1 at connection |
//! | 32-41 | value_len, bytes (ops with a value in the slot) |
//! | 42-45 | reserved, 0 |
//! | 46 | conditional: `Retry` if a request of this client up to a window before it was answered `Bulk`, or `Retry` for this reason |
//! | 47 | a CRC-32C of value, key, hash and commit word (attempt = 0) ends the body |
//! | 48-55 | key_len, bytes (0: the hash is the key) |
//! | 56-59 | op |
//! | 60-62 | attempt: 0, then counts retransmissions modulo 8 |
//! | 63 | 1 |
//!
//! The server never writes a slot: a request is new if its commit word differs from the last one taken from
//! that slot, which the server keeps in private memory. No zeroing race, no line bounced back. *(our choice;
//! the paper zeroes the slot)*
//!
//! **Bodies of the bulk ops** (value_len = 12): `chunk u32, len u32, crc32c-of-value u32`, see [`Bulk`].
//!
//! **Reply**: the payload is the value alone (GET hit), or nothing; the immediate says the rest:
//!
//! | bits | field |
//! |---|---|
//! | 0-19 | seq, low 20 bits |
//! | 20-27 | slot index within the partition's window |
//! | 28-31 | status |
//!
//! A payload is never longer than [`SlotMap::body_bytes_max`] of the client it goes to; longer values are
//! answered `Bulk`. So RECVs of 40 + `body_bytes_max` bytes hold every reply.
//!
//! Status travels in the immediate because two more payload bytes would cost a write-combined line at the
//! sizes that matter `[A16]`.

use drover_base::KeyHash;

/// Smallest slot: one cache line.
pub const SLOT_BYTES_MIN: usize = 64;
/// Largest slot, the paper's `[HERD §4.3]`.
pub const SLOT_BYTES_MAX: usize = 1024;
/// Commit word and key hash.
pub const TRAILER_BYTES: usize = 24;
/// Largest body of any slot.
pub const BODY_BYTES_MAX: usize = SLOT_BYTES_MAX - TRAILER_BYTES;
/// Most slots per (client, partition): what the reply's slot field can name.
pub const WINDOW_MAX: usize = 256;

/// What a request asks for (bits 56-59 of the commit word).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SlotOp {
    /// GET.
    Get = 1,
    /// PUT, never expires.
    Put = 2,
    /// DELETE.
    Delete = 3,
    /// PUT with a time to live: the body starts with its seconds, u32.
    PutTtl = 4,
    /// Nothing: answered OK (probe).
    Nop = 5,
    /// PUT of a value that the client has written into its bulk chunk; ttl as in `PutTtl` first.
    PutBulk = 6,
    /// GET into a bulk chunk of the client.
    GetBulk = 7,
}

impl SlotOp {
    /// The op of bits 56-59; `None` for bytes no client of ours writes.
    #[inline]
    pub fn from_bits(bits: u64) -> Option<SlotOp> {
        Some(match bits & 0xf {
            1 => SlotOp::Get,
            2 => SlotOp::Put,
            3 => SlotOp::Delete,
            4 => SlotOp::PutTtl,
            5 => SlotOp::Nop,
            6 => SlotOp::PutBulk,
            7 => SlotOp::GetBulk,
            _ => return None,
        })
    }

    /// Whether the body starts with a u32 of seconds.
    #[inline]
    pub fn has_ttl(self) -> bool {
        matches!(self, SlotOp::PutTtl | SlotOp::PutBulk)
    }
}

/// The commit word of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Commit(pub u64);

impl Commit {
    const CRC_BIT: u64 = 1 << 47;
    const CONDITION_BIT: u64 = 1 << 46;
    const VALID_BIT: u64 = 1 << 63;
    const ATTEMPT_SHIFT: u32 = 60;

    /// A first attempt.
    #[inline]
    pub fn new(op: SlotOp, seq: u32, key_len: usize, value_len: usize, crc: bool) -> Commit {
        debug_assert!(key_len <= 255 && value_len <= BODY_BYTES_MAX);
        let crc = if crc { Commit::CRC_BIT } else { 0 };
        let lens = (value_len as u64) << 32 | (key_len as u64) << 48;
        Commit(Commit::VALID_BIT | (op as u64) << 56 | lens | crc | u64::from(seq))
    }

    /// The same request, sent for the `attempt`th time (from 0).
    #[inline]
    pub fn with_attempt(self, attempt: u32) -> Commit {
        Commit(self.0 & !(7 << Commit::ATTEMPT_SHIFT) | u64::from(attempt & 7) << Commit::ATTEMPT_SHIFT)
    }

    /// The same request, to be executed only if no GET that it was posted behind turned out to be of a long value.
    #[inline]
    pub fn with_condition(self, conditional: bool) -> Commit {
        Commit(self.0 & !Commit::CONDITION_BIT | u64::from(conditional) << 46)
    }

    /// Whether the operation is an update: neither a GET nor a Nop.
    #[inline(always)]
    pub fn is_update(self) -> bool {
        const READS: u32 = 1 << SlotOp::Get as u32 | 1 << SlotOp::GetBulk as u32 | 1 << SlotOp::Nop as u32;
        READS >> (self.0 >> 56 & 0xf) & 1 == 0
    }

    /// Whether it is to be executed only under that condition.
    #[inline]
    pub fn is_conditional(self) -> bool {
        self.0 & Commit::CONDITION_BIT != 0
    }

    /// Set in every request ever written.
    #[inline]
    pub fn is_valid(self) -> bool {
        self.0 & Commit::VALID_BIT != 0
    }

    /// What is asked for.
    #[inline]
    pub fn op(self) -> Option<SlotOp> {
        SlotOp::from_bits(self.0 >> 56)
    }

    /// Use count of the slot.
    #[inline]
    pub fn seq(self) -> u32 {
        self.0 as u32
    }

    /// Bytes of value.
    #[inline]
    pub fn value_len(self) -> usize {
        (self.0 >> 32) as usize & 0x3ff
    }

    /// Bytes of key.
    #[inline]
    pub fn key_len(self) -> usize {
        (self.0 >> 48) as usize & 0xff
    }

    /// Whether the body ends with a checksum.
    #[inline]
    pub fn has_crc(self) -> bool {
        self.0 & Commit::CRC_BIT != 0
    }

    /// Bytes of body, from what the word itself says.
    #[inline]
    pub fn body_len(self) -> usize {
        let ttl = if self.op().is_some_and(SlotOp::has_ttl) {
            4
        } else {
            0
        };
        let crc = if self.has_crc() { 4 } else { 0 };
        ttl + self.value_len() + self.key_len() + crc
    }
}

/// The checksum that ends a body: CRC-32C of the body before it (`[ttl] value key`), the key hash as it
/// travels, and the commit word with attempt 0, so that a retransmission has the same one.
#[inline]
pub fn request_crc(body: &[u8], hash: KeyHash, commit: Commit) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(body), &hash.to_bytes());
    crc32c::crc32c_append(crc, &commit.with_attempt(0).0.to_le_bytes())
}

/// `value_len` bytes of the bulk ops: which chunk of the client's bulk memory, how long, checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bulk {
    /// Chunk index in the client's bulk region.
    pub chunk: u32,
    /// Bytes of value (`PutBulk`), or space in the chunk (`GetBulk`).
    pub len: u32,
    /// CRC-32C of the value (`PutBulk`), 0 (`GetBulk`).
    pub crc: u32,
}

/// Bytes of [`Bulk`]; the reply to `GetBulk` has the same 12 bytes with the value's length and checksum.
pub const BULK_BYTES: usize = 12;

impl Bulk {
    /// As it travels.
    pub fn to_bytes(self) -> [u8; BULK_BYTES] {
        let mut out = [0; BULK_BYTES];
        out[..4].copy_from_slice(&self.chunk.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// The inverse.
    pub fn from_bytes(bytes: &[u8; BULK_BYTES]) -> Bulk {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Bulk {
            chunk: word(0),
            len: word(4),
            crc: word(8),
        }
    }
}

/// What the server says of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done; a GET's value is the payload.
    Ok = 0,
    /// No such key.
    NotFound = 1,
    /// Over the item limit.
    TooLarge = 2,
    /// Another partition owns this key.
    WrongPartition = 3,
    /// The request makes no sense.
    BadRequest = 4,
    /// Store mode: no space.
    Full = 5,
    /// The server lost its memory of this slot: resynchronise.
    StaleEpoch = 6,
    /// Nothing happened; send it again.
    Retry = 7,
    /// The value is too long for a reply: payload = its length, u32; ask again with `GetBulk`.
    Bulk = 8,
}

impl Status {
    /// The status of bits 28-31; `None` for bytes no server of ours sends.
    #[inline]
    pub fn from_bits(bits: u32) -> Option<Status> {
        Some(match bits & 0xf {
            0 => Status::Ok,
            1 => Status::NotFound,
            2 => Status::TooLarge,
            3 => Status::WrongPartition,
            4 => Status::BadRequest,
            5 => Status::Full,
            6 => Status::StaleEpoch,
            7 => Status::Retry,
            8 => Status::Bulk,
            _ => return None,
        })
    }
}

/// The immediate of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyImm(pub u32);

impl ReplyImm {
    /// Bits of seq that travel back.
    pub const SEQ_MASK: u32 = (1 << 20) - 1;

    /// Packs.
    #[inline]
    pub fn new(status: Status, slot_index: usize, seq: u32) -> ReplyImm {
        debug_assert!(slot_index < WINDOW_MAX);
        ReplyImm((status as u32) << 28 | (slot_index as u32) << 20 | seq & ReplyImm::SEQ_MASK)
    }

    /// The status.
    #[inline]
    pub fn status(self) -> Option<Status> {
        Status::from_bits(self.0 >> 28)
    }

    /// The slot within the partition's window.
    #[inline]
    pub fn slot_index(self) -> usize {
        (self.0 >> 20) as usize & 0xff
    }

    /// Low bits of the request's seq.
    #[inline]
    pub fn seq_low(self) -> u32 {
        self.0 & ReplyImm::SEQ_MASK
    }
}

/// The geometry of one client's slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotMap {
    /// Bytes per slot: a multiple of 64 in 64..=1024.
    pub slot_bytes: usize,
    /// Slots per partition, a power of two up to [`WINDOW_MAX`].
    pub window: usize,
    /// Partitions.
    pub partition_count: usize,
}

impl SlotMap {
    /// Whether the numbers are ones we serve (they may come from a peer).
    pub fn is_valid(&self) -> bool {
        self.slot_bytes.is_multiple_of(64)
            && (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&self.slot_bytes)
            && self.window.is_power_of_two()
            && self.window <= WINDOW_MAX
            && (1..=1 << 16).contains(&self.partition_count)
    }

    /// Bytes of the whole region.
    pub fn region_bytes(&self) -> usize {
        self.partition_count * self.window * self.slot_bytes
    }

    /// Where the slot starts.
    #[inline]
    pub fn slot_offset(&self, partition_index: usize, slot_index: usize) -> usize {
        (partition_index * self.window + slot_index) * self.slot_bytes
    }

    /// Where its commit word is.
    #[inline]
    pub fn commit_offset(&self, partition_index: usize, slot_index: usize) -> usize {
        self.slot_offset(partition_index, slot_index) + self.slot_bytes - 8
    }

    /// Longest body of a slot of this size, and longest payload of a reply to this client.
    #[inline]
    pub fn body_bytes_max(&self) -> usize {
        self.slot_bytes - TRAILER_BYTES
    }
}

const _: () = assert!(SLOT_BYTES_MAX - TRAILER_BYTES == 1000 && WINDOW_MAX - 1 == 0xff);
