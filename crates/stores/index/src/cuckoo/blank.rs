//! [`BlankTable`]: a table that is initialised before use, a slice at a time.

use super::{CuckooTable, TABLE_MAGIC};
use crate::TableMemory;
use crate::table_header::TableHeader;

/// A [`CuckooTable`] that is being initialised, a slice at a time: every entry is *sealed*, that is written with its
/// checksum, as a free one. A reader of an entry that is not sealed yet finds a wrong checksum.
#[derive(Debug)]
pub struct BlankTable<M> {
    table: CuckooTable<M>,
    entry_count: usize,
}

impl<M: TableMemory> BlankTable<M> {
    /// Begins a table of `entry_count` entries at the start of `memory`: writes its header, with `epoch`, and no entry.
    ///
    /// # Panics
    /// If `entry_count` is not a power of two or the table does not fit into `memory`.
    pub fn new(mut memory: M, entry_count: usize, epoch: u64) -> BlankTable<M> {
        assert!(entry_count.is_power_of_two(), "{entry_count} entries");
        assert!(
            CuckooTable::<M>::bytes_for(entry_count) <= memory.bytes(),
            "{entry_count} entries"
        );
        let header = TableHeader::write(&mut memory, TABLE_MAGIC, epoch, entry_count as u64);
        let table = CuckooTable {
            memory,
            epoch,
            mask: entry_count as u64 - 1,
            keys: Vec::with_capacity(entry_count),
            len: 0,
            header,
            search: Default::default(),
            scrub_at: 0,
        };
        BlankTable { table, entry_count }
    }

    /// Seals the next `count` entries as free, or as many as are left. Returns true when none is left to seal.
    pub fn advance(&mut self, count: usize) -> bool {
        let begin = self.table.keys.len();
        let end = begin.saturating_add(count).min(self.entry_count);
        for index in begin..end {
            self.table.write(index as u64, None);
            self.table.keys.push(None);
        }
        end == self.entry_count
    }

    /// Seals the remaining entries and returns the table.
    pub fn finish(mut self) -> CuckooTable<M> {
        self.advance(usize::MAX);
        self.table
    }
}
