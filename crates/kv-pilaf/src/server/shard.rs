//! [`Shard`]: the keys of one server, in memory that clients READ. No verbs here.
//!
//! A write in four steps, so that a reader at any instant finds a whole record, old or new: room for the new record; its bytes;
//! the entry, which names it; and only then the old record's place goes into quarantine.

use crate::layout::{RECORD_HEADER_BYTES, RecordHeader, record_bytes};
use drover_base::{KeyHash, Ns};
use drover_index::Crc64;
use drover_index::cuckoo::{CuckooTable, RecordRef, SCRUB_PER_DELETE};
use drover_kv::Refusal;
use drover_mem::Region;
use drover_store::{Extent, Extents, ExtentsOptions};
use std::collections::VecDeque;

/// Bytes summed at a time.
const PIECE: usize = 4096;

/// Places let out of quarantine for every write: more than a write puts in.
const RELEASED_PER_WRITE: usize = 4;

/// Table, records, and what becomes of them when there is no room.
pub(super) struct Shard {
    table: CuckooTable<Region>,
    memory: Region,
    extents: Extents,
    item_bytes_max: usize,
    /// Cache: keys in the order of their records, with those; some have another record by now.
    eldest: Option<VecDeque<(KeyHash, u64)>>,
    version: u64,
    sums: Vec<u8>,
}

/// A record in the making: room that no reader knows of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    extent: Extent,
    header: RecordHeader,
}

impl Draft {
    /// Where the value goes, from the start of the extents.
    pub(super) fn value_offset(&self) -> usize {
        self.extent.offset as usize + RECORD_HEADER_BYTES + self.header.key_bytes
    }
}

/// A record found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) record: RecordRef,
    pub(super) value_offset: usize,
    pub(super) value_bytes: usize,
}

impl Shard {
    pub(super) fn new(
        table: CuckooTable<Region>,
        memory: Region,
        extents: ExtentsOptions,
        item_bytes_max: usize,
        evicts: bool,
    ) -> Shard {
        Shard {
            table,
            memory,
            extents: Extents::new(extents),
            item_bytes_max,
            eldest: evicts.then(VecDeque::new),
            version: 0,
            sums: vec![0; PIECE],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The record of `key`, unless it has expired.
    pub(super) fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Found> {
        let record = self.table.entry(self.table.find(hash)?)?.record;
        let mut header = [0; RECORD_HEADER_BYTES];
        self.memory.copy_out(record.offset as usize, &mut header);
        let header = RecordHeader::decode(&header);
        let mut its_key = [0; drover_kv::KEY_BYTES_MAX];
        let its_key = its_key.get_mut(..header.key_bytes)?;
        self.memory
            .copy_out(record.offset as usize + RECORD_HEADER_BYTES, its_key);
        if its_key != key || header.is_expired(now_s) {
            return None;
        }
        Some(Found {
            record,
            value_offset: record.offset as usize + RECORD_HEADER_BYTES + header.key_bytes,
            value_bytes: header.value_bytes,
        })
    }

    /// Copies bytes of the extents out: a value that a reply carries.
    pub(super) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        self.memory.copy_out(offset, out);
    }

    /// Room for a record, and all of it but the value.
    pub(super) fn draft(
        &mut self,
        key: &[u8],
        value_bytes: usize,
        expire_s: u32,
        now: Ns,
    ) -> Result<Draft, Refusal> {
        let bytes = record_bytes(key.len(), value_bytes);
        if bytes > self.item_bytes_max {
            return Err(Refusal::TooLarge);
        }
        self.extents.release(now, RELEASED_PER_WRITE);
        let extent = self.room(bytes, now).ok_or(Refusal::Full)?;
        self.version += 1;
        let header = RecordHeader {
            key_bytes: key.len(),
            value_bytes,
            version: self.version,
            expire_s,
        };
        let at = extent.offset as usize;
        self.memory.copy_in(at, &header.encode());
        self.memory.copy_in(at + RECORD_HEADER_BYTES, key);
        Ok(Draft { extent, header })
    }

    /// Gives up a draft.
    pub(super) fn drop_draft(&mut self, draft: Draft) {
        self.extents.free(draft.extent);
    }

    /// Copies a value into its draft.
    pub(super) fn write_value(&mut self, draft: &Draft, value: &[u8]) {
        self.memory.copy_in(draft.value_offset(), value);
    }

    /// The value is where it belongs: the key with `hash` has it from now on. The sum is computed here, over what is in
    /// memory: a client's word for it could make every reader fail for ever.
    pub(super) fn publish(&mut self, hash: KeyHash, draft: Draft, now: Ns) -> Result<(), Refusal> {
        let record = RecordRef {
            offset: draft.extent.offset,
            len: draft.extent.len,
            sum: self.sum(draft.extent),
        };
        loop {
            match self.table.put(hash, record) {
                Ok(old) => {
                    self.retire(old, now);
                    break;
                }
                Err(_) if self.evict(now) => {}
                Err(_) => {
                    self.drop_draft(draft);
                    return Err(Refusal::Full);
                }
            }
        }
        self.remember(hash, record.offset);
        Ok(())
    }

    /// Removes `key`; false if there is no such key, or it had expired.
    pub(super) fn remove(&mut self, hash: KeyHash, key: &[u8], now: Ns, now_s: u32) -> bool {
        let was_there = self.get(hash, key, now_s).is_some();
        // One that had expired goes, too.
        let old = self.table.remove(hash);
        self.retire(old, now);
        self.table.scrub(SCRUB_PER_DELETE);
        was_there
    }

    fn retire(&mut self, record: Option<RecordRef>, now: Ns) {
        if let Some(RecordRef { offset, len, .. }) = record {
            self.extents.retire(Extent { offset, len }, now);
        }
    }

    /// A place; what waits in quarantine goes before what is in use.
    fn room(&mut self, bytes: usize, now: Ns) -> Option<Extent> {
        loop {
            if let Some(extent) = self.extents.alloc(bytes) {
                return Some(extent);
            }
            if !self.extents.release_early() && !self.evict(now) {
                return None;
            }
        }
    }

    /// A cache forgets the key whose record is oldest. One-sided readers leave no trace, so age is all it knows.
    fn evict(&mut self, now: Ns) -> bool {
        while let Some((hash, offset)) = self.eldest.as_mut().and_then(VecDeque::pop_front) {
            let index = self.table.find(hash);
            let record = index
                .and_then(|index| self.table.entry(index))
                .map(|entry| entry.record);
            if record.is_some_and(|record| record.offset == offset) {
                let old = self.table.remove(hash);
                self.retire(old, now);
                return true;
            }
        }
        false
    }

    fn remember(&mut self, hash: KeyHash, offset: u64) {
        let Some(eldest) = &mut self.eldest else { return };
        eldest.push_back((hash, offset));
        // Keys written again and again leave old lines behind.
        if eldest.len() > 2 * self.table.len() + 64 {
            let table = &self.table;
            eldest.retain(|(hash, offset)| {
                let entry = table.find(*hash).and_then(|index| table.entry(index));
                entry.is_some_and(|entry| entry.record.offset == *offset)
            });
        }
    }

    fn sum(&mut self, extent: Extent) -> u64 {
        let (mut at, mut left) = (extent.offset as usize, extent.len as usize);
        let mut sum = Crc64::default();
        while left > 0 {
            let piece = &mut self.sums[..left.min(PIECE)];
            self.memory.copy_out(at, piece);
            sum = sum.bytes(piece);
            (at, left) = (at + piece.len(), left - piece.len());
        }
        sum.sum()
    }
}
