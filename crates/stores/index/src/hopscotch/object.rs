//! Objects: values outside the table, in lines that each carry a version.
//!
//! | line | offset | size | field | meaning |
//! |---|---|---|---|---|
//! | 0 | 0 | 8 | header | bit 0 locked; 1-15 incarnation; 16-63 version |
//! | 0 | 8 | 1 | key length | bytes |
//! | 0 | 9 | 3 | flags | bits 0-23 of the client's |
//! | 0 | 12 | 3 | value length | bytes |
//! | 0 | 15 | 1 | flags | bits 24-31 of the client's |
//! | 0 | 16 | 4 | expiry | in seconds of the owner's clock; 0 = never |
//! | 0 | 20 | 42 | | key, then value, continued in the next lines |
//! | every | 62 | 2 | line version | lower 16 bits of the version, or [`MARK`] while the line is written |
//!
//! Little-endian, 64-aligned, written by the owner. A card reads each line at one instant, but lines in any order. The
//! writer locks the header, marks every line, writes the data, gives every line its new version, and unlocks the header
//! with it. Without the marks a reader could see the header and all line versions of the old object with the data of
//! the new one. Line versions are at the *end* of lines, so that they are also valid where a line is copied in
//! ascending words.
//!
//! An object may be overwritten in place, or its memory reused for another one. Versions at one address MUST NOT repeat
//! during a READ, so the owner counts one version for all its objects. The incarnation identifies the object at an
//! address.
//!
//! **Wrap.** 65,535 versions at 100 ns each are 6.5 ms: a READ that took longer than [`READ_NS_MAX`] proves nothing and
//! is repeated. *(Versions per line: from the literature on `[FaRM]`; marks, position and bound: our choice.)*

use crate::TableMemory;
use drover_base::Ns;

/// Line version that every line of an object has while the object is being written.
pub const MARK: u16 = 0xffff;

/// Maximum duration of a READ after which equal versions still prove that the data is whole; a READ that took longer
/// proves nothing.
pub const READ_NS_MAX: Ns = Ns::from_ms(1);

const LINE: usize = 64;
const PAYLOAD: usize = LINE - 2;
const START_BYTES: usize = 20;

/// Bytes of an object's header (20 bytes), key and value, without the versions of its lines; limits on the size of
/// items refer to this number.
pub const fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    START_BYTES + key_bytes + value_bytes
}

/// Bytes that an object takes in memory: whole lines of 64 bytes; the last 2 of each line are its version.
pub const fn object_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    item_bytes(key_bytes, value_bytes).div_ceil(PAYLOAD) * LINE
}

/// The READ saw a concurrent write, or an object other than the requested one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the object was being written or is another one")]
pub struct TornObject;

/// The version after `version`; its lower 16 bits are never [`MARK`].
pub fn next_version(version: u64) -> u64 {
    let next = version + 1;
    if next as u16 == MARK { next + 1 } else { next }
}

/// Header of an object, without the lengths of key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectHead {
    /// Version that its owner gave the object; 48 bits, of which the lower 16 are never [`MARK`]: see [`next_version`].
    pub version: u64,
    /// Number that distinguishes the object from earlier ones at its address; 15 bits.
    pub incarnation: u16,
    /// Time at which the item expires, in seconds of the owner's clock; 0 = never.
    pub expire_s: u32,
    /// The client's flags.
    pub flags: u32,
}

/// The two words of an object's header that have the lengths of key and value, and the flags.
fn lengths_and_flags(key_bytes: usize, value_bytes: usize, flags: u32) -> [u32; 2] {
    [
        key_bytes as u32 & 0xff | flags << 8,
        value_bytes as u32 & 0xff_ffff | flags & 0xff00_0000,
    ]
}

/// The inverse of [`lengths_and_flags`].
fn split_lengths([first, second]: [u32; 2]) -> (usize, usize, u32) {
    let flags = first >> 8 | second & 0xff00_0000;
    ((first & 0xff) as usize, (second & 0xff_ffff) as usize, flags)
}

fn word_at(start: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]])
}

impl ObjectHead {
    /// Reads the header of the object at `offset`. For its owner: nothing is checked.
    pub fn load(memory: &impl TableMemory, offset: usize) -> ObjectHead {
        let mut start = [0; START_BYTES];
        memory.load(offset, &mut start);
        ObjectHead::decode(&start)
    }

    fn decode(start: &[u8; START_BYTES]) -> ObjectHead {
        let header = u64::from_le_bytes(*start.first_chunk().expect("8 bytes"));
        ObjectHead {
            version: header >> 16,
            incarnation: (header >> 1) as u16 & 0x7fff,
            expire_s: word_at(start, 16),
            flags: split_lengths([word_at(start, 8), word_at(start, 12)]).2,
        }
    }

