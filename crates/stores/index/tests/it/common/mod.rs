//! Shared code for tests of tables that peers READ: memory that records every store, a reader that fetches one entry at
//! a time, and tables filled and churned as the published figures assume.
#![allow(dead_code, reason = "every test program uses its own part")]

use drover_base::{HashSeed, KeyHash, Rng};
use drover_index::TableMemory;
use drover_index::cuckoo::{
    CuckooTable, ENTRY_BYTES, Entry, RecordRef, Seal, TableFull, entry_offset, fingerprint,
};
use std::cell::RefCell;
use std::rc::Rc;

/// The hash of key number `key`.
pub fn hash(key: u64) -> KeyHash {
    HashSeed::new(7, 8).hash(&key.to_le_bytes())
}

/// A record that identifies its key and write.
pub fn record(key: u64, write: u64) -> RecordRef {
    RecordRef {
        offset: key * 64,
        len: 48,
        sum: key << 32 | write,
    }
}

/// One store: offset and bytes.
pub type Store = (usize, Vec<u8>);

/// Memory that records its stores.
pub struct Watched {
    bytes: Vec<u8>,
    stores: Rc<RefCell<Vec<Store>>>,
}

impl Watched {
    pub fn new(bytes: usize) -> (Watched, Rc<RefCell<Vec<Store>>>) {
        let stores = Rc::new(RefCell::new(Vec::new()));
        let watched = Watched {
            bytes: vec![0; bytes],
            stores: stores.clone(),
        };
        (watched, stores)
    }

    /// A copy of the current bytes.
    pub fn image(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

impl TableMemory for Watched {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        self.bytes.load(offset, out);
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.store(offset, bytes);
        self.stores.borrow_mut().push((offset, bytes.to_vec()));
    }
}

/// A reader's view of the entry at `index` of the table in `image`: the entry if it is the key's.
pub fn probe(image: &[u8], epoch: u64, index: u64, key: KeyHash) -> Option<Entry> {
    let bytes = image[entry_offset(index)..]
        .first_chunk::<ENTRY_BYTES>()
        .expect("an entry");
    let entry = Seal { epoch, index }.open(bytes).expect("whole")?;
    (entry.fingerprint == fingerprint(key)).then_some(entry)
}

/// A table of vectors with `entry_count` entries.
pub fn table(entry_count: usize) -> CuckooTable<Vec<u8>> {
    let bytes = CuckooTable::<Vec<u8>>::bytes_for(entry_count);
    CuckooTable::new(vec![0; bytes], entry_count, 1)
}

/// A table of `entry_count` entries at `load`, fresh: nothing was ever deleted. Its keys are 0, 1, 2, ...
pub fn filled(entry_count: usize, load: f64) -> Result<CuckooTable<Vec<u8>>, TableFull> {
    let mut table = table(entry_count);
    for key in 0..(entry_count as f64 * load) as u64 {
        table.put(hash(key), record(key, 0))?;
    }
    Ok(table)
}

/// Deletes a random key and inserts a new one, `table_fulls` times the number of entries; scrubs `scrub` entries after
/// each.
pub fn churn(table: &mut CuckooTable<Vec<u8>>, table_fulls: usize, scrub: usize) {
    let mut rng = Rng::new(3, 0, 0);
    let mut keys: Vec<u64> = (0..table.len() as u64).collect();
    let first = keys.len() as u64;
    for next in first..first + (table_fulls * table.entry_count()) as u64 {
        let at = rng.below(keys.len() as u64) as usize;
        table.remove(hash(keys[at])).expect("it is there");
        table.put(hash(next), record(next, 0)).expect("space at 0.75");
        keys[at] = next;
        table.scrub(scrub);
    }
}

/// READs of a GET that finds its key: mean over `keys` with fingerprints, and without them as in Pilaf's released code:
/// then the record of every other key on the way is read, too.
pub fn reads_per_get(table: &CuckooTable<Vec<u8>>, keys: impl Iterator<Item = u64>) -> (f64, f64) {
    let (mut with, mut without, mut count) = (0u64, 0u64, 0u64);
    for key in keys {
        let Some(found) = table.find(hash(key)) else {
            continue;
        };
        count += 1;
        for &index in table.candidates(hash(key)).as_slice() {
            let entry = probe(table.memory(), table.epoch(), index, hash(key));
            let taken = table.entry(index).is_some();
            with += 1 + u64::from(entry.is_some());
            without += 1 + u64::from(taken);
            if index == found {
                break;
            }
        }
    }
    (with as f64 / count as f64, without as f64 / count as f64)
}
