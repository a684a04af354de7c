//! The bytes of request slots and of replies.
//!
//! **A client's slots.** Each client has its own region at the server (and access to nothing else), with
//! `partition_count * window` slots of `slot_bytes` (64..=1024, a multiple of 64):
//!
//! ```text
//! slot of request r to partition s  =  (s * window + r mod window) * slot_bytes        [HERD §4.3]
//! ```
//! The paper keeps the slots of all clients in one region, `s * (W * NC) + c * W + r mod W`; ours is the same formula
//! with one client per region, so that access rights can be per client. *(our choice)*
//!
//! **A request** is right-aligned, because the word at the highest address lands last. Offsets from the slot's end:
//!
//! | from | size | field | written by |
//! |---|---|---|---|
//! | -24-B | B | body: `[extension] [ttl u32] value key [crc u32]` | client |
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
//! | 46 | conditional: refused with `Retry` if a GET of this client less than a window before was answered `Bulk` or deferred with `Retry`, or a conditional request less than a window before was itself refused |
//! | 47 | a CRC-32C of value, key, hash and commit word (attempt = 0) ends the body |
//! | 48-55 | key_len, bytes (0: the hash is the key) |
//! | 56-59 | op |
//! | 60-62 | attempt: 0, then counts retransmissions modulo 8 |
//! | 63 | 1 |
//!
//! The server never writes a slot: a request is new if its commit word differs from the last one taken from that
//! slot, which the server keeps in private memory. So there is no race about zeroing, and no cache line moves back.
//! *(our choice; the paper zeroes the slot)*
//!
//! **Bodies of the bulk ops** (value_len = 12): `chunk u32, len u32, crc32c-of-value u32`, see [`Bulk`].
//!
//! **Extended ops** are numbered 8 above those that they extend, which keep their encoding. An update's body begins with an
//! [`Extension`](drover_kv::Extension): flags and condition. A GET's reply begins with an [`ItemInfo`], version and flags, if
//! it has the value or its place. The shortest slots have no space for the extension of most PUTs. *(our choice: see
//! `docs/decisions/0035`)*
//!
//! **Reply**: the payload is the value alone (hit), a [`Bulk`] or the length of a long value (`Bulk`), an epoch (`Elsewhere`), or nothing; the
//! immediate has the rest:
//!
//! | bits | field |
//! |---|---|
//! | 0-19 | seq, low 20 bits |
//! | 20-27 | slot index within the partition's window |
//! | 28-31 | status |
//!
//! A payload is never longer than [`SlotMap::body_bytes_max`] of the client it goes to; longer values are
//! answered `Bulk`. So RECVs of 40 (GRH) + `body_bytes_max` bytes hold every reply.
//!
//! Status travels in the immediate because two more payload bytes would cost a write-combined line at the
//! sizes that matter `[A16]`.

use drover_base::{KeyHash, crc32c, crc32c_append};
use drover_kv::EXTENSION_BYTES;

pub use drover_kv::{ITEM_INFO_BYTES, ItemInfo};

/// Smallest slot, bytes: one cache line.
pub const SLOT_BYTES_MIN: usize = 64;
/// Largest slot, bytes: the size of a slot in HERD's paper `[HERD §4.3]`.
pub const SLOT_BYTES_MAX: usize = 1024;
/// Bytes of a request after its body: key hash and commit word.
pub const TRAILER_BYTES: usize = 24;
/// Longest body of a request in the largest slot, bytes.
pub const BODY_BYTES_MAX: usize = SLOT_BYTES_MAX - TRAILER_BYTES;
/// Most slots per client and partition: the slot field of a reply has 8 bits.
pub const WINDOW_MAX: usize = 256;

/// Operation of a request (bits 56-59 of the commit word).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SlotOp {
    /// GET; a value too long for a reply is answered [`Status::Bulk`].
    Get = 1,
    /// PUT of an item that never expires.
    Put = 2,
    /// DELETE of a key.
    Delete = 3,
    /// PUT with a time to live: the body starts with it (u32, seconds; 0: unlimited).
    PutTtl = 4,
    /// Probe: touches no item, and belongs to no partition. If it is executed, the answer is [`Status::Ok`].
    Nop = 5,
    /// PUT of a value that the client has written into a chunk of its bulk memory, which is at the server. The body
    /// starts with a time to live (u32, seconds; 0: unlimited), and a [`Bulk`] is in place of the value.
    PutBulk = 6,
    /// GET for which the server copies the value into a chunk of the client's bulk memory, which is at the server; the
    /// client READs it from there after the reply; a short one is in the reply. A [`Bulk`] is in place of the value.
    GetBulk = 7,
    /// Sets the time to live of a key's item, with which the body starts (u32, seconds; 0: unlimited).
    Touch = 8,
    /// As `Get`; a reply with a value begins with an [`ItemInfo`].
    GetExt = 9,
    /// As `PutTtl`, behind an extension.
    PutExt = 10,
    /// As `Delete`, behind an extension.
    DeleteExt = 11,
    /// As `PutBulk`, behind an extension.
    PutBulkExt = 14,
    /// As `GetBulk`; a reply with a value or a [`Bulk`] begins with an [`ItemInfo`].
    GetBulkExt = 15,
}

