//! [`TableHeader`]: the bytes of a shard's table apart from its subtables.
//!
//! A node has one table or several: root [`TABLE_ROOT`] is the offset of the first one, the roots behind it those of the
//! others; 0: none yet. A table:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | global depth | see [`Directory`](drover_index::race::Directory); changed by splits |
//! | 8 | 16 | hash seed | its two halves; secret, which is why a pool is for those who trust each other |
//! | 24 | 4 | group count | groups of every subtable |
//! | 28 | 4 | depth max | most bits of the hash that choose a subtable |
//! | 32 | 8 | directory lock | a [`Lock`](drover_memnode::locks::Lock) |
//! | 40 | 8 | magic | `DRVRACE1` |
//! | 48 | 4 | item bytes max | longest item that clients write: key and value; 0: no limit but that of blocks |
//! | 52 | 4 | tables | of each node; 0 counts as 1 |
//! | 56 | 8 | mode | bit 0: clients remove items when memory or a table is full; bit 1: the hash of keys is AES, not XXH3; the others are 0 |
//! | 64 | 8 each | entries | 2^(depth max) |
//! | | 8 each | subtable locks | 2^(depth max) |
//! | | 8 | sweep lock | a [`Lock`](drover_memnode::locks::Lock): who looks for expired items |
//! | | 8 | swept | seconds of the node's clock when somebody last began to look for them |
//! | | 8 | flushes | see [`Flushes`] |
//! | | 40 | | 0 |
//!
//! Little-endian. The client that creates the table writes all of it before it sets the root.

use drover_base::{HashKind, HashSeed};
use drover_index::race::{DEPTH_MAX, ENTRIES_OFFSET, Shape};

/// The root of a node that leads to its first table.
pub const TABLE_ROOT: usize = 0;

/// Most tables of a node.
pub const TABLES_MAX: u32 = 64;

/// Bytes of the header before the entries.
pub const TABLE_HEADER_BYTES: usize = ENTRIES_OFFSET;

const MAGIC: u64 = u64::from_le_bytes(*b"DRVRACE1");
const SEED_AT: usize = 8;
const SHAPE_AT: usize = 24;
const DIRECTORY_LOCK_AT: usize = 32;
const MAGIC_AT: usize = 40;
const ITEM_AT: usize = 48;
const TABLES_AT: usize = 52;
const MODE_AT: usize = 56;

/// Bit of the mode: clients evict.
const EVICTS: u64 = 1;
/// Bit of the mode: the hash of keys is AES. Clients of versions that know XXH3 only refuse a table with the bit.
const AES: u64 = 2;

/// Bytes behind the locks: sweep lock, time, flushes.
const TAIL_BYTES: usize = 64;
/// Bytes of these that are in use.
pub(crate) const TAIL_USED_BYTES: usize = 24;
pub(crate) const SWEPT_AT: u64 = 8;
pub(crate) const FLUSHES_AT: u64 = 16;

/// Times, in seconds of the node's clock, up to which items are gone: whatever was written then or before, once the time
/// is over. One has come; another may be ahead.
///
/// | bits | field | meaning |
/// |---|---|---|
/// | 0..32 | last | the latest flush that has come; 0: none |
/// | 32..64 | next | one that is ahead, or has come since the word was written; 0: none |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushes {
    last_s: u32,
    next_s: u32,
}

impl Flushes {
    /// The flushes of this word, whatever it is.
    pub const fn from_word(word: u64) -> Flushes {
        Flushes {
            last_s: word as u32,
            next_s: (word >> 32) as u32,
        }
    }

    /// As it is stored.
    pub const fn word(self) -> u64 {
        (self.next_s as u64) << 32 | self.last_s as u64
    }

    /// The latest flush that has come by `now_s`; 0: none.
    #[inline]
    pub fn come(self, now_s: u32) -> u32 {
        let has_come = |at_s: u32| if now_s > at_s { at_s } else { 0 };
        has_come(self.last_s).max(has_come(self.next_s))
    }

    /// Whether an item that was written at `created_s` is gone by `now_s`.
    #[inline]
    pub fn cover(self, created_s: u32, now_s: u32) -> bool {
        let come_s = self.come(now_s);
        come_s != 0 && created_s <= come_s
    }

    /// With one more, asked for at `now_s`. It takes the place of one that is ahead.
    #[must_use]
    pub fn with(self, at_s: u32, now_s: u32) -> Flushes {
        match at_s > now_s {
            true => Flushes {
                last_s: self.come(now_s),
                next_s: at_s,
            },
            false => Flushes {
                last_s: self.come(now_s).max(at_s),
                next_s: 0,
            },
        }
    }
}

/// What does not change as long as a table exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableHeader {
    /// Seed and kind of the keys' hashes; the same in all tables of a pool.
    pub seed: HashSeed,
    /// Shape of every subtable.
    pub shape: Shape,
    /// Most bits of the hash that choose a subtable, at most [`DEPTH_MAX`].
    pub depth_max: u8,
    /// Longest item that clients write: key and value, bytes; `u32::MAX`: no limit but that of a block.
    pub item_bytes_max: u32,
    /// Tables of each node, at least 1 and at most [`TABLES_MAX`]: each has locks and a directory of its own.
    pub tables: u32,
    /// Whether clients remove items when memory or a table is full, whatever their own
    /// [options](crate::RaceOptions::evicts) say: all processes of a pool agree then.
    pub evicts: bool,
}

impl TableHeader {
    /// Bytes of the table without subtables.
    pub const fn table_bytes(&self) -> usize {
        self.tail() as usize + TAIL_BYTES
    }

    /// Offset of what stands behind the locks.
    pub(crate) const fn tail(&self) -> u64 {
        TABLE_HEADER_BYTES as u64 + (16 << self.depth_max)
    }

