//! [`Directory`]: a client's copy of what says which subtable a key belongs to.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | [`GlobalDepth`] | bits 0-7 global depth, up to 16; bit 63 set while the directory is doubled; other bits 0 |
//! | 8 | 56 | | not of the directory |
//! | 64 | 8 each | [`Entry`] | 2^depth are in use |
//!
//! An entry has its subtable's address in bits 0-47, its local depth in bits 48-55, and in bits 56-63 a lock byte that
//! is 1 while the subtable is being split. The entry of a key is the one with the low `global depth` directory bits as
//! its index. An entry of local depth d is there 2^(global depth - d) times.

use super::DEPTH_MAX;
use super::header::low_bits;

/// Offset of the first entry, bytes.
pub const ENTRIES_OFFSET: usize = 64;

const DOUBLING: u64 = 1 << 63;
const POINTER_MASK: u64 = (1 << 48) - 1;
const DEPTH_SHIFT: u32 = 48;
const LOCK_SHIFT: u32 = 56;

/// Bytes of a directory of global depth `depth`, at most [`DEPTH_MAX`].
pub const fn directory_bytes(depth: u8) -> usize {
    ENTRIES_OFFSET + (8 << depth)
}

/// The directory's first word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GlobalDepth {
    /// Number of bits that choose an entry, at most [`DEPTH_MAX`].
    pub depth: u8,
    /// Whether the upper half of the next depth's entries is being written.
    pub doubling: bool,
}

impl GlobalDepth {
    /// The word.
    pub const fn word(self) -> u64 {
        self.depth as u64 | if self.doubling { DOUBLING } else { 0 }
    }

    /// Decodes a word, which may be anything.
    ///
    /// # Errors
    /// [`BadDirectory::Depth`] if the word is none that a split writes.
    pub fn from_word(word: u64) -> Result<GlobalDepth, BadDirectory> {
        let global = GlobalDepth {
            depth: word as u8,
            doubling: word & DOUBLING != 0,
        };
        let deepest = DEPTH_MAX - u8::from(global.doubling);
        let is_right = global.depth <= deepest && global.word() == word;
        is_right.then_some(global).ok_or(BadDirectory::Depth { word })
    }
}

/// An entry of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Address of the subtable: below 2^48, not 0.
    pub subtable: u64,
    /// Local depth of the subtable, at most [`DEPTH_MAX`].
    pub depth: u8,
    /// Whether the subtable is being split.
    pub locked: bool,
}

impl Entry {
    /// The entry as a word.
    pub const fn word(self) -> u64 {
        self.subtable & POINTER_MASK | (self.depth as u64) << DEPTH_SHIFT | (self.locked as u64) << LOCK_SHIFT
    }

    /// Decodes a word, which may be anything; `None` if it is no entry, as one that was never written.
    pub fn from_word(word: u64) -> Option<Entry> {
        let entry = Entry {
            subtable: word & POINTER_MASK,
            depth: (word >> DEPTH_SHIFT) as u8,
            locked: word >> LOCK_SHIFT == 1,
        };
        let is_right = entry.subtable != 0 && entry.depth <= DEPTH_MAX && entry.word() == word;
        is_right.then_some(entry)
    }
}

/// The bytes are no directory that a client can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadDirectory {
    /// The first word is not a global depth.
    #[error("{word:#x} is not a global depth")]
    Depth {
        /// The word.
        word: u64,
    },
    /// The directory is deeper than the bytes that were READ: READ more.
    #[error("the directory has {needed} bytes")]
    Longer {
        /// Bytes of the directory.
        needed: usize,
    },
    /// An entry is not one, or contradicts the global depth. READ again: the entry may have been written meanwhile.
    #[error("entry {index} of the directory is {word:#x}")]
    Entry {
        /// Index of the entry.
        index: u32,
        /// The word.
        word: u64,
    },
}

/// A copy of the directory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Directory {
    global: GlobalDepth,
    entries: Vec<Entry>,
}

impl Directory {
    /// Decodes a directory of any bytes. While it is doubled, its entries of before are valid.
    ///
    /// # Errors
    /// [`BadDirectory`] if it cannot be used.
    pub fn from_bytes(bytes: &[u8]) -> Result<Directory, BadDirectory> {
        let words = bytes.as_chunks::<8>().0;
        let first = words.first().ok_or(BadDirectory::Longer {
            needed: directory_bytes(0),
        })?;
        let global = GlobalDepth::from_word(u64::from_le_bytes(*first))?;
        let needed = directory_bytes(global.depth);
        let words = words
            .get(ENTRIES_OFFSET / 8..needed / 8)
            .ok_or(BadDirectory::Longer { needed })?;
        let decode = |(index, bytes): (usize, &[u8; 8])| {
            let word = u64::from_le_bytes(*bytes);
            let entry = Entry::from_word(word).filter(|entry| entry.depth <= global.depth);
            let index = index as u32;
            entry.ok_or(BadDirectory::Entry { index, word })
        };
        let entries = words.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        Ok(Directory { global, entries })
    }