impl SlotOp {
    /// The operation with the number in the four lowest bits of `bits`; `None` if no operation has it.
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
            8 => SlotOp::Touch,
            9 => SlotOp::GetExt,
            10 => SlotOp::PutExt,
            11 => SlotOp::DeleteExt,
            14 => SlotOp::PutBulkExt,
            15 => SlotOp::GetBulkExt,
            _ => return None,
        })
    }

    /// Whether the body of such a request has a time to live (u32, seconds) before the value.
    #[inline]
    pub fn has_ttl(self) -> bool {
        const HAVE: u32 = 1 << SlotOp::PutTtl as u32
            | 1 << SlotOp::PutBulk as u32
            | 1 << SlotOp::Touch as u32
            | 1 << SlotOp::PutExt as u32
            | 1 << SlotOp::PutBulkExt as u32;
        HAVE >> self as u32 & 1 != 0
    }

    /// Whether the body of such a request starts with an [`Extension`](drover_kv::Extension).
    #[inline]
    pub fn has_extension(self) -> bool {
        matches!(self, SlotOp::PutExt | SlotOp::DeleteExt | SlotOp::PutBulkExt)
    }

    /// Bytes of the body before the value.
    #[inline]
    pub fn lead_bytes(self) -> usize {
        let ttl = if self.has_ttl() { 4 } else { 0 };
        let extension = if self.has_extension() { EXTENSION_BYTES } else { 0 };
        extension + ttl
    }

    /// The operation that this one extends, or itself; `PutTtl` counts as extended by `PutExt`.
    #[inline]
    pub fn base(self) -> SlotOp {
        match self {
            SlotOp::GetExt => SlotOp::Get,
            SlotOp::PutExt => SlotOp::PutTtl,
            SlotOp::DeleteExt => SlotOp::Delete,
            SlotOp::PutBulkExt => SlotOp::PutBulk,
            SlotOp::GetBulkExt => SlotOp::GetBulk,
            plain => plain,
        }
    }

    /// Whether it is an operation on a value in a chunk of bulk memory.
    #[inline]
    pub fn is_bulk(self) -> bool {
        matches!(self.base(), SlotOp::PutBulk | SlotOp::GetBulk)
    }
}

/// The commit word of a request: the last 8 bytes of its slot, which describe it and show that it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Commit(pub u64);

impl Commit {
    const CRC_BIT: u64 = 1 << 47;
    const CONDITION_BIT: u64 = 1 << 46;
    const VALID_BIT: u64 = 1 << 63;
    const ATTEMPT_SHIFT: u32 = 60;

    /// The commit word of a first attempt, without condition. `value_len` is the length of the value in the slot, at
    /// most 1000 bytes; `key_len` is at most 255 bytes (servers refuse more than 250); `crc`: whether the body ends
    /// with a checksum. Longer lengths panic in debug builds only; otherwise they spoil other fields.
    #[inline]
    pub fn new(op: SlotOp, seq: u32, key_len: usize, value_len: usize, crc: bool) -> Commit {
        debug_assert!(key_len <= 255 && value_len <= BODY_BYTES_MAX);
        let crc = if crc { Commit::CRC_BIT } else { 0 };
        let lens = (value_len as u64) << 32 | (key_len as u64) << 48;
        Commit(Commit::VALID_BIT | (op as u64) << 56 | lens | crc | u64::from(seq))
    }

    /// The same commit word with attempt number `attempt`, modulo 8; the first attempt is 0.
    #[inline]
    pub fn with_attempt(self, attempt: u32) -> Commit {
        Commit(self.0 & !(7 << Commit::ATTEMPT_SHIFT) | u64::from(attempt & 7) << Commit::ATTEMPT_SHIFT)
    }

