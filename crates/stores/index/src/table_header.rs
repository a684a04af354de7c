//! [`TableHeader`]: the first line of a table that peers READ.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | magic | kind of table |
//! | 8 | 8 | epoch | epoch of this table |
//! | 16 | 8 | count | number of entries or homes |
//! | 24 | 8 | moves | odd while entries move |
//! | 32 | 32 | | 0 |
//!
//! Little-endian, written by the owner. A reader READs the count of moves, then all candidate slots of a key, then the
//! count again, each after the previous READ has completed. If both counts are the same even number, it has not missed
//! a moving key. Counts within the slots are not sufficient: lines of one READ are seen in any order, so the first and
//! the last line may both be older than a move that is half visible in between.

use crate::TableMemory;

/// Bytes of a table's header, before its first entry or slot.
pub const HEADER_BYTES: usize = 64;

/// Offset in the table of the 8-byte count of moves, bytes. The owner increments the count before and after it moves
/// entries, so it is odd while entries move.
pub const MOVES_OFFSET: usize = 24;

/// The owner's copy of the header.
#[derive(Debug, Default)]
pub(crate) struct TableHeader {
    moves: u64,
}

impl TableHeader {
    pub(crate) fn write(memory: &mut impl TableMemory, magic: u64, epoch: u64, count: u64) -> TableHeader {
        let mut header = [0; HEADER_BYTES];
        for (at, word) in [magic, epoch, count].into_iter().enumerate() {
            header[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        memory.store(0, &header);
        TableHeader::default()
    }

    pub(crate) fn begin_moves(&mut self, memory: &mut impl TableMemory) {
        debug_assert!(self.moves.is_multiple_of(2), "moves within moves");
        self.count(memory);
    }

    pub(crate) fn end_moves(&mut self, memory: &mut impl TableMemory) {
        self.count(memory);
    }

    fn count(&mut self, memory: &mut impl TableMemory) {
        self.moves += 1;
        memory.store(MOVES_OFFSET, &self.moves.to_le_bytes());
    }
}