    /// Offset of the directory's lock from the start of the table.
    pub const fn directory_lock(&self) -> u64 {
        DIRECTORY_LOCK_AT as u64
    }

    /// Offset of the lock for the subtable of this suffix.
    pub const fn subtable_lock(&self, suffix: u32) -> u64 {
        TABLE_HEADER_BYTES as u64 + (8 << self.depth_max) + suffix as u64 * 8
    }

    /// The header of a directory of depth 0.
    pub fn encode(&self) -> [u8; TABLE_HEADER_BYTES] {
        let mut bytes = [0; TABLE_HEADER_BYTES];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let (k0, k1) = self.seed.halves();
        put(SEED_AT, k0);
        put(SEED_AT + 8, k1);
        let shape = u64::from(self.shape.group_count());
        put(SHAPE_AT, shape | u64::from(self.depth_max) << 32);
        put(MAGIC_AT, MAGIC);
        put(ITEM_AT, u64::from(self.item_bytes_max));
        let evicts = if self.evicts { EVICTS } else { 0 };
        let hash = match self.seed.kind() {
            HashKind::Aes => AES,
            HashKind::Xxh3 => 0,
        };
        put(MODE_AT, evicts | hash);
        bytes[TABLES_AT..TABLES_AT + 4].copy_from_slice(&self.tables.to_le_bytes());
        bytes
    }

    /// Decodes a header of any bytes; `None` if they are none.
    pub fn decode(bytes: &[u8; TABLE_HEADER_BYTES]) -> Option<TableHeader> {
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| u64::from_le_bytes(words[at / 8]);
        let shape = Shape::new(word(SHAPE_AT) as u32)?;
        let depth_max = u8::try_from(word(SHAPE_AT) >> 32).ok()?;
        let tables = ((word(TABLES_AT / 8 * 8) >> 32) as u32).max(1);
        let mode = word(MODE_AT);
        let is_known = word(MAGIC_AT) == MAGIC && mode & !(EVICTS | AES) == 0;
        let is_right = is_known && depth_max <= DEPTH_MAX && tables <= TABLES_MAX;
        let hash = match mode & AES {
            0 => HashKind::Xxh3,
            _ => HashKind::Aes,
        };
        is_right.then_some(TableHeader {
            seed: HashSeed::of(hash, word(SEED_AT), word(SEED_AT + 8)),
            shape,
            depth_max,
            item_bytes_max: match word(ITEM_AT) as u32 {
                0 => u32::MAX,
                bytes => bytes,
            },
            tables,
            evicts: mode & EVICTS != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout() {
        let header = TableHeader {
            seed: HashSeed::new(1, 2),
            shape: Shape::new(1024).expect("groups"),
            depth_max: 10,
            item_bytes_max: 4096,
            tables: 3,
            evicts: true,
        };
        let bytes = header.encode();
        assert_eq!(TableHeader::decode(&bytes), Some(header));
        assert_eq!(bytes[MODE_AT], 1);
        assert_eq!(bytes[24..32], [0, 4, 0, 0, 10, 0, 0, 0]);
        assert_eq!(header.table_bytes(), 64 + 16 * 1024 + 64);
        assert_eq!(header.subtable_lock(1023) + 8, header.tail());
    }

    /// A table of before there were kinds has no bit of one, and a client of that time refuses one that has.
    #[test]
    fn a_table_says_how_its_keys_are_hashed() {
        for (kind, mode) in [(HashKind::Xxh3, 0), (HashKind::Aes, 2)] {
            let header = TableHeader::usual(HashSeed::of(kind, 1, 2));
            let bytes = header.encode();
            assert_eq!(bytes[MODE_AT], mode);
            assert_eq!(TableHeader::decode(&bytes), Some(header));
        }
    }

    #[test]
    fn items_of_before_a_flush_are_gone() {
        let none = Flushes::default();
        assert!(!none.cover(1, 100));
        // Whatever a node's clock showed.
        assert!(!none.cover(0, 100) && !none.cover(0, 0));
        let now = none.with(100, 100);
        // Of the same second, but not before it is over.
        assert!(!now.cover(100, 100) && now.cover(100, 101) && !now.cover(101, 101));
        let ahead = now.with(200, 110);
        assert_eq!(ahead, Flushes::from_word(ahead.word()));
        assert!(ahead.cover(100, 110) && !ahead.cover(105, 110));
        assert!(ahead.cover(105, 201) && ahead.cover(200, 201) && !ahead.cover(201, 201));
        // One that has come stays, one that is ahead is replaced.
        let later = ahead.with(300, 250);
        assert!(later.cover(200, 250) && !later.cover(201, 250) && later.cover(300, 301));
        let sooner = later.with(260, 260);
        assert!(sooner.cover(260, 301) && !sooner.cover(300, 301));
    }

    #[test]
    fn bytes_that_are_no_header() {
        assert_eq!(TableHeader::decode(&[0; 64]), None);
        assert_eq!(TableHeader::decode(&[0xff; 64]), None);
        let header = TableHeader {
            seed: HashSeed::new(1, 2),
            shape: Shape::new(2).expect("groups"),
            depth_max: 17,
            item_bytes_max: u32::MAX,
            tables: 1,
            evicts: false,
        };
        assert_eq!(TableHeader::decode(&header.encode()), None);
        let right = TableHeader {
            depth_max: 16,
            ..header
        };
        assert_eq!(TableHeader::decode(&right.encode()), Some(right));
        let many = TableHeader {
            tables: TABLES_MAX + 1,
            ..right
        };
        assert_eq!(TableHeader::decode(&many.encode()), None);
        let mut other_mode = right.encode();
        other_mode[MODE_AT] = 4;
        assert_eq!(TableHeader::decode(&other_mode), None);
    }
}
