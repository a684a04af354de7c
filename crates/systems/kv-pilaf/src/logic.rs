//! [`Lookup`]: which READ of a GET is next, decided from the bytes read so far.
//!
//! ```text
//! probe: READ candidate entry i
//!        the table was replaced       -> start with entry 0 of the new table
//!        torn                         -> after a backoff, start with entry 0; after TRIES_MAX: ask the server
//!        free, or another fingerprint -> next candidate; after the last: a miss, which the server must confirm
//!        READ record
//!        not this record              -> after a backoff, start with entry 0, as above
//!        another key                  -> next candidate
//!        seems expired                -> ask the server
//!        the value
//! ```
//! To ask the server takes one message; the answer is authoritative. *(Order of READs and retries: read in Pilaf's
//! public code, which has no fingerprints, retries for ever, and treats a miss as an answer. The rest: our choice.)*

use crate::layout::Record;
use drover_base::KeyHash;
use drover_index::cuckoo::{Candidates, ENTRY_BYTES, RecordRef, Seal, fingerprint};

/// Number of torn (or replaced) entries and records, in total, after which a GET still begins its READs again; after
/// the next one it asks the server. *(our choice)*
pub const TRIES_MAX: u32 = 8;

/// What a client does when no candidate entry has its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Miss {
    /// Ask the server: a key that moved between two probes is in none of the entries read.
    #[default]
    Confirmed,
    /// Report a miss. Sometimes wrong; only for tests that demonstrate this.
    Trusted,
}

/// Next step of a GET, for the caller to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// READ the table's entry with this index.
    Entry(u64),
    /// READ this record.
    Record(RecordRef),
    /// The data was torn or replaced: wait a little, then [`begin`](Lookup::begin) again.
    Retry,
    /// Ask the server by a message; its answer is authoritative.
    Ask,
    /// Report that the key does not exist: only with [`Miss::Trusted`].
    Miss,
    /// Report the value in the record of the last READ, which is the key's.
    Found,
}

/// What a reader knows of a shard's table and records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableShape {
    /// Epoch of the table, which the checksums of its entries cover.
    pub epoch: u64,
    /// Number of entries of the table, a power of two.
    pub entry_count: u64,
    /// Length of the records' memory, bytes.
    pub extents_bytes: u64,
    /// Longest record, bytes; a reader does not READ longer ones.
    pub record_bytes_max: u32,
}

/// State of one GET. It decides which READ is next, but posts none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    hash: KeyHash,
    epoch: u64,
    candidates: Candidates,
    at: usize,
    tries: u32,
    miss: Miss,
    record: RecordRef,
}

impl Lookup {
    /// Creates the state of a GET of the key with `hash`; [`begin`](Lookup::begin) returns the first step.
    ///
    /// # Panics
    /// In debug builds, if the table of `shape` has no entries.
    pub fn new(hash: KeyHash, shape: &TableShape, miss: Miss) -> Lookup {
        Lookup {
            hash,
            epoch: shape.epoch,
            candidates: Candidates::new(hash, shape.entry_count - 1),
            at: 0,
            tries: 0,
            miss,
            record: RecordRef::default(),
        }
    }

    /// Starts, or starts again, with the first candidate entry in the table of `shape`, which may have replaced the
    /// table of the last call.
    pub fn begin(&mut self, shape: &TableShape) -> Step {
        if self.epoch != shape.epoch {
            self.epoch = shape.epoch;
            self.candidates = Candidates::new(self.hash, shape.entry_count - 1);
        }
        self.at = 0;
        Step::Entry(self.candidates.as_slice()[0])
    }

    /// Location of the record of the last [`Step::Record`] or [`notified`](Lookup::notified).
    pub fn record(&self) -> &RecordRef {
        &self.record
    }

    /// Takes note that the server has named `record` as the key's. The caller READs it, and calls
    /// [`read`](Lookup::read).
    pub fn notified(&mut self, record: RecordRef) {
        self.record = record;
    }

    /// Handles the bytes of the entry that was READ, and returns the next step.
    pub fn entry(&mut self, bytes: &[u8; ENTRY_BYTES], shape: &TableShape) -> Step {
        // The READ is of a replaced table: the entry may be outdated, and the new table has other candidates.
        if self.epoch != shape.epoch {
            return self.begin(shape);
        }
        let index = self.candidates.as_slice()[self.at];
        let seal = Seal {
            epoch: shape.epoch,
            index,
        };
        match seal.open(bytes) {
            Err(_) => self.torn(),
            Ok(Some(entry)) if entry.fingerprint == fingerprint(self.hash) => {
                self.record = entry.record;
                // The checksum is right, but the address is still checked: a READ out of bounds would break the
                // connection.
                match is_within(&entry.record, shape) {
                    true => Step::Record(entry.record),
                    false => self.torn(),
                }
            }
            Ok(_) => self.next_place(),
        }
    }

    /// Handles the bytes of the record that was READ, and returns the next step. `key` is the key of the GET, `now_s`
    /// the current second of the server's clock.
    pub fn read(&mut self, bytes: &[u8], key: &[u8], now_s: u32, shape: &TableShape) -> Step {
        match Record::open(bytes, &self.record) {
            Err(_) => self.torn(),
            // The candidates belong to a replaced table.
            Ok(record) if record.key != key && self.epoch != shape.epoch => self.begin(shape),
            Ok(record) if record.key != key => self.next_place(),
            // Clients' clocks differ; only the server's clock decides, for all clients alike.
            Ok(record) if record.header.is_expired(now_s) => Step::Ask,
            Ok(_) => Step::Found,
        }
    }

    fn torn(&mut self) -> Step {
        self.tries += 1;
        match self.tries > TRIES_MAX {
            true => Step::Ask,
            false => Step::Retry,
        }
    }