    fn header(&self) -> u64 {
        self.version << 16 | u64::from(self.incarnation & 0x7fff) << 1
    }

    /// Whether the item is expired at second `now_s` of the owner's clock, that is from second `expire_s` on.
    pub fn is_expired(&self, now_s: u32) -> bool {
        self.expire_s != 0 && now_s >= self.expire_s
    }
}

/// Writes objects in the order that readers rely on; reuses its buffer.
#[derive(Debug, Default)]
pub struct ObjectWriter {
    payload: Vec<u8>,
}

impl ObjectWriter {
    /// Writes an object of `head`, `key` and `value` to `offset`, a multiple of 64, over the previous contents.
    /// `head.version` must be one that [`next_version`] returned; `key` has at most 255 bytes, `value` fewer than 16 MiB.
    pub fn write(
        &mut self,
        memory: &mut impl TableMemory,
        offset: usize,
        head: ObjectHead,
        key: &[u8],
        value: &[u8],
    ) {
        let (header, version) = (head.header(), head.version);
        let line_count = object_bytes(key.len(), value.len()) / LINE;
        memory.store(offset, &(header | 1).to_le_bytes());
        for line in 0..line_count {
            memory.store(offset + line * LINE + PAYLOAD, &MARK.to_le_bytes());
        }
        self.fill(head, key, value);
        memory.store(offset + 8, &self.payload[8..PAYLOAD.min(self.payload.len())]);
        for (line, payload) in self.payload.chunks(PAYLOAD).enumerate().skip(1) {
            memory.store(offset + line * LINE, payload);
        }
        for line in 0..line_count {
            memory.store(offset + line * LINE + PAYLOAD, &(version as u16).to_le_bytes());
        }
        memory.store(offset, &header.to_le_bytes());
    }

    fn fill(&mut self, head: ObjectHead, key: &[u8], value: &[u8]) {
        debug_assert!(
            key.len() <= 0xff && value.len() <= 0xff_ffff,
            "lengths fit their fields"
        );
        let [first, second] = lengths_and_flags(key.len(), value.len(), head.flags);
        self.payload.clear();
        self.payload.extend_from_slice(&[0; 8]);
        self.payload.extend_from_slice(&first.to_le_bytes());
        self.payload.extend_from_slice(&second.to_le_bytes());
        self.payload.extend_from_slice(&head.expire_s.to_le_bytes());
        self.payload.extend_from_slice(key);
        self.payload.extend_from_slice(value);
    }
}

/// A reader's copy of an object: header, key and value, without the line versions.
#[derive(Debug, Default)]
pub struct Object {
    payload: Vec<u8>,
    key_bytes: usize,
    head: ObjectHead,
}

impl Object {
    /// Replaces this copy with the object with `incarnation` that a READ fetched as `bytes`. Lengths are checked: they
    /// come from a peer.
    ///
    /// # Errors
    /// [`TornObject`] if the bytes are not a whole version of that object; then this copy is unchanged.
    pub fn open(&mut self, bytes: &[u8], incarnation: u16) -> Result<(), TornObject> {
        let (lines, rest) = bytes.as_chunks::<LINE>();
        let first = lines.first().filter(|_| rest.is_empty()).ok_or(TornObject)?;
        let head = ObjectHead::decode(first.first_chunk().expect("a line is longer"));
        let is_locked = first[0] & 1 == 1;
        let version = head.version as u16;
        let is_of = |line: &[u8; LINE]| *line.last_chunk::<2>().expect("2 bytes") == version.to_le_bytes();
        let is_whole = !is_locked && head.version != 0 && version != MARK && lines.iter().all(is_of);
        if !is_whole || head.incarnation != incarnation & 0x7fff {
            return Err(TornObject);
        }
        let (key_bytes, value_bytes, _) = split_lengths([word_at(first, 8), word_at(first, 12)]);
        let end = START_BYTES + key_bytes + value_bytes;
        if end > lines.len() * PAYLOAD {
            return Err(TornObject);
        }
        self.payload.clear();
        for line in lines {
            self.payload.extend_from_slice(&line[..PAYLOAD]);
        }
        self.payload.truncate(end);
        (self.key_bytes, self.head) = (key_bytes, head);
        Ok(())
    }

    /// Version, incarnation, expiry and flags of the object; all 0 if none was opened yet.
    pub fn head(&self) -> ObjectHead {
        self.head
    }

    /// The whole key.
    ///
    /// # Panics
    /// If no object was opened yet.
    pub fn key(&self) -> &[u8] {
        &self.payload[START_BYTES..START_BYTES + self.key_bytes]
    }

    /// The value.
    ///
    /// # Panics
    /// If no object was opened yet.
    pub fn value(&self) -> &[u8] {
        &self.payload[START_BYTES + self.key_bytes..]
    }
}
