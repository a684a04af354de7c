//! [`GrowingTable`]: a table that grows while in use, a slice at a time.
//!
//! ```text
//!            begin            advance, advance, ...           go_over         poison, poison, ...
//!   table ----+------------------------------------------------+- last: entry by entry of the next epoch --+ gone
//!   next      +- empty -- fills; PUT and DELETE go to both ----+---------------------------------------------> table
//! ```
//! Readers use the old table until the end. A key that does not fit in the old table is only in the new one; a reader
//! misses it, asks the server for confirmation, and gets the answer. After the end, readers that do not know the new
//! table yet still find in the old one the keys that have not changed since: an update poisons the key's old entry
//! before it is acknowledged, and the remaining entries follow slice by slice.

use super::{CuckooTable, RecordRef, TableFull};
use crate::TableMemory;
use drover_base::KeyHash;

/// Progress of a table's growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// The table is not growing.
    None,
    /// Some entries are not copied to the new table yet.
    Copying,
    /// The new table has all entries: call [`go_over`](GrowingTable::go_over) and announce the new table to readers, or
    /// announce it first and call [`finish`](GrowingTable::finish).
    Copied,
}

/// A cuckoo table that can grow while peers READ it: owns the current table, its successor while it grows, and the
/// previous one until it is *poisoned*: all its entries overwritten, so that readers find wrong checksums.
#[derive(Debug)]
pub struct GrowingTable<M> {
    table: CuckooTable<M>,
    next: Option<CuckooTable<M>>,
    copied: u64,
    /// Number of keys that do not fit in the old table.
    only_next: usize,
    /// The previous table, while some of its entries are still whole.
    last: Option<Last<M>>,
}

/// A previous table, and the number of its entries that are poisoned.
#[derive(Debug)]
struct Last<M> {
    table: CuckooTable<M>,
    poisoned: u64,
}

impl<M: TableMemory> GrowingTable<M> {
    /// Takes ownership of `table`; it is not growing.
    pub fn new(table: CuckooTable<M>) -> GrowingTable<M> {
        GrowingTable {
            table,
            next: None,
            copied: 0,
            only_next: 0,
            last: None,
        }
    }

    /// The current table: the one that readers use, or are to use once they know it.
    pub fn table(&self) -> &CuckooTable<M> {
        &self.table
    }

    /// The table that is being filled, which readers will use next; `None` unless the table is growing.
    pub fn next(&self) -> Option<&CuckooTable<M>> {
        self.next.as_ref()
    }

    /// The record of the key with `hash`; `None` if there is no such key.
    pub fn get(&self, hash: KeyHash) -> Option<RecordRef> {
        let in_table = |table: &CuckooTable<M>| Some(table.entry(table.find(hash)?)?.record);
        in_table(&self.table).or_else(|| self.next.as_ref().and_then(in_table))
    }

    /// As [`CuckooTable::put`]. While the table is growing, it writes to both tables; a new key for which the old table
    /// has no free entry is only in the new one. An entry of the key in the previous table is poisoned.
    ///
    /// # Errors
    /// [`TableFull`] if there is no space for a new key in the newest table.
    ///
    /// # Panics
    /// As [`CuckooTable::put`].
    pub fn put(&mut self, hash: KeyHash, record: RecordRef) -> Result<Option<RecordRef>, TableFull> {
        let Some(next) = &mut self.next else {
            let before = self.table.put(hash, record)?;
            self.poison_key(hash);
            return Ok(before);
        };
        let before = next.put(hash, record)?;
        let was_only_next = before.is_some() && self.table.find(hash).is_none();
        // No entry may move in the old table: it could move from a part not yet copied to a part already copied. If
        // there is no free entry, the key stays out of the old table: readers that miss it ask for confirmation.
        let old = self.table.put_where_free(hash, record);
        let is_only_next = old == Err(TableFull);
        self.only_next = self.only_next + usize::from(is_only_next) - usize::from(was_only_next);
        Ok(old.unwrap_or(None).or(before))
    }

    /// As [`CuckooTable::remove`], in all tables: current, next and previous.
    pub fn remove(&mut self, hash: KeyHash) -> Option<RecordRef> {
        self.poison_key(hash);
        let next = self.next.as_mut().and_then(|next| next.remove(hash));
        let old = self.table.remove(hash);
        self.only_next -= usize::from(old.is_none() && next.is_some());
        old.or(next)
    }

