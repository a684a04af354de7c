//! [`CuckooTable`]: 3-1 cuckoo hashing of self-verifying entries, written by one owner, read by remote clients.
//!
//! ```text
//! offset 0                64             96                    64 + 32 i
//!        | header, 1 line | entry 0, 32 B | entry 1, 32 B | ... | entry i ...
//! ```
//!
//! The header is the same in all such tables: magic [`TABLE_MAGIC`], epoch, number of entries, count of moves.
//!
//! A key is in one of three entries ([`Candidates`]); an entry holds one key. Guarantees for a reader at any instant:
//!
//! - every key is in at least one of its candidates: an entry that moves is written to its new index before the old one
//!   is reused, so paths are executed backwards from their free end;
//! - a half-written entry has a wrong checksum;
//! - but the reader reads the candidates one after the other, and a key may move from one not yet read to one already
//!   read. So *a miss must be confirmed*.
//!
//! The owner keeps the full key hash of every entry separately from the table (24 bytes each, private): moving an entry
//! needs its key's other candidates, and reading the records for them would miss the cache up to 2000 times. Two keys
//! with the same 128-bit hash are the same key here.
//!
//! *(3-1, 75 %: stated in `[HERD §5.1]`; order of moves: read in public code; the rest: our choice.)*

mod blank;
mod candidates;
mod entry;
mod grow;
mod path;
mod scrub;

pub use blank::BlankTable;
pub use candidates::{CHOICES, Candidates, fingerprint};
pub use entry::{BadEntry, ENTRY_BYTES, Entry, RECORD_BYTES_MAX, RECORD_OFFSET_END, RecordRef, Seal};
pub use grow::{GrowingTable, Growth};
pub use path::VISITED_MAX;
pub use scrub::SCRUB_PER_DELETE;

pub use crate::table_header::{HEADER_BYTES, MOVES_OFFSET};

use crate::TableMemory;
use crate::table_header::TableHeader;
use drover_base::KeyHash;
use path::PathSearch;

/// First 8 bytes of a cuckoo table, little-endian: `DRVCUCK1`.
pub const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"DRVCUCK1");

/// No space for a key: grow the table or refuse the key. The key was not added, and no other key was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no space for a key after {VISITED_MAX} entries were searched")]
pub struct TableFull;

/// Offset of entry `index` from the start of the table, bytes.
#[inline]
pub const fn entry_offset(index: u64) -> usize {
    HEADER_BYTES + index as usize * ENTRY_BYTES
}

/// A cuckoo hash table that peers READ, as its only writer sees it: it owns the table's memory and, privately, the hash
/// of the key in each entry. Entries refer to records, which are elsewhere.
#[derive(Debug)]
pub struct CuckooTable<M> {
    memory: M,
    epoch: u64,
    mask: u64,
    keys: Vec<Option<KeyHash>>,
    len: usize,
    header: TableHeader,
    search: PathSearch,
    scrub_at: u64,
}

impl<M: TableMemory> CuckooTable<M> {
    /// Bytes of a table of `entry_count` entries, with its header.
    pub const fn bytes_for(entry_count: usize) -> usize {
        HEADER_BYTES + entry_count * ENTRY_BYTES
    }

    /// Creates an empty table of `entry_count` entries at the start of `memory`. Writes all of the table.
    ///
    /// # Panics
    /// If `entry_count` is not a power of two or the table does not fit into `memory`.
    pub fn new(memory: M, entry_count: usize, epoch: u64) -> CuckooTable<M> {
        BlankTable::new(memory, entry_count, epoch).finish()
    }

    /// Memory of the table.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Epoch of the table: a number in its header that the checksum of every entry covers, so that entries of an
    /// earlier table are invalid.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of entries, used or free.
    pub fn entry_count(&self) -> usize {
        self.keys.len()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether at least three quarters of the entries are used: beyond that, readers probe more entries and insertions
    /// move more keys. *(Pilaf's released code declares this limit but never checks it.)*
    pub fn wants_growth(&self) -> bool {
        self.len * 4 >= self.keys.len() * 3
    }

    /// The entries that the key with `hash` may be in.
    pub fn candidates(&self, hash: KeyHash) -> Candidates {
        Candidates::new(hash, self.mask)
    }

    /// Index of the entry that holds the key with `hash`; `None` if there is no such key.
    pub fn find(&self, hash: KeyHash) -> Option<u64> {
        let is_here = |index: &&u64| self.keys[**index as usize] == Some(hash);
        self.candidates(hash).as_slice().iter().find(is_here).copied()
    }

    /// The entry at `index`; `None` if it is free.
    ///
    /// # Panics
    /// If `index` is not below [`entry_count`](CuckooTable::entry_count).
    pub fn entry(&self, index: u64) -> Option<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        self.memory.load(entry_offset(index), &mut bytes);
        let entry = self.seal(index).open(&bytes);
        entry.expect("only the owner writes, and it seals what it writes")
    }

