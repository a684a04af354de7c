//! [`Slot`]: the word that refers to a key's block; the only word that operations on data CAS.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0 | tentative | the entry is not confirmed yet: readers ignore it |
//! | 1 | frozen | a split is about to move the entry, or has moved it: nobody but the split changes the slot |
//! | 2-5 | tag | counts the uses of the slot, modulo 16 |
//! | 6-47 | block | bits 6-47 of the block's address, which is a multiple of 64 |
//! | 48-55 | length | of the block, in units of 64 bytes; never 0 in use |
//! | 56-63 | fingerprint | 8 bits of the key's hash |
//!
//! 0 = empty; a frozen empty slot has the frozen bit alone. Every other word of length 0 or block 0 is [`Bad`](SlotKind::Bad).
//!
//! *(Fingerprint, length, pointer: `[RACE]`; what the six low bits hold: our choice.)*

/// Granularity and alignment of blocks, bytes.
pub const BLOCK_UNIT: usize = 64;

/// Units of the longest block that a slot can refer to: 16,320 bytes.
pub const UNITS_MAX: usize = 255;

const TENTATIVE: u64 = 1;
const FROZEN: u64 = 1 << 1;
const TAG_SHIFT: u32 = 2;
const TAG_MASK: u64 = 0xf << TAG_SHIFT;
const ADDR_MASK: u64 = ((1 << 48) - 1) & !(BLOCK_UNIT as u64 - 1);
const UNITS_SHIFT: u32 = 48;
const FINGERPRINT_SHIFT: u32 = 56;

/// Address and length of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRef {
    /// Address in the shard: a multiple of [`BLOCK_UNIT`] below 2^48, not 0.
    pub addr: u64,
    /// Length in units of [`BLOCK_UNIT`]: 1 to [`UNITS_MAX`].
    pub units: u8,
}

impl BlockRef {
    /// Length in bytes.
    pub const fn bytes(self) -> usize {
        self.units as usize * BLOCK_UNIT
    }
}

/// What the word of a slot means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SlotKind {
    /// No entry.
    Empty,
    /// No entry, and no one may insert one: the bucket is being split.
    FrozenEmpty,
    /// An entry that is not confirmed yet.
    Tentative,
    /// An entry, perhaps a frozen one.
    Live,
    /// Not a word that a client writes.
    Bad,
}

/// A slot's word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Slot(u64);

impl Slot {
    /// The empty slot.
    pub const EMPTY: Slot = Slot(0);
    /// The empty slot of a bucket that is being split.
    pub const FROZEN_EMPTY: Slot = Slot(FROZEN);

    /// Creates the word of a confirmed entry. Of `tag` the lower four bits count.
    ///
    /// # Panics
    /// If the block is not aligned, has no units, is at 0 or beyond 48 bits.
    pub fn new(fingerprint: u8, block: BlockRef, tag: u8) -> Slot {
        assert!(
            block.addr & !ADDR_MASK == 0 && block.addr != 0 && block.units > 0,
            "a slot cannot refer to {block:?}"
        );
        Slot(
            u64::from(fingerprint) << FINGERPRINT_SHIFT
                | u64::from(block.units) << UNITS_SHIFT
                | block.addr
                | u64::from(tag & 0xf) << TAG_SHIFT,
        )
    }

    /// The slot with this word, which may be anything.
    pub const fn from_word(word: u64) -> Slot {
        Slot(word)
    }

    /// The slot as a word.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// What the word means.
    #[inline]
    pub fn kind(self) -> SlotKind {
        match (self.0, self.block().is_some()) {
            (0, _) => SlotKind::Empty,
            (FROZEN, _) => SlotKind::FrozenEmpty,
            (_, false) => SlotKind::Bad,
            (word, true) if word & TENTATIVE != 0 => SlotKind::Tentative,
            _ => SlotKind::Live,
        }
    }

    /// The block of an entry; `None` if the word is not one of an entry.
    #[inline]
    pub fn block(self) -> Option<BlockRef> {
        let (addr, units) = (self.0 & ADDR_MASK, (self.0 >> UNITS_SHIFT) as u8);
        (addr != 0 && units != 0).then_some(BlockRef { addr, units })
    }

    /// The fingerprint of an entry's key.
    #[inline]
    pub const fn fingerprint(self) -> u8 {
        (self.0 >> FINGERPRINT_SHIFT) as u8
    }

