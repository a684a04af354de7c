//! [`HopscotchTable`]: a key is within a few slots of its home, so one READ usually finds it.
//!
//! ```text
//! offset 0               64
//!        | header, 1 line | slot 0 | slot 1 | ... home_count * stride + span - stride slots | overflow block 1 | block 2 | ...
//! ```
//! A block of overflow has [`BLOCK_SLOTS`] slots. The blocks of a home form a chain: the first slot of the home's
//! neighbourhood, and then the first slot of each block, link to the next block. A key goes there if no displacement
//! makes space for it; when a slot of the neighbourhood becomes free, one key moves back.
//!
//! Within the table keys move to higher slots only, and the new slot is written before the old one is freed. A reader
//! may still miss a key that moves, because lines of one READ are seen in any order, or because a key moves back from
//! overflow after the reader has passed its slot. So *a miss must be confirmed*, by the owner or by the header's count
//! of moves, which also counts blocks that leave their chain.
//!
//! *(Neighbourhood of 6: stated in `[HERD §5.1]`; buckets read in pairs and overflow chains: from the literature on
//! `[FaRM]`; the rest: our choice.)*

mod geometry;
mod object;
mod overflow;
mod slot;

pub use crate::table_header::{HEADER_BYTES, MOVES_OFFSET};
pub use geometry::Geometry;
pub use object::{
    MARK, Object, ObjectHead, ObjectWriter, READ_NS_MAX, TornObject, item_bytes, next_version, object_bytes,
};
pub use overflow::BLOCK_SLOTS;
pub use slot::{Content, INLINE_BYTES_MAX, ObjectRef, Slot, SlotKind, TornSlot};

use crate::TableMemory;
use crate::table_header::TableHeader;
use drover_base::KeyHash;
use overflow::Blocks;

/// First 8 bytes of a hopscotch table, little-endian: `DRVHOPS1`.
pub const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"DRVHOPS1");

/// Slots searched for a free one. *(our choice)*
const LOOK_MAX: usize = 2000;

/// No free slot can be moved near the key's home, and neither its overflow chain nor the unused blocks have space. The
/// key was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no slot near the key's home, and no overflow block is left")]
pub struct TableFull;

/// Geometry, kind of slots, sizes and epoch of a [`HopscotchTable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableOptions {
    /// Which slots a key may be in, depending on its home.
    pub geometry: Geometry,
    /// Size of the slots, and whether they may hold values.
    pub kind: SlotKind,
    /// Number of homes, a power of two.
    pub home_count: usize,
    /// Number of overflow blocks of [`BLOCK_SLOTS`] slots each, for all homes together; below 2^24.
    pub block_count: usize,
    /// Number in the table's header that distinguishes it from earlier tables of its owner.
    pub epoch: u64,
}

impl TableOptions {
    /// Number of slots without those of overflow blocks; [`HopscotchTable::slot_count`] includes them.
    pub const fn slot_count(&self) -> usize {
        self.geometry.slot_count(self.home_count)
    }

    /// Length of the table in bytes, with header and overflow.
    pub const fn bytes(&self) -> usize {
        self.slot_offset(self.slot_count() + self.block_count * BLOCK_SLOTS)
    }

    /// Offset of the slot with index `slot`, which may be in overflow, from the start of the table, bytes.
    pub const fn slot_offset(&self, slot: usize) -> usize {
        HEADER_BYTES + slot * self.kind.bytes()
    }

    /// Index of the first slot of overflow block `block`, which counts from 1; `None` if there is no such block (the
    /// number may be untrusted).
    pub const fn block_slot(&self, block: u32) -> Option<usize> {
        match block {
            0 => None,
            block if block as usize > self.block_count => None,
            block => Some(self.slot_count() + (block as usize - 1) * BLOCK_SLOTS),
        }
    }

    /// Index of the home of the key with `hash`.
    pub fn home(&self, hash: KeyHash) -> u64 {
        hash.bucket_index(self.home_count as u64 - 1)
    }
}

