//! [`Class`]: sizes of blocks inside a chunk.

use crate::chunks::CHUNK_BYTES;

/// Bytes of the shortest block.
pub const BLOCK_BYTES_MIN: usize = 8;
/// Number of size classes.
pub const CLASS_COUNT: usize = (CHUNK_BYTES / BLOCK_BYTES_MIN).ilog2() as usize + 1;

/// A size class: blocks of a power of two bytes, 8 B to 16 KiB. A chunk holds blocks of one class. Longer pieces of
/// memory take whole chunks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(u8);

impl Class {
    /// The class of the shortest blocks that hold `bytes`; `None` if none does, so that whole chunks are needed.
    #[inline]
    pub fn of(bytes: usize) -> Option<Class> {
        match bytes.max(BLOCK_BYTES_MIN).checked_next_power_of_two() {
            Some(rounded) if rounded <= CHUNK_BYTES => Some(Class((rounded / BLOCK_BYTES_MIN).ilog2() as u8)),
            _ => None,
        }
    }

    /// The class of this index.
    pub fn from_index(index: usize) -> Option<Class> {
        (index < CLASS_COUNT).then_some(Class(index as u8))
    }

    /// From 0, by size.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Length of its blocks, bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        BLOCK_BYTES_MIN << self.0
    }

    /// Number of its blocks in a chunk.
    #[inline]
    pub const fn per_chunk(self) -> usize {
        CHUNK_BYTES / self.bytes()
    }
}

/// Number of chunks that a piece of `bytes` takes.
pub const fn chunks_for(bytes: usize) -> usize {
    bytes.div_ceil(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends() {
        assert_eq!(CLASS_COUNT, 12);
        assert_eq!(Class::of(0).map(Class::bytes), Some(8));
        assert_eq!(Class::of(CHUNK_BYTES).map(Class::index), Some(CLASS_COUNT - 1));
        assert_eq!(Class::of(CHUNK_BYTES + 1), None);
        assert_eq!(Class::of(usize::MAX), None);
        assert_eq!(Class::from_index(CLASS_COUNT), None);
    }

    proptest! {
        #[test]
        fn the_shortest_that_is_long_enough(bytes in 1usize..=CHUNK_BYTES) {
            let class = Class::of(bytes).expect("a class");
            prop_assert!(class.bytes() >= bytes);
            prop_assert!(class.index() == 0 || class.bytes() / 2 < bytes);
            prop_assert_eq!(Class::from_index(class.index()), Some(class));
            prop_assert_eq!(class.per_chunk() * class.bytes(), CHUNK_BYTES);
        }
    }
}
