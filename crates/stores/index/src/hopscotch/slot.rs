//! [`Slot`]: an entry of the table that holds its key's value or a reference to it.
//!
//! | offset | size, wide | size, narrow | field | meaning |
//! |---|---|---|---|---|
//! | 0 | 8 | 8 | header | bit 0 locked; 1-15 incarnation of the object; 16-63 version of the slot |
//! | 8 | 4 | 4 | link | bits 0-23 overflow block of this home, 0 = none; 24-31 length of the value or kind of content |
//! | 12 | 16 | 8 | key | the hash of the key; narrow: its upper half |
//! | 28 / 20 | 32 | 8 | value | inline value, or bits 0-23 length of the object, 24-63 its offset / 8 |
//! | 60 / 28 | 4 | 4 | tail | lower half of the version |
//!
//! Little-endian; 64 bytes or 32, aligned, so none straddles a line. The owner writes in this order: tail of the next
//! version, locked header, the middle, header. A reader that copies word by word in ascending order reads the header
//! first and the tail last; a reader that takes a line at once has both from one instant. In both cases equal and
//! unlocked means whole.
//!
//! *(Hash and value or pointer in a slot: stated in `[HERD §5.1]`; version, lock, incarnation: from the literature on
//! `[FaRM]`; tail and order: our choice, because over shared memory a line is copied by words.)*

use crate::TableMemory;
use drover_base::KeyHash;

/// Longest value that fits inside a wide slot, bytes.
pub const INLINE_BYTES_MAX: usize = 32;

/// Highest number of an overflow block.
pub(super) const LINK_MAX: u32 = (1 << 24) - 1;

const FREE: u8 = 0xff;
const OBJECT: u8 = 0xfe;

/// Size of a table's slots, and with it whether slots can hold values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// 64 bytes: small values inside, others outside the table.
    Wide,
    /// 32 bytes: all values outside the table.
    Narrow,
}

impl SlotKind {
    /// Bytes of a slot.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            SlotKind::Wide => 64,
            SlotKind::Narrow => 32,
        }
    }

    const fn key_bytes(self) -> usize {
        match self {
            SlotKind::Wide => 16,
            SlotKind::Narrow => 8,
        }
    }

    const fn value_at(self) -> usize {
        12 + self.key_bytes()
    }

    const fn tail_at(self) -> usize {
        self.bytes() - 4
    }

    /// The part of `hash` that a slot stores.
    fn key_of(self, hash: KeyHash) -> [u8; 16] {
        match self {
            SlotKind::Wide => hash.to_bytes(),
            SlotKind::Narrow => (u128::from(hash.high)).to_le_bytes(),
        }
    }
}

/// Location of the object that holds a key's value outside the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectRef {
    /// Offset of the object from the start of the objects' memory, bytes; a multiple of 8 below 2^43.
    pub offset: u64,
    /// Length of the object in memory, bytes to READ; below 2^24.
    pub len: u32,
    /// Number that distinguishes the object from earlier ones at this address; 15 bits.
    pub incarnation: u16,
}

/// Content of a slot in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// The value: at most [`INLINE_BYTES_MAX`] bytes, in a wide slot.
    Inline(&'a [u8]),
    /// The location of the value's object.
    Object(ObjectRef),
}

/// A decoded copy of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    kind: SlotKind,
    /// Number of times that the slot was written, for any reason, the initial write as a free slot included; 48 bits.
    pub version: u64,
    /// Number, counted from 1, of the next overflow block in a chain; 0 = none. Only the first slot of a home's
    /// neighbourhood, or of an overflow block, has a link.
    pub link: u32,
    what: u8,
    incarnation: u16,
    key: [u8; 16],
    value: [u8; INLINE_BYTES_MAX],
}

/// The bytes are not a whole slot: it was being written, or was never written, or its content is of no known kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the slot was being written")]
pub struct TornSlot;

impl Slot {
    pub(super) fn free(kind: SlotKind) -> Slot {
        Slot {
            kind,
            version: 0,
            link: 0,
            what: FREE,
            incarnation: 0,
            key: [0; 16],
            value: [0; INLINE_BYTES_MAX],
        }
    }

    /// Copies the content of another slot; keeps its own link and version.
    pub(super) fn fill_from(&mut self, other: &Slot) {
        let (version, link) = (self.version, self.link);
        *self = Slot {
            version,
            link,
            ..*other
        };
    }

