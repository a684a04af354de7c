//! Chunks: the unit in which a node gives memory away. Codecs of the chunk table and of the stack of returned chunks, and
//! the rule that keeps a reserve.
//!
//! ```text
//! header   bump word    FAA: chunks taken for the first time, from the first data chunk on; may run past the end
//!          stack word   CAS: returned chunks, linked through their entries in the table
//! table    a word per chunk: kind, link or length, owner
//! ```

use crate::client::ClientId;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 16 << 10;
/// Most chunks of a node: 256 GiB.
pub const CHUNKS_MAX: usize = 1 << LINK_BITS;
/// Bytes of an entry of the chunk table.
pub const ENTRY_BYTES: usize = 8;

const LINK_BITS: u32 = 24;
const LINK_MASK: u64 = (1 << LINK_BITS) - 1;

/// Share of a node's chunks, per cent, that only [essential](Need::Essential) requests get: deletes, splits and
/// resizes, so that memory can be freed when it is full [SMART, our choice].
pub const RESERVE_PERCENT: usize = 2;

/// State of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Never taken, or taken by a client that has not said so yet.
    Fresh,
    /// Header and tables of the node.
    System,
    /// Returned: on the stack. The link is the index of the next chunk on it, 0: none.
    Returned,
    /// Blocks of the class whose index is the link.
    Blocks,
    /// First chunk of a piece of memory of so many chunks as the link says.
    Run,
    /// A further chunk of such a piece.
    RunPart,
    /// As [`Blocks`](ChunkKind::Blocks), but somebody is finding out which of them are free.
    SweptBlocks,
    /// As [`Run`](ChunkKind::Run), but somebody is finding out whether it is free.
    SweptRun,
}

/// Entry of a chunk in the table, one word, written by clients.
///
/// | bits | field | meaning |
/// |---|---|---|
/// | 56..64 | kind | [`ChunkKind`] |
/// | 32..56 | link | see there |
/// | 0..32 | owner | [`ClientId`] of the client that took it; 0: nobody |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkEntry {
    /// State of the chunk.
    pub kind: ChunkKind,
    /// What the state says it is.
    pub link: u32,
    /// Client that took the chunk.
    pub owner: ClientId,
}

impl ChunkEntry {
    /// The entry of a chunk that was never taken.
    pub const FRESH: ChunkEntry = ChunkEntry {
        kind: ChunkKind::Fresh,
        link: 0,
        owner: ClientId::NONE,
    };

    /// As it is stored.
    pub fn encode(self) -> u64 {
        (self.kind as u64) << 56 | (u64::from(self.link) & LINK_MASK) << 32 | u64::from(self.owner.bits())
    }

    /// The entry of these bits; `None` if no correct client wrote them.
    pub fn decode(bits: u64) -> Option<ChunkEntry> {
        let kind = match bits >> 56 {
            0 => ChunkKind::Fresh,
            1 => ChunkKind::System,
            2 => ChunkKind::Returned,
            3 => ChunkKind::Blocks,
            4 => ChunkKind::Run,
            5 => ChunkKind::RunPart,
            6 => ChunkKind::SweptBlocks,
            7 => ChunkKind::SweptRun,
            _ => return None,
        };
        Some(ChunkEntry {
            kind,
            link: (bits >> 32 & LINK_MASK) as u32,
            owner: ClientId::from_bits(bits as u32),
        })
    }
}

/// The stack of returned chunks, one word. The tag makes each value different from those before: a CAS succeeds only if
/// nobody pushed or popped since the READ.
///
/// | bits | field | meaning |
/// |---|---|---|
/// | 48..64 | tag | changes with every push and pop |
/// | 24..48 | count | chunks on the stack |
/// | 0..24 | top | index of the topmost chunk; 0: the stack is empty |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkStack {
    /// Changes with every push and pop.
    pub tag: u16,
    /// Chunks on the stack.
    pub count: u32,
    /// Index of the topmost chunk; 0: none.
    pub top: u32,
}

impl ChunkStack {
    /// As it is stored.
    pub fn encode(self) -> u64 {
        u64::from(self.tag) << 48
            | (u64::from(self.count) & LINK_MASK) << 24
            | u64::from(self.top) & LINK_MASK
    }

    /// The stack of these bits, whatever they are.
    pub fn decode(bits: u64) -> ChunkStack {
        ChunkStack {
            tag: (bits >> 48) as u16,
            count: (bits >> 24 & LINK_MASK) as u32,
            top: (bits & LINK_MASK) as u32,
        }
    }