    fn next_place(&mut self) -> Step {
        self.at += 1;
        match (self.candidates.as_slice().get(self.at), self.miss) {
            (Some(index), _) => Step::Entry(*index),
            (None, Miss::Confirmed) => Step::Ask,
            (None, Miss::Trusted) => Step::Miss,
        }
    }
}

/// Whether `record` is short enough and within the memory that a reader may READ.
pub fn is_within(record: &RecordRef, shape: &TableShape) -> bool {
    let end = record.offset.checked_add(u64::from(record.len));
    record.len <= shape.record_bytes_max && end.is_some_and(|end| end <= shape.extents_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;
    use drover_index::cuckoo::{CuckooTable, entry_offset};

    const SHAPE: TableShape = TableShape {
        epoch: 1,
        entry_count: 64,
        extents_bytes: 1 << 20,
        record_bytes_max: 4096,
    };

    fn hash(key: u64) -> KeyHash {
        HashSeed::new(1, 2).hash(&key.to_le_bytes())
    }

    fn record(key: u64) -> RecordRef {
        RecordRef {
            offset: key * 64,
            len: 40,
            sum: key,
        }
    }

    fn table(keys: u64) -> CuckooTable<Vec<u8>> {
        let bytes = CuckooTable::<Vec<u8>>::bytes_for(64);
        let mut table = CuckooTable::new(vec![0; bytes], 64, 1);
        for key in 0..keys {
            table.put(hash(key), record(key)).expect("space");
        }
        table
    }

    fn entry(table: &CuckooTable<Vec<u8>>, index: u64) -> [u8; ENTRY_BYTES] {
        *table.memory()[entry_offset(index)..]
            .first_chunk()
            .expect("an entry")
    }

    /// Pilaf's released code has no fingerprints, and reads the record of every key on the way.
    #[test]
    fn pilaf_records_of_other_keys_are_not_read() {
        let table = table(48);
        for key in 0..48 {
            let mut lookup = Lookup::new(hash(key), &SHAPE, Miss::Confirmed);
            let mut step = lookup.begin(&SHAPE);
            while let Step::Entry(index) = step {
                step = lookup.entry(&entry(&table, index), &SHAPE);
            }
            assert_eq!(step, Step::Record(record(key)));
        }
    }

    /// Pilaf's released code retries for ever, without a pause.
    #[test]
    fn pilaf_retries_end_with_a_question() {
        let mut lookup = Lookup::new(hash(1), &SHAPE, Miss::Confirmed);
        for _ in 0..TRIES_MAX {
            assert!(matches!(lookup.begin(&SHAPE), Step::Entry(_)));
            assert_eq!(lookup.entry(&[0; 32], &SHAPE), Step::Retry);
        }
        lookup.begin(&SHAPE);
        assert_eq!(lookup.entry(&[0; 32], &SHAPE), Step::Ask);
    }

    #[test]
    fn a_miss_is_a_question_unless_it_is_trusted() {
        let table = table(0);
        for (miss, want) in [(Miss::Confirmed, Step::Ask), (Miss::Trusted, Step::Miss)] {
            let mut lookup = Lookup::new(hash(1), &SHAPE, miss);
            let mut step = lookup.begin(&SHAPE);
            let mut reads = 0;
            while let Step::Entry(index) = step {
                step = lookup.entry(&entry(&table, index), &SHAPE);
                reads += 1;
            }
            assert_eq!((step, reads), (want, 3));
        }
    }

    /// Pilaf's released code READs as many bytes as an entry says into a buffer of a megabyte. Here, a hostile or
    /// faulty server cannot make its readers READ out of bounds.
    #[test]
    fn pilaf_records_out_of_bounds_are_not_read() {
        let mut table = table(0);
        let far = [(SHAPE.extents_bytes, 8), (SHAPE.extents_bytes - 8, 16), (0, 4097)];
        for (key, (offset, len)) in far.into_iter().enumerate() {
            let record = RecordRef { offset, len, sum: 0 };
            table.put(hash(key as u64), record).expect("space");
            let mut lookup = Lookup::new(hash(key as u64), &SHAPE, Miss::Confirmed);
            let mut step = lookup.begin(&SHAPE);
            while let Step::Entry(index) = step {
                step = lookup.entry(&entry(&table, index), &SHAPE);
            }
            assert_eq!(step, Step::Retry, "{record:?}");
        }
    }

    /// A reader probes while its key moves to an earlier candidate, as in `index`'s tests of the bytes alone: the
    /// reader's answer with and without confirmation.
    #[test]
    fn pilaf_a_key_that_moves_between_two_probes_is_asked_for() {
        let (mut missed, mut asked) = (0, 0);
        for key in 0..48 {
            for gone in (0..48).filter(|gone| *gone != key) {
                for miss in [Miss::Trusted, Miss::Confirmed] {
                    let mut table = table(48);
                    let mut lookup = Lookup::new(hash(key), &SHAPE, miss);
                    let Step::Entry(first) = lookup.begin(&SHAPE) else {
                        unreachable!("a place")
                    };
                    let mut step = lookup.entry(&entry(&table, first), &SHAPE);
                    // The owner changes the table between this reader's first and second READ.
                    table.remove(hash(gone));
                    table.scrub(64);
                    while let Step::Entry(index) = step {
                        step = lookup.entry(&entry(&table, index), &SHAPE);
                    }
                    missed += u32::from(step == Step::Miss);
                    asked += u32::from(step == Step::Ask);
                }
            }
        }
        assert!(missed > 0, "keys that are there all the time were never missed");
        assert_eq!(
            missed, asked,
            "whatever a trusting reader misses a confirming one asks for"
        );
    }
}