    pub(super) fn fill(&mut self, hash: KeyHash, content: Content<'_>) {
        let mut filled = Slot::free(self.kind);
        filled.key = self.kind.key_of(hash);
        match content {
            Content::Inline(value) => {
                assert!(self.kind == SlotKind::Wide, "narrow slots hold no values");
                filled.what = value.len() as u8;
                filled.value[..value.len()].copy_from_slice(value);
            }
            Content::Object(object) => {
                assert!(object.offset.is_multiple_of(8) && object.offset < 8 << 40 && object.len < 1 << 24);
                let word = u64::from(object.len) | (object.offset / 8) << 24;
                filled.what = OBJECT;
                filled.incarnation = object.incarnation & 0x7fff;
                filled.value[..8].copy_from_slice(&word.to_le_bytes());
            }
        }
        self.fill_from(&filled);
    }

    /// Whether the slot encoded in `bytes` may be of the key with `hash`. If not, it is of another key, or free, or
    /// torn: a quick check before it is [opened](Slot::open).
    ///
    /// # Panics
    /// If `bytes` is shorter than the slot's key field: 28 bytes of a wide slot, 20 of a narrow one, are enough.
    #[inline]
    pub fn may_be_of(kind: SlotKind, bytes: &[u8], hash: KeyHash) -> bool {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        match kind {
            SlotKind::Wide => word(12) == hash.low && word(20) == hash.high,
            SlotKind::Narrow => word(12) == hash.high,
        }
    }

    /// Decodes the bytes of a slot.
    ///
    /// # Errors
    /// [`TornSlot`] if the bytes are not a whole version of a slot.
    ///
    /// # Panics
    /// If `bytes` is not as long as a slot of `kind`.
    #[inline]
    pub fn open(kind: SlotKind, bytes: &[u8]) -> Result<Slot, TornSlot> {
        assert_eq!(bytes.len(), kind.bytes(), "the bytes of a slot");
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let header = u64::from(word(0)) | u64::from(word(4)) << 32;
        let version = header >> 16;
        // Version 0 means unwritten memory.
        if header & 1 == 1 || version == 0 || word(kind.tail_at()) != version as u32 {
            return Err(TornSlot);
        }
        let what = bytes[11];
        let is_known = what == FREE || what == OBJECT || usize::from(what) <= INLINE_BYTES_MAX;
        if !is_known {
            return Err(TornSlot);
        }
        let mut slot = Slot {
            version,
            link: word(8) & LINK_MAX,
            what,
            incarnation: (header >> 1) as u16 & 0x7fff,
            ..Slot::free(kind)
        };
        // Lengths that the compiler knows make moves of registers.
        match kind {
            SlotKind::Wide => {
                slot.key.copy_from_slice(&bytes[12..28]);
                slot.value.copy_from_slice(&bytes[28..60]);
            }
            SlotKind::Narrow => {
                slot.key[..8].copy_from_slice(&bytes[12..20]);
                slot.value[..8].copy_from_slice(&bytes[20..28]);
            }
        }
        Ok(slot)
    }

    /// Writes it to `offset` as its next version, in the order that readers rely on.
    pub(super) fn write(&mut self, memory: &mut impl TableMemory, offset: usize) {
        let kind = self.kind;
        self.version += 1;
        let header = self.version << 16 | u64::from(self.incarnation) << 1;
        let mut middle = [0; 52];
        middle[..4].copy_from_slice(&(self.link | u32::from(self.what) << 24).to_le_bytes());
        middle[4..4 + kind.key_bytes()].copy_from_slice(&self.key[..kind.key_bytes()]);
        let value = kind.value_at() - 8..kind.tail_at() - 8;
        let value_bytes = value.len();
        middle[value].copy_from_slice(&self.value[..value_bytes]);
        memory.store(offset + kind.tail_at(), &(self.version as u32).to_le_bytes());
        memory.store(offset, &(header | 1).to_le_bytes());
        memory.store(offset + 8, &middle[..kind.tail_at() - 8]);
        memory.store(offset, &header.to_le_bytes());
    }

    /// Whether the slot is free.
    pub fn is_free(&self) -> bool {
        self.what == FREE
    }

    /// Whether the slot is in use by the key with `hash`. Narrow slots store only half of the hash, so compare the key
    /// in the object, too.
    #[inline]
    pub fn is_of(&self, hash: KeyHash) -> bool {
        !self.is_free() && self.key == self.kind.key_of(hash)
    }

    /// The value or its location; `None` if the slot is free.
    #[inline]
    pub fn content(&self) -> Option<Content<'_>> {
        match self.what {
            FREE => None,
            OBJECT => {
                let word = u64::from_le_bytes(*self.value.first_chunk().expect("8 bytes"));
                Some(Content::Object(ObjectRef {
                    offset: (word >> 24) * 8,
                    len: word as u32 & 0xff_ffff,
                    incarnation: self.incarnation,
                }))
            }
            len => Some(Content::Inline(&self.value[..usize::from(len)])),
        }
    }
}