    /// The stack with `chunk` on top.
    #[must_use]
    pub fn pushed(self, chunk: u32) -> ChunkStack {
        ChunkStack {
            tag: self.tag.wrapping_add(1),
            count: self.count + 1,
            top: chunk,
        }
    }

    /// The stack without its topmost chunk, whose entry links to `next`.
    #[must_use]
    pub fn popped(self, next: u32) -> ChunkStack {
        ChunkStack {
            tag: self.tag.wrapping_add(1),
            count: self.count.saturating_sub(1),
            top: next,
        }
    }
}

/// How urgent a request for memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Refused when only the reserve is left.
    Ordinary,
    /// May use the reserve: what frees memory or keeps a structure working.
    Essential,
}

/// How full a node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fill {
    /// Below 80 % of the chunks are in use.
    Low,
    /// From 80 % on.
    High,
    /// From 95 % on.
    Critical,
}

/// What is known of a node's free chunks: from one READ of the two words, so it may be out of date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supply {
    /// Number of chunks of the node, header and tables included.
    pub chunk_count: u32,
    /// Chunks taken for the first time so far, header and tables included; may be past the end.
    pub bump: u64,
    /// Returned chunks.
    pub stack: ChunkStack,
}

impl Supply {
    /// Chunks never taken.
    pub fn fresh(&self) -> u32 {
        (u64::from(self.chunk_count).saturating_sub(self.bump)) as u32
    }

    /// Chunks that can be taken.
    pub fn free(&self) -> u32 {
        self.fresh()
            .saturating_add(self.stack.count)
            .min(self.chunk_count)
    }

    /// Chunks in use, header and tables included.
    pub fn used(&self) -> u32 {
        self.chunk_count - self.free()
    }

    /// Chunks that only essential requests get.
    pub fn reserve(&self) -> u32 {
        (self.chunk_count as usize * RESERVE_PERCENT).div_ceil(100) as u32
    }

    /// Whether a request for `count` chunks may be granted.
    pub fn allows(&self, count: u32, need: Need) -> bool {
        let kept = match need {
            Need::Ordinary => self.reserve(),
            Need::Essential => 0,
        };
        self.free() >= count.saturating_add(kept)
    }

    /// How full the node is.
    pub fn fill(&self) -> Fill {
        match u64::from(self.used()) * 100 {
            used if used >= 95 * u64::from(self.chunk_count) => Fill::Critical,
            used if used >= 80 * u64::from(self.chunk_count) => Fill::High,
            _ => Fill::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_of_any_bits(bits: u64) {
            if let Some(entry) = ChunkEntry::decode(bits) {
                prop_assert_eq!(entry.encode(), bits);
            }
        }

        #[test]
        fn stacks_of_any_bits(bits: u64) {
            prop_assert_eq!(ChunkStack::decode(bits).encode(), bits);
        }

        #[test]
        fn a_push_and_a_pop(bits: u64, chunk in 1u32..1 << 24) {
            let stack = ChunkStack::decode(bits);
            let pushed = stack.pushed(chunk);
            let popped = pushed.popped(stack.top);
            prop_assert_eq!((popped.count, popped.top), (stack.count, stack.top));
            prop_assert_ne!(popped.encode(), stack.encode());
        }

        #[test]
        fn a_supply_of_any_numbers(chunk_count: u32, bump: u64, bits: u64) {
            let supply = Supply { chunk_count, bump, stack: ChunkStack::decode(bits) };
            prop_assert!(supply.free() <= chunk_count && supply.used() <= chunk_count);
            prop_assert!(!supply.allows(1, Need::Ordinary) || supply.allows(1, Need::Essential));
        }
    }

    #[test]
    fn the_reserve_and_the_alarms() {
        let supply = |bump, count| Supply {
            chunk_count: 1000,
            bump,
            stack: ChunkStack {
                count,
                ..ChunkStack::default()
            },
        };
        assert!(supply(979, 0).allows(1, Need::Ordinary));
        assert!(!supply(980, 0).allows(1, Need::Ordinary));
        assert!(supply(980, 0).allows(20, Need::Essential));
        assert!(!supply(1_000_000, 0).allows(1, Need::Essential), "past the end");
        assert!(supply(1_000_000, 21).allows(1, Need::Ordinary));
        let fills = [799, 800, 949, 950].map(|used| supply(used, 0).fill());
        assert_eq!(fills, [Fill::Low, Fill::High, Fill::High, Fill::Critical]);
    }
}