    /// The tag; 0 to 15.
    pub const fn tag(self) -> u8 {
        ((self.0 & TAG_MASK) >> TAG_SHIFT) as u8
    }

    /// Whether a split has frozen the slot.
    #[inline]
    pub const fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// The same entry, frozen.
    pub const fn frozen(self) -> Slot {
        Slot(self.0 | FROZEN)
    }

    /// The same entry, not frozen.
    pub const fn thawed(self) -> Slot {
        Slot(self.0 & !FROZEN)
    }

    /// The same entry, tentative.
    pub const fn tentative(self) -> Slot {
        Slot(self.0 | TENTATIVE)
    }

    /// The same entry, confirmed.
    pub const fn confirmed(self) -> Slot {
        Slot(self.0 & !TENTATIVE)
    }

    /// The word of a confirmed entry for another block of the same key, with the next tag.
    ///
    /// # Panics
    /// As [`new`](Slot::new).
    pub fn replaced(self, block: BlockRef) -> Slot {
        Slot::new(self.fingerprint(), block, self.tag().wrapping_add(1))
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let frozen = if self.is_frozen() { " frozen" } else { "" };
        match (self.kind(), self.block()) {
            (kind @ (SlotKind::Live | SlotKind::Tentative), Some(block)) => write!(
                f,
                "Slot({kind:?}{frozen} {:02x} at {:#x}+{} tag {})",
                self.fingerprint(),
                block.addr,
                block.bytes(),
                self.tag()
            ),
            (SlotKind::Bad, _) => write!(f, "Slot(Bad {:#x})", self.0),
            (kind, _) => write!(f, "Slot({kind:?})"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: BlockRef = BlockRef {
        addr: 0x1234_5678_9ac0,
        units: 3,
    };

    #[test]
    fn the_layout() {
        let slot = Slot::new(0xfe, BLOCK, 0x15);
        assert_eq!(slot.word(), 0xfe03_1234_5678_9ad4);
        assert_eq!(slot.tentative().word(), 0xfe03_1234_5678_9ad5);
        assert_eq!(slot.frozen().word(), 0xfe03_1234_5678_9ad6);
        assert_eq!(
            (slot.tag(), slot.replaced(BLOCK).tag(), slot.fingerprint()),
            (5, 6, 0xfe)
        );
    }

    #[test]
    fn the_longest_block_has_16320_bytes() {
        let block = BlockRef { addr: 64, units: 255 };
        assert_eq!(block.bytes(), 16_320);
        assert_eq!(Slot::new(0, block, 15).replaced(block).tag(), 0);
    }

    #[test]
    #[should_panic(expected = "cannot refer to")]
    fn a_block_that_is_not_aligned_is_a_bug() {
        Slot::new(1, BlockRef { addr: 100, units: 1 }, 0);
    }

    #[test]
    fn words_that_no_client_writes_are_bad() {
        for word in [
            TENTATIVE,
            4,
            0x1234_5678_9ac0,
            0xff03_0000_0000_0000,
            TENTATIVE | FROZEN,
        ] {
            assert_eq!(Slot::from_word(word).kind(), SlotKind::Bad, "{word:#x}");
        }
    }

    proptest! {
        #[test]
        fn entries_come_back(fingerprint in any::<u8>(), addr in 1u64..1 << 42, units in 1u8.., tag in 0u8..16) {
            let block = BlockRef { addr: addr * 64, units };
            let slot = Slot::new(fingerprint, block, tag);
            for (made, kind, is_frozen) in [
                (slot, SlotKind::Live, false),
                (slot.frozen(), SlotKind::Live, true),
                (slot.tentative(), SlotKind::Tentative, false),
                (slot.tentative().frozen(), SlotKind::Tentative, true),
            ] {
                prop_assert_eq!((made.kind(), made.is_frozen()), (kind, is_frozen));
                prop_assert_eq!(made.block(), Some(block));
                prop_assert_eq!((made.fingerprint(), made.tag()), (fingerprint, tag));
                prop_assert_eq!(made.thawed().confirmed(), slot);
            }
        }

        #[test]
        fn any_word_has_a_meaning(word in any::<u64>()) {
            let slot = Slot::from_word(word);
            let is_entry = matches!(slot.kind(), SlotKind::Live | SlotKind::Tentative);
            prop_assert_eq!(is_entry, slot.block().is_some());
            let text = format!("{slot:?}");
            prop_assert!(text.starts_with("Slot("), "{}", text);
        }
    }
}