    /// Sets the record of the key with `hash`, new or not; returns its previous record, `None` for a new key. Costs one
    /// load and one store of 32 bytes if the key exists. The caller writes the record first, and keeps the old one
    /// intact until READs in progress have ended.
    ///
    /// # Errors
    /// [`TableFull`] if there is no space for a new key.
    ///
    /// # Panics
    /// If the record's offset or length is beyond the range of an entry.
    pub fn put(&mut self, hash: KeyHash, record: RecordRef) -> Result<Option<RecordRef>, TableFull> {
        if let Some(old) = self.replace(hash, record) {
            return Ok(Some(old));
        }
        self.insert(hash, record, 1)?;
        Ok(None)
    }

    /// As [`put`](CuckooTable::put), but moves no other key, so it is refused more often.
    fn put_where_free(&mut self, hash: KeyHash, record: RecordRef) -> Result<Option<RecordRef>, TableFull> {
        if let Some(old) = self.replace(hash, record) {
            return Ok(Some(old));
        }
        let index = self.free_place(&self.candidates(hash)).ok_or(TableFull)?;
        self.fill(index, hash, record, 1);
        Ok(None)
    }

    /// Replaces the record of an existing key.
    fn replace(&mut self, hash: KeyHash, record: RecordRef) -> Option<RecordRef> {
        let index = self.find(hash)?;
        let mut entry = self.entry(index).expect("a key is where an entry is");
        let old = std::mem::replace(&mut entry.record, record);
        entry.version = entry.version.wrapping_add(1);
        self.write(index, Some(&entry));
        Some(old)
    }

    /// Removes the key with `hash`; returns its record, or `None` if there was no such key.
    pub fn remove(&mut self, hash: KeyHash) -> Option<RecordRef> {
        let index = self.find(hash)?;
        let entry = self.entry(index).expect("a key is where an entry is");
        self.free(index);
        self.len -= 1;
        Some(entry.record)
    }

    /// Inserts a new key.
    fn insert(&mut self, hash: KeyHash, record: RecordRef, version: u32) -> Result<(), TableFull> {
        let candidates = self.candidates(hash);
        let index = match self.free_place(&candidates) {
            Some(index) => index,
            None => self.make_space(&candidates)?,
        };
        self.fill(index, hash, record, version);
        Ok(())
    }

    fn free_place(&self, candidates: &Candidates) -> Option<u64> {
        let is_free = |index: &&u64| self.keys[**index as usize].is_none();
        candidates.as_slice().iter().find(is_free).copied()
    }

    fn fill(&mut self, index: u64, hash: KeyHash, record: RecordRef, version: u32) {
        let choice = self.candidates(hash).choice_of(index);
        let entry = Entry {
            record,
            fingerprint: fingerprint(hash),
            version,
            choice: choice.expect("a place of its key"),
        };
        self.write(index, Some(&entry));
        self.keys[index as usize] = Some(hash);
        self.len += 1;
    }

    /// Moves keys along a path until one of `candidates` may be overwritten. That entry still holds a second copy of a
    /// key that has moved.
    fn make_space(&mut self, candidates: &Candidates) -> Result<u64, TableFull> {
        let mut search = std::mem::take(&mut self.search);
        let found = search.find(&self.keys, self.mask, candidates);
        let space = found.map(|path| {
            self.header.begin_moves(&mut self.memory);
            // Backwards from the free end: every key is present at every instant.
            for step in path.windows(2) {
                self.copy(step[1], step[0]);
            }
            self.header.end_moves(&mut self.memory);
            *path.last().expect("a path has a free end")
        });
        self.search = search;
        space.ok_or(TableFull)
    }

    /// Copies the entry at `from` to `to`, another candidate of its key.
    fn copy(&mut self, from: u64, to: u64) {
        let hash = self.keys[from as usize].expect("only entries move");
        let mut entry = self.entry(from).expect("only entries move");
        entry.choice = self.candidates(hash).choice_of(to).expect("a place of its key");
        self.write(to, Some(&entry));
        self.keys[to as usize] = Some(hash);
    }

    fn free(&mut self, index: u64) {
        self.write(index, None);
        self.keys[index as usize] = None;
    }

    fn seal(&self, index: u64) -> Seal {
        let epoch = self.epoch;
        Seal { epoch, index }
    }

    fn write(&mut self, index: u64, entry: Option<&Entry>) {
        let bytes = self.seal(index).close(entry);
        self.memory.store(entry_offset(index), &bytes);
    }

    /// Mean number of entries that a reader probes to find a key of the table; NaN if it is empty. Cost: visits every
    /// entry.
    pub fn mean_probes(&self) -> f64 {
        let probes = self.keys.iter().enumerate().filter_map(|(index, hash)| {
            let choice = self.candidates((*hash)?).choice_of(index as u64);
            Some(f64::from(choice.expect("a place of its key")) + 1.0)
        });
        probes.sum::<f64>() / self.len as f64
    }
}
