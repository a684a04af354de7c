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
//! | 48 | 4 | | 0 |
//! | 52 | 4 | tables | of each node; 0 counts as 1 |
//! | 56 | 8 | | 0 |
//! | 64 | 8 each | entries | 2^(depth max) |
//! | | 8 each | subtable locks | 2^(depth max) |
//!
//! Little-endian. The client that creates the table writes all of it before it sets the root.

use drover_base::HashSeed;
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
const TABLES_AT: usize = 52;

/// What does not change as long as a table exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableHeader {
    /// Seed of the keys' hashes; the same in all tables of a pool.
    pub seed: HashSeed,
    /// Shape of every subtable.
    pub shape: Shape,
    /// Most bits of the hash that choose a subtable, at most [`DEPTH_MAX`].
    pub depth_max: u8,
    /// Tables of each node, at least 1 and at most [`TABLES_MAX`]: each has locks and a directory of its own.
    pub tables: u32,
}

impl TableHeader {
    /// Bytes of the table without subtables.
    pub const fn table_bytes(&self) -> usize {
        TABLE_HEADER_BYTES + (16 << self.depth_max)
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
        let is_right = word(MAGIC_AT) == MAGIC && depth_max <= DEPTH_MAX && tables <= TABLES_MAX;
        is_right.then_some(TableHeader {
            seed: HashSeed::new(word(SEED_AT), word(SEED_AT + 8)),
            shape,
            depth_max,
            tables,
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
            tables: 3,
        };
        let bytes = header.encode();
        assert_eq!(TableHeader::decode(&bytes), Some(header));
        assert_eq!(bytes[24..32], [0, 4, 0, 0, 10, 0, 0, 0]);
        assert_eq!(header.table_bytes(), 64 + 16 * 1024);
        assert_eq!(header.subtable_lock(1023) as usize + 8, header.table_bytes());
    }

    #[test]
    fn bytes_that_are_no_header() {
        assert_eq!(TableHeader::decode(&[0; 64]), None);
        assert_eq!(TableHeader::decode(&[0xff; 64]), None);
        let header = TableHeader {
            seed: HashSeed::new(1, 2),
            shape: Shape::new(2).expect("groups"),
            depth_max: 17,
            tables: 1,
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
    }
}