    /// Poisons the key's entry in the previous table, so that its readers do not find an outdated record.
    fn poison_key(&mut self, hash: KeyHash) {
        if let Some(last) = &mut self.last
            && let Some(index) = last.table.find(hash)
        {
            last.table.free(index);
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.table.len() + self.only_next
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`CuckooTable::scrub`], but does nothing, and returns 0, while the table is growing.
    pub fn scrub(&mut self, count: usize) -> usize {
        match self.next {
            None => self.table.scrub(count),
            // While copying slice by slice, no entry may move from a later slice to an earlier one.
            Some(_) => 0,
        }
    }

    /// Begins to grow into `next`, which must be empty, larger, and of another epoch.
    ///
    /// # Panics
    /// If the table is already growing, the previous one is not completely poisoned, or `next` does not fulfil the
    /// conditions.
    pub fn begin(&mut self, next: CuckooTable<M>) {
        assert!(
            self.next.is_none() && self.last.is_none(),
            "a table grows once at a time"
        );
        assert!(next.is_empty() && next.entry_count() > self.table.entry_count());
        assert_ne!(
            next.epoch(),
            self.table.epoch(),
            "entries of both would look alike"
        );
        self.next = Some(next);
        self.copied = 0;
    }

    /// Visits the next `count` entries of the old table, and copies those in use to the new one. Returns
    /// [`Growth::Copying`] if entries are left to visit, [`Growth::Copied`] if not, [`Growth::None`] if the table is
    /// not growing.
    ///
    /// # Errors
    /// [`TableFull`] if the new table has no space for an entry: [`restart`](GrowingTable::restart) with a larger one.
    pub fn advance(&mut self, count: usize) -> Result<Growth, TableFull> {
        let Some(next) = &mut self.next else {
            return Ok(Growth::None);
        };
        let end = (self.copied + count as u64).min(self.table.entry_count() as u64);
        while self.copied < end {
            if let Some(hash) = self.table.keys[self.copied as usize]
                && next.find(hash).is_none()
            {
                let entry = self.table.entry(self.copied).expect("a key is where an entry is");
                next.insert(hash, entry.record, entry.version)?;
            }
            self.copied += 1;
        }
        match end == self.table.entry_count() as u64 {
            true => Ok(Growth::Copied),
            false => Ok(Growth::Copying),
        }
    }

    /// Replaces the new table by a larger one, `next`, which must be as for [`begin`](GrowingTable::begin), and starts
    /// copying again.
    ///
    /// # Errors
    /// [`TableFull`] if `next` has no space either; then the table continues to grow as before.
    ///
    /// # Panics
    /// If the table is not growing, or `next` is not empty or not larger than the table that it replaces. (Its epoch is
    /// not checked here.)
    pub fn restart(&mut self, mut next: CuckooTable<M>) -> Result<(), TableFull> {
        let given_up = self.next.as_ref().expect("a table that grows");
        assert!(next.is_empty() && next.entry_count() > given_up.entry_count());
        for (index, hash) in given_up.keys.iter().enumerate() {
            let Some(hash) = *hash else { continue };
            if self.table.find(hash).is_none() {
                let entry = given_up.entry(index as u64).expect("a key is where an entry is");
                next.insert(hash, entry.record, entry.version)?;
            }
        }
        (self.next, self.copied) = (Some(next), 0);
        Ok(())
    }

    /// Makes the new table the current one. The caller then announces it to readers, and
    /// [`poison`](GrowingTable::poison)s the old one.
    ///
    /// # Panics
    /// If the table is not growing, or entries are left to copy.
    pub fn go_over(&mut self) {
        assert!(
            self.copied == self.table.entry_count() as u64,
            "entries are left to copy"
        );
        let next = self.next.take().expect("a table that grows");
        let mut table = std::mem::replace(&mut self.table, next);
        self.only_next = 0;
        // Entries sealed there from now on are invalid for readers of that table.
        table.epoch = self.table.epoch;
        self.last = Some(Last { table, poisoned: 0 });
    }

    /// Poisons the next `count` entries of the previous table: its readers find no whole entry and ask for the new
    /// table. Returns the previous table once all its entries are poisoned: keep its memory registered until no client
    /// can be reading it. `None` if entries are left to poison, or there is no previous table.
    pub fn poison(&mut self, count: usize) -> Option<CuckooTable<M>> {
        let last = self.last.as_mut()?;
        let entry_count = last.table.entry_count();
        let end = (last.poisoned as usize).saturating_add(count).min(entry_count);
        for index in last.poisoned..end as u64 {
            last.table.free(index);
        }
        last.poisoned = end as u64;
        if end < entry_count {
            return None;
        }
        let mut table = self.last.take()?.table;
        table.len = 0;
        Some(table)
    }

    /// Whether the previous table still has entries to poison.
    pub fn is_poisoning(&self) -> bool {
        self.last.is_some()
    }

    /// Makes the new table the current one and returns the old one, completely poisoned.
    ///
    /// # Panics
    /// If the table is not growing, or entries are left to copy.
    pub fn finish(&mut self) -> CuckooTable<M> {
        self.go_over();
        self.poison(usize::MAX).expect("a table was left just now")
    }
}