/// A hopscotch hash table that peers READ, as its only writer sees it: it owns the table's memory and, privately, the
/// hash of the key in each slot. Objects that slots refer to are elsewhere.
#[derive(Debug)]
pub struct HopscotchTable<M> {
    memory: M,
    options: TableOptions,
    header: TableHeader,
    /// Key hash per slot, overflow after the others.
    keys: Box<[Option<KeyHash>]>,
    blocks: Blocks,
    len: usize,
    overflow_len: usize,
}

impl<M: TableMemory> HopscotchTable<M> {
    /// Creates an empty table at the start of `memory`. Writes all of the table.
    ///
    /// # Panics
    /// If the number of homes is not a power of two, the span not larger than the stride, the stride 0, the number of
    /// overflow blocks not below 2^24, or `memory` too short.
    pub fn new(mut memory: M, options: &TableOptions) -> HopscotchTable<M> {
        assert!(
            options.home_count.is_power_of_two(),
            "{} homes",
            options.home_count
        );
        assert!(options.geometry.span > options.geometry.stride && options.geometry.stride > 0);
        assert!(options.block_count <= slot::LINK_MAX as usize);
        assert!(options.bytes() <= memory.bytes(), "{} bytes", options.bytes());
        let slots = options.slot_count() + options.block_count * BLOCK_SLOTS;
        let header = TableHeader::write(&mut memory, TABLE_MAGIC, options.epoch, options.home_count as u64);
        for slot in 0..slots {
            Slot::free(options.kind).write(&mut memory, options.slot_offset(slot));
        }
        HopscotchTable {
            memory,
            options: *options,
            header,
            keys: vec![None; slots].into(),
            blocks: Blocks::new(options.block_count as u32),
            len: 0,
            overflow_len: 0,
        }
    }

    /// Memory of the table.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The options that it was created with.
    pub fn options(&self) -> &TableOptions {
        &self.options
    }

    /// Number of keys, those in overflow included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of keys in overflow: each costs its readers one more READ, or several.
    pub fn overflow_len(&self) -> usize {
        self.overflow_len
    }

    /// Number of READs of the table that a GET of the key with `hash` needs: 1, and one per overflow block up to its
    /// own. A value outside the table takes one more. `None` if there is no such key.
    pub fn table_reads(&self, hash: KeyHash) -> Option<usize> {
        let slot = self.find(hash)?;
        if slot < self.options.slot_count() {
            return Some(1);
        }
        let chain = self.chain(self.options.home(hash));
        let at = chain
            .iter()
            .position(|first| (*first..*first + BLOCK_SLOTS).contains(&slot));
        Some(2 + at.expect("its block is in its home's chain"))
    }

    /// Index of the slot that holds the key with `hash`; `None` if there is no such key.
    pub fn find(&self, hash: KeyHash) -> Option<usize> {
        let home = self.options.home(hash);
        let first = self.options.geometry.first(home);
        let is_here = |slot: &usize| self.keys[*slot] == Some(hash);
        let near = (first..first + self.options.geometry.span).find(is_here);
        near.or_else(|| self.find_in_overflow(home, |key| *key == Some(hash)))
    }

    /// Number of slots, used or free, including those of overflow blocks, which come last;
    /// [`TableOptions::slot_count`] does not include them.
    pub fn slot_count(&self) -> usize {
        self.keys.len()
    }

    /// Hash of the key in the slot with index `slot`; `None` if the slot is free.
    ///
    /// # Panics
    /// If `slot` is not below [`slot_count`](HopscotchTable::slot_count).
    pub fn key_at(&self, slot: usize) -> Option<KeyHash> {
        self.keys[slot]
    }

    /// Selects a key whose eviction makes space for the key with `hash`: the first one from slot `turn` on (modulo the
    /// span) in the neighbourhood of its home, not in overflow. Does not remove it. `None` if the neighbourhood is
    /// empty.
    pub fn rival(&self, hash: KeyHash, turn: usize) -> Option<KeyHash> {
        let span = self.options.geometry.span;
        let first = self.options.geometry.first(self.options.home(hash));
        let keys = &self.keys[first..first + span];
        (0..span).find_map(|at| keys[(turn + at) % span])
    }