    /// The same commit word with the condition set or cleared. The server refuses a conditional request with
    /// [`Status::Retry`] if, less than a window before it, a GET of the same client to the same partition was answered
    /// `Bulk` or `Retry`, or another conditional request was refused: see [`Hold`](crate::server::Hold).
    #[inline]
    pub fn with_condition(self, conditional: bool) -> Commit {
        Commit(self.0 & !Commit::CONDITION_BIT | u64::from(conditional) << 46)
    }

    /// Whether the operation is an update: any but `Nop` and those that get a value. An unknown operation counts as one.
    #[inline(always)]
    pub fn is_update(self) -> bool {
        const READS: u32 = 1 << SlotOp::Get as u32
            | 1 << SlotOp::GetBulk as u32
            | 1 << SlotOp::GetExt as u32
            | 1 << SlotOp::GetBulkExt as u32
            | 1 << SlotOp::Nop as u32;
        READS >> (self.0 >> 56 & 0xf) & 1 == 0
    }

    /// Whether the [condition](Commit::with_condition) is set.
    #[inline]
    pub fn is_conditional(self) -> bool {
        self.0 & Commit::CONDITION_BIT != 0
    }

    /// Whether the valid bit is set, as in every request; a slot that was never written has no valid commit word.
    #[inline]
    pub fn is_valid(self) -> bool {
        self.0 & Commit::VALID_BIT != 0
    }

    /// The operation; `None` if its number is unknown.
    #[inline]
    pub fn op(self) -> Option<SlotOp> {
        SlotOp::from_bits(self.0 >> 56)
    }

    /// Number of this use of the slot, from 1, modulo 2^32.
    #[inline]
    pub fn seq(self) -> u32 {
        self.0 as u32
    }

    /// Length of the value in the slot, bytes; of a bulk op, the length of its [`Bulk`]. A malformed word has up to
    /// 1023.
    #[inline]
    pub fn value_len(self) -> usize {
        (self.0 >> 32) as usize & 0x3ff
    }

    /// Length of the key, bytes; 0: the hash is the key. A malformed word has up to 255.
    #[inline]
    pub fn key_len(self) -> usize {
        (self.0 >> 48) as usize & 0xff
    }

    /// Whether the body ends with a checksum.
    #[inline]
    pub fn has_crc(self) -> bool {
        self.0 & Commit::CRC_BIT != 0
    }

    /// Length of the body in bytes, as computed from this word: extension, ttl, value, key and checksum.
    #[inline]
    pub fn body_len(self) -> usize {
        let lead = self.op().map_or(0, SlotOp::lead_bytes);
        let crc = if self.has_crc() { 4 } else { 0 };
        lead + self.value_len() + self.key_len() + crc
    }
}

/// The checksum that ends a body: CRC-32C of the body before it (`[extension] [ttl] value key`), the key hash as it
/// travels, and the commit word with attempt 0, so that a retransmission has the same one.
#[inline]
pub fn request_crc(body: &[u8], hash: KeyHash, commit: Commit) -> u32 {
    let mut rest = [0; 24];
    rest[..16].copy_from_slice(&hash.to_bytes());
    rest[16..].copy_from_slice(&commit.with_attempt(0).0.to_le_bytes());
    crc32c_append(crc32c(body), &rest)
}

/// Description of a long value in a chunk of the client's bulk memory: the value field of a `PutBulk` or `GetBulk`
/// request, and the payload of the reply to a `GetBulk`. Bulk memory is memory at the server, divided into chunks,
/// which one client READs and WRITEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bulk {
    /// Index of the chunk in the client's bulk memory.
    pub chunk: u32,
    /// `PutBulk`, and reply to `GetBulk`: length of the value, bytes. `GetBulk`: space in the chunk, bytes; servers do
    /// not read it.
    pub len: u32,
    /// `PutBulk`, and reply to `GetBulk`: CRC-32C of the value. `GetBulk`: 0.
    pub crc: u32,
}

/// Bytes of an encoded [`Bulk`].
pub const BULK_BYTES: usize = 12;

