//! [`Header`]: the first word of a bucket, by which a client with an old directory notices a split.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0-7 | depth | local depth: bits of the hash that all keys of the bucket have in common; up to 16 |
//! | 8 | pending | the bucket is new and its entries are still in the old one: nobody but the split writes it |
//! | 9-31 | | 0 |
//! | 32-63 | suffix | these `depth` bits |
//!
//! *(Depth and suffix: `[RACE]`; pending: our choice.)*

use super::DEPTH_MAX;

const PENDING: u64 = 1 << 8;
const SUFFIX_SHIFT: u32 = 32;

/// A bucket's header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Header {
    /// Number of low directory bits that all keys of the bucket have in common, at most [`DEPTH_MAX`].
    pub depth: u8,
    /// Whether the bucket's entries are still where they were before the split.
    pub pending: bool,
    /// The common bits.
    pub suffix: u32,
}

/// A word that is no header: the address is wrong or the memory was overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{word:#x} is not the header of a bucket")]
pub struct BadHeader {
    /// The word.
    pub word: u64,
}

/// What a header says about a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fit {
    /// The key belongs here, and the client's directory is up to date.
    Current,
    /// The key belongs here, but the client's directory is older than the last split.
    Older,
    /// The key belongs here, but is still in the bucket of the subtable that is being split.
    Pending,
    /// The key belongs elsewhere: whatever the bucket holds says nothing about it.
    Elsewhere,
}

impl Header {
    /// The header of a bucket whose keys have the low `depth` bits `suffix`.
    pub const fn new(depth: u8, suffix: u32) -> Header {
        Header {
            depth,
            pending: false,
            suffix,
        }
    }

    /// The same header, pending.
    pub const fn pending(self) -> Header {
        Header {
            pending: true,
            ..self
        }
    }

    /// The header as a word.
    pub const fn word(self) -> u64 {
        let flags = if self.pending { PENDING } else { 0 };
        self.depth as u64 | flags | (self.suffix as u64) << SUFFIX_SHIFT
    }

    /// Decodes a word that is a header.
    #[inline]
    pub(super) const fn of(word: u64) -> Header {
        Header {
            depth: word as u8,
            pending: word & PENDING != 0,
            suffix: (word >> SUFFIX_SHIFT) as u32,
        }
    }

    /// Decodes a word, which may be anything.
    ///
    /// # Errors
    /// [`BadHeader`] if the word is not a header.
    #[inline]
    pub fn from_word(word: u64) -> Result<Header, BadHeader> {
        let header = Header::of(word);
        let is_right =
            header.depth <= DEPTH_MAX && header.suffix >> header.depth == 0 && header.word() == word;
        is_right.then_some(header).ok_or(BadHeader { word })
    }

    /// What this header says about a key with these directory bits, to a client whose directory has the bucket's subtable
    /// at depth `known`.
    #[inline]
    pub fn fit(self, directory_bits: u32, known: u8) -> Fit {
        if low_bits(directory_bits, self.depth) != self.suffix {
            return Fit::Elsewhere;
        }
        match self.pending {
            true => Fit::Pending,
            false if self.depth > known => Fit::Older,
            // Also while a split has changed the directory and not yet this bucket.
            false => Fit::Current,
        }
    }
}

/// The lowest `depth` bits of `bits`; `depth` is below 32.
#[inline]
pub(super) const fn low_bits(bits: u32, depth: u8) -> u32 {
    bits & ((1 << depth) - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout() {
        let header = Header::new(5, 0b10110);
        assert_eq!(header.word(), 0x0000_0016_0000_0005);
        assert_eq!(header.pending().word(), 0x0000_0016_0000_0105);
        assert_eq!(Header::from_word(0), Ok(Header::new(0, 0)));
    }

    #[test]
    fn words_that_no_split_writes_are_bad() {
        for word in [17, 0x205, 0x1_0005, 0x20_0000_0005, u64::MAX, 0x1_0000_0000] {
            assert_eq!(Header::from_word(word), Err(BadHeader { word }), "{word:#x}");
        }
    }

    #[test]
    fn a_split_shows_in_the_header() {
        // Before: depth 1, suffix 1. After: depth 2, suffix 1 and 3.
        let (before, stays, moved) = (Header::new(1, 1), Header::new(2, 1), Header::new(2, 3));
        assert_eq!(before.fit(0b101, 1), Fit::Current);
        assert_eq!(stays.fit(0b101, 1), Fit::Older);
        assert_eq!(stays.fit(0b111, 1), Fit::Elsewhere);
        assert_eq!(moved.pending().fit(0b111, 2), Fit::Pending);
        assert_eq!(moved.pending().fit(0b101, 2), Fit::Elsewhere);
        assert_eq!(moved.fit(0b111, 2), Fit::Current);
    }

    proptest! {
        #[test]
        fn headers_come_back(depth in 0u8..=16, suffix in any::<u32>(), pending in any::<bool>()) {
            let header = Header { depth, pending, suffix: low_bits(suffix, depth) };
            prop_assert_eq!(Header::from_word(header.word()), Ok(header));
            prop_assert_eq!(header.fit(suffix, depth) == Fit::Pending, pending);
        }

        #[test]
        fn any_word_is_a_header_or_none(word in any::<u64>(), bits in any::<u32>(), known in any::<u8>()) {
            if let Ok(header) = Header::from_word(word) {
                prop_assert_eq!(header.word(), word);
                header.fit(bits, known);
            }
        }
    }
}