    /// A copy of the slot with index `slot`, used or free.
    ///
    /// # Panics
    /// If `slot` is not below [`slot_count`](HopscotchTable::slot_count).
    pub fn slot(&self, slot: usize) -> Slot {
        let mut bytes = [0; 64];
        let bytes = &mut bytes[..self.options.kind.bytes()];
        self.memory.load(self.options.slot_offset(slot), bytes);
        Slot::open(self.options.kind, bytes).expect("only the owner writes, and it finishes what it writes")
    }

    /// Sets the content of the key with `hash`, new or not; returns the previous slot if the key existed. The caller
    /// writes an object first, and keeps the old one intact until READs in progress have ended.
    ///
    /// # Errors
    /// [`TableFull`] if there is no space for a new key.
    ///
    /// # Panics
    /// If the content does not fit a slot: inline in a narrow one, too long, or an object beyond the range of a slot.
    pub fn put(&mut self, hash: KeyHash, content: Content<'_>) -> Result<Option<Slot>, TableFull> {
        if let Some(at) = self.find(hash) {
            let old = self.slot(at);
            self.fill(at, hash, content);
            return Ok(Some(old));
        }
        let home = self.options.home(hash);
        match self.make_space(home) {
            Some(slot) => self.fill(slot, hash, content),
            None => self.put_into_overflow(home, hash, content)?,
        }
        self.len += 1;
        Ok(None)
    }

    /// Removes the key with `hash`; returns its slot as it was, or `None` if there was no such key. Another key may
    /// move from overflow to the slot that becomes free.
    pub fn remove(&mut self, hash: KeyHash) -> Option<Slot> {
        let at = self.find(hash)?;
        let old = self.slot(at);
        self.free(at);
        self.len -= 1;
        if at >= self.options.slot_count() {
            self.overflow_len -= 1;
            self.give_back(self.options.home(hash));
        } else {
            self.bring_back(at);
        }
        Some(old)
    }

    /// A free slot within the neighbourhood of `home`; moves other keys away from it if that helps.
    fn make_space(&mut self, home: u64) -> Option<usize> {
        let geometry = self.options.geometry;
        let first = geometry.first(home);
        let end = (first + LOOK_MAX).min(self.options.slot_count());
        let mut free = (first..end).find(|slot| self.keys[*slot].is_none())?;
        while free >= first + geometry.span {
            let allowed = geometry.first_home_of(free);
            let may_move =
                |slot: &usize| self.keys[*slot].is_some_and(|key| self.options.home(key) >= allowed);
            let from = geometry.movers(free).find(may_move)?;
            self.move_slot(from, free);
            free = from;
        }
        Some(free)
    }

    /// Moves a key: writes its new slot before it frees the old one.
    fn move_slot(&mut self, from: usize, to: usize) {
        self.header.begin_moves(&mut self.memory);
        let (moved, mut target) = (self.slot(from), self.slot(to));
        target.fill_from(&moved);
        target.write(&mut self.memory, self.options.slot_offset(to));
        self.keys[to] = self.keys[from];
        self.free(from);
        self.header.end_moves(&mut self.memory);
    }

    fn fill(&mut self, at: usize, hash: KeyHash, content: Content<'_>) {
        let mut slot = self.slot(at);
        slot.fill(hash, content);
        slot.write(&mut self.memory, self.options.slot_offset(at));
        self.keys[at] = Some(hash);
    }

    fn free(&mut self, at: usize) {
        let mut slot = self.slot(at);
        slot.fill_from(&Slot::free(self.options.kind));
        slot.write(&mut self.memory, self.options.slot_offset(at));
        self.keys[at] = None;
    }

    fn set_link(&mut self, at: usize, link: u32) {
        let mut slot = self.slot(at);
        slot.link = link;
        slot.write(&mut self.memory, self.options.slot_offset(at));
    }
}