impl Bulk {
    /// Encodes the description: chunk, length and checksum, each little-endian.
    pub fn to_bytes(self) -> [u8; BULK_BYTES] {
        let mut out = [0; BULK_BYTES];
        out[..4].copy_from_slice(&self.chunk.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// Decodes a description, the inverse of [`to_bytes`](Bulk::to_bytes). The fields are not checked.
    pub fn from_bytes(bytes: &[u8; BULK_BYTES]) -> Bulk {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Bulk {
            chunk: word(0),
            len: word(4),
            crc: word(8),
        }
    }
}

/// Result of a request, in the immediate of its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done. The payload is the value (GET and `GetBulk`), or empty (all others).
    Ok = 0,
    /// No item with this key. For a PUT: its condition required one.
    NotFound = 1,
    /// PUT: the item exceeds the server's limit.
    TooLarge = 2,
    /// Another partition owns this key. Nothing happened.
    WrongPartition = 3,
    /// The request is malformed, breaks a rule of the server (a key or checksum is required), or names a chunk that the
    /// client does not have. Nothing happened.
    BadRequest = 4,
    /// PUT: the server has no space, and does not evict items (store mode).
    Full = 5,
    /// The server does not know whether it executed this request, because its worker was restarted. In a
    /// [`Judgement`](crate::server::Judgement) also: the request was not taken.
    StaleEpoch = 6,
    /// Nothing happened; the client submits the operation again, as a new request.
    Retry = 7,
    /// GET: the value is too long for a reply. The payload is its length (u32); the client asks again with `GetBulk`.
    /// `GetBulk`: the value is in the chunk, and the payload is a [`Bulk`]; or it is longer than the chunk, and the payload
    /// is its length.
    Bulk = 8,
    /// PUT or DELETE: there is an item with this key, and the condition required none, or another version.
    Exists = 9,
    /// The server is a member of a service of several, and does not serve the key now. Nothing happened. The payload is the epoch
    /// of its map (`u64`).
    Elsewhere = 10,
}

impl Status {
    /// The status with the number in the four lowest bits of `bits`; `None` if no status has it.
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
            9 => Status::Exists,
            10 => Status::Elsewhere,
            _ => return None,
        })
    }
}

/// The immediate data of a reply: status, slot index and the low 20 bits of seq.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyImm(pub u32);

impl ReplyImm {
    /// Mask of the bits of seq that a reply carries.
    pub const SEQ_MASK: u32 = (1 << 20) - 1;

    /// Packs the fields of a reply; of `seq`, the low 20 bits. `slot_index` is less than [`WINDOW_MAX`], which is
    /// checked in debug builds only.
    #[inline]
    pub fn new(status: Status, slot_index: usize, seq: u32) -> ReplyImm {
        debug_assert!(slot_index < WINDOW_MAX);
        ReplyImm((status as u32) << 28 | (slot_index as u32) << 20 | seq & ReplyImm::SEQ_MASK)
    }

    /// The status; `None` if its number is unknown.
    #[inline]
    pub fn status(self) -> Option<Status> {
        Status::from_bits(self.0 >> 28)
    }

    /// Index of the request's slot within the partition's window.
    #[inline]
    pub fn slot_index(self) -> usize {
        (self.0 >> 20) as usize & 0xff
    }

    /// The low 20 bits of the request's seq.
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
    /// Number of the server's partitions, 1 to 65536.
    pub partition_count: usize,
}

impl SlotMap {
    /// Whether all three fields are in the ranges that their docs state. For numbers that came from a peer: nothing
    /// else checks them.
    pub fn is_valid(&self) -> bool {
        self.slot_bytes.is_multiple_of(64)
            && (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&self.slot_bytes)
            && self.window.is_power_of_two()
            && self.window <= WINDOW_MAX
            && (1..=1 << 16).contains(&self.partition_count)
    }

    /// Bytes of all slots of the client, those of all partitions.
    pub fn region_bytes(&self) -> usize {
        self.partition_count * self.window * self.slot_bytes
    }

    /// Offset of a slot in the client's region, bytes.
    #[inline]
    pub fn slot_offset(&self, partition_index: usize, slot_index: usize) -> usize {
        (partition_index * self.window + slot_index) * self.slot_bytes
    }

    /// Offset of a slot's commit word in the client's region, bytes.
    #[inline]
    pub fn commit_offset(&self, partition_index: usize, slot_index: usize) -> usize {
        self.slot_offset(partition_index, slot_index) + self.slot_bytes - 8
    }

    /// Longest body of a request in such a slot, and longest payload of a reply to this client, bytes.
    #[inline]
    pub fn body_bytes_max(&self) -> usize {
        self.slot_bytes - TRAILER_BYTES
    }
}

const _: () = assert!(SLOT_BYTES_MAX - TRAILER_BYTES == 1000 && WINDOW_MAX - 1 == 0xff);