    /// Depth, and whether the directory was being doubled.
    pub fn global(&self) -> GlobalDepth {
        self.global
    }

    /// The entries in use.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a key with these directory bits.
    #[inline]
    pub fn entry(&self, directory_bits: u32) -> Entry {
        self.entries[low_bits(directory_bits, self.global.depth) as usize]
    }

    /// The entry of the subtable that was split into itself and the one of a key with these directory bits, which is
    /// `depth` deep; `None` if that was not split from another one, or this copy does not have it.
    pub fn split_from(&self, directory_bits: u32, depth: u8) -> Option<Entry> {
        let bit = depth.checked_sub(1).filter(|_| depth <= self.global.depth)?;
        let is_new = directory_bits >> bit & 1 == 1;
        is_new.then(|| self.entry(low_bits(directory_bits, bit)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(subtable: u64, depth: u8) -> Entry {
        Entry {
            subtable,
            depth,
            locked: false,
        }
    }

    fn bytes(depth: u64, entries: &[Entry]) -> Vec<u8> {
        let mut bytes = vec![0; ENTRIES_OFFSET];
        bytes[..8].copy_from_slice(&depth.to_le_bytes());
        bytes.extend(entries.iter().flat_map(|entry| entry.word().to_le_bytes()));
        bytes
    }

    #[test]
    fn the_layout() {
        let locked = Entry {
            locked: true,
            ..entry(0x1234_5678_9ac0, 5)
        };
        assert_eq!(locked.word(), 0x0105_1234_5678_9ac0);
        let doubling = GlobalDepth {
            depth: 3,
            doubling: true,
        };
        assert_eq!(doubling.word(), 0x8000_0000_0000_0003);
        assert_eq!(directory_bytes(DEPTH_MAX), 64 + (512 << 10));
    }

    #[test]
    fn the_low_bits_choose_the_entry() {
        let entries = [entry(64, 1), entry(128, 2), entry(64, 1), entry(192, 2)];
        let directory = Directory::from_bytes(&bytes(2, &entries)).expect("a directory");
        assert_eq!(directory.entries(), entries);
        assert_eq!(directory.entry(0b110), entry(64, 1));
        assert_eq!(directory.entry(0b111), entry(192, 2));
        assert_eq!(directory.split_from(0b111, 2), Some(entry(128, 2)));
        assert_eq!(
            directory.split_from(0b101, 2),
            None,
            "it is the one that was split"
        );
        assert_eq!(
            (directory.split_from(0, 0), directory.split_from(7, 3)),
            (None, None)
        );
    }

    #[test]
    fn directories_that_cannot_be_used() {
        let entries = [entry(64, 1), entry(128, 1)];
        let whole = bytes(1, &entries);
        for len in 0..whole.len() {
            let found = Directory::from_bytes(&whole[..len]);
            assert!(
                matches!(found, Err(BadDirectory::Longer { .. })),
                "{len}: {found:?}"
            );
        }
        // The depth was READ before the upper half was written.
        let index = 1;
        let torn = bytes(
            1,
            &[
                entry(64, 0),
                Entry {
                    subtable: 0,
                    ..entries[1]
                },
            ],
        );
        let word = 1 << 48;
        assert_eq!(
            Directory::from_bytes(&torn),
            Err(BadDirectory::Entry { index, word })
        );
        let deep = bytes(1, &[entry(64, 1), entry(128, 2)]);
        assert!(matches!(
            Directory::from_bytes(&deep),
            Err(BadDirectory::Entry { .. })
        ));
        assert_eq!(
            Directory::from_bytes(&bytes(17, &entries)),
            Err(BadDirectory::Depth { word: 17 })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_directory_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300), depth in 0u64..4, bits in any::<u32>(), known in any::<u8>()) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_chunk_mut::<8>() {
                *first = depth.to_le_bytes();
            }
            if let Ok(directory) = Directory::from_bytes(&bytes) {
                directory.entry(bits);
                directory.split_from(bits, known);
            }
        }

        #[test]
        fn any_word_is_an_entry_or_none(word in any::<u64>()) {
            let back = Entry::from_word(word).map(Entry::word);
            prop_assert!(back.is_none_or(|back| back == word));
            let back = GlobalDepth::from_word(word).map(GlobalDepth::word);
            prop_assert!(back.is_err() || back == Ok(word));
        }
    }
}
