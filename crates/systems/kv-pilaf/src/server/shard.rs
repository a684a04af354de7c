//! [`Shard`]: the keys of one server, in memory that clients READ. It posts no verbs.
//!
//! A write has four steps, so that a reader always finds a complete record, old or new: allocate the new record; write
//! its bytes; write the entry that names it; put the old record into quarantine.

use crate::layout::{RECORD_HEADER_BYTES, RecordHeader, Status, record_bytes};
use drover_base::{Condition, Crc64, KeyHash, Ns};
use drover_index::cuckoo::{CuckooTable, GrowingTable, RecordRef, SCRUB_PER_DELETE, TableFull};
use drover_kv::Refusal;
use drover_mem::Region;
use drover_store::{Extent, Extents, ExtentsOptions};
use std::collections::VecDeque;

/// Bytes per step of a checksum's computation.
const PIECE: usize = 4096;

/// Extents released from quarantine per write; more than a write adds.
const RELEASED_PER_WRITE: usize = 4;

/// Table and records, and the state for eviction.
pub(super) struct Shard {
    pub(super) table: GrowingTable<Region>,
    memory: Region,
    extents: Extents,
    item_bytes_max: usize,
    /// Cache mode: keys with the offsets of their records, oldest first; some keys have a newer record.
    eldest: Option<VecDeque<(KeyHash, u64)>>,
    version: u64,
    evictions: u64,
    sums: Vec<u8>,
}

/// A record that is being written; no entry names it yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    extent: Extent,
    header: RecordHeader,
}

impl Reservation {
    /// Offset of the value from the start of the extents, bytes.
    pub(super) fn value_offset(&self) -> usize {
        self.extent.offset as usize + RECORD_HEADER_BYTES + self.header.key_bytes
    }
}

/// Location of a record that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) header: RecordHeader,
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
            table: GrowingTable::new(table),
            memory,
            extents: Extents::new(extents),
            item_bytes_max,
            eldest: evicts.then(VecDeque::new),
            version: 0,
            evictions: 0,
            sums: vec![0; PIECE],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.extents.used_bytes()
    }

    /// Bytes that records may have.
    pub(super) fn record_bytes(&self) -> usize {
        self.extents.bytes()
    }

    /// Gives up `bytes` of the records' memory that no record uses; false if there are not so many at its end.
    pub(super) fn give_up(&mut self, bytes: usize) -> bool {
        // The longest record still fits: a cache stores what it accepts.
        self.extents.give_up(bytes, self.item_bytes_max)
    }

    /// Undoes [`give_up`](Shard::give_up).
    pub(super) fn take_back(&mut self, bytes: usize) {
        self.extents.take_back(bytes);
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The record of `key`; `None` if it does not exist or has expired.
    pub(super) fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Found> {
        let record = self.table.get(hash)?;
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
            header,
            record,
            value_offset: record.offset as usize + RECORD_HEADER_BYTES + header.key_bytes,
            value_bytes: header.value_bytes,
        })
    }

    /// Whether `condition` holds for `key`; the status that refuses the update if not.
    pub(super) fn check(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
        condition: Condition,
    ) -> Result<(), Status> {
        if condition == Condition::Always {
            return Ok(());
        }
        let present = self.get(hash, key, now_s).map(|found| found.header.version);
        match (condition.holds(present), present) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(Status::Exists),
            (false, None) => Err(Status::NotFound),
        }
    }

    /// Expiry and flags of `key`, if it exists.
    pub(super) fn terms(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<(u32, u32)> {
        let found = self.get(hash, key, now_s)?;
        Some((found.header.expire_s, found.header.flags))
    }

    /// Gives a draft another expiry and other flags.
    pub(super) fn set_terms(&mut self, draft: &mut Reservation, terms: (u32, u32)) {
        (draft.header.expire_s, draft.header.flags) = terms;
        let at = draft.extent.offset as usize;
        self.memory.copy_in(at, &draft.header.encode());
    }

    /// The key of `draft`, in `space`.
    pub(super) fn draft_key<'k>(
        &self,
        draft: &Reservation,
        space: &'k mut [u8; drover_kv::KEY_BYTES_MAX],
    ) -> &'k [u8] {
        let key = &mut space[..draft.header.key_bytes];
        self.memory
            .copy_out(draft.extent.offset as usize + RECORD_HEADER_BYTES, key);
        key
    }

    /// A draft of the record of `key` that expires at `expire_s`; `None` if there is no such key.
    pub(super) fn draft_touched(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        expire_s: u32,
        (now, now_s): (Ns, u32),
    ) -> Option<Result<Reservation, Refusal>> {
        let Found {
            header, value_bytes, ..
        } = self.get(hash, key, now_s)?;
        let mut draft = match self.draft(key, value_bytes, (expire_s, header.flags), now) {
            Ok(draft) => draft,
            Err(refusal) => return Some(Err(refusal)),
        };
        // Looked for again: the draft may have evicted it.
        let Some(found) = self.get(hash, key, now_s) else {
            self.drop_draft(draft);
            return None;
        };
        draft.header.version = header.version;
        self.memory
            .copy_in(draft.extent.offset as usize, &draft.header.encode());
        for at in (0..value_bytes).step_by(PIECE) {
            let piece = &mut self.sums[..(value_bytes - at).min(PIECE)];
            self.memory.copy_out(found.value_offset + at, piece);
            self.memory.copy_in(draft.value_offset() + at, piece);
        }
        Some(Ok(draft))
    }

    /// Copies bytes of the extents, for a value in a reply.
    pub(super) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        self.memory.copy_out(offset, out);
    }

    /// Allocates a record and writes all of it except the value.
    pub(super) fn draft(
        &mut self,
        key: &[u8],
        value_bytes: usize,
        (expire_s, flags): (u32, u32),
        now: Ns,
    ) -> Result<Reservation, Refusal> {
        let bytes = record_bytes(key.len(), value_bytes);
        if bytes > self.item_bytes_max {
            return Err(Refusal::TooLarge);
        }
        self.extents.release(now, RELEASED_PER_WRITE);
        let extent = self.space(bytes, now).ok_or(Refusal::Full)?;
        self.version += 1;
        let header = RecordHeader {
            key_bytes: key.len(),
            value_bytes,
            version: self.version,
            expire_s,
            flags,
        };
        let at = extent.offset as usize;
        self.memory.copy_in(at, &header.encode());
        self.memory.copy_in(at + RECORD_HEADER_BYTES, key);
        Ok(Reservation { extent, header })
    }

    /// Frees a draft.
    pub(super) fn drop_draft(&mut self, draft: Reservation) {
        self.extents.free(draft.extent);
    }

    /// Copies a value into its draft.
    pub(super) fn write_value(&mut self, draft: &Reservation, value: &[u8]) {
        self.memory.copy_in(draft.value_offset(), value);
    }

    /// Publishes a draft whose value is complete: the key with `hash` has this record from now on. The checksum is
    /// computed here, from memory, because with a wrong checksum from a client every reader would fail for ever.
    /// Errors: the table has no entry for the key; the draft remains.
    pub(super) fn publish(&mut self, hash: KeyHash, draft: &Reservation, now: Ns) -> Result<(), TableFull> {
        let record = RecordRef {
            offset: draft.extent.offset,
            len: draft.extent.len,
            sum: self.sum(draft.extent),
        };
        let old = self.table.put(hash, record)?;
        self.retire(old, now);
        self.remember(hash, record.offset);
        Ok(())
    }

    /// Removes `key`; returns false if it did not exist or had expired.
    pub(super) fn remove(&mut self, hash: KeyHash, key: &[u8], now: Ns, now_s: u32) -> bool {
        let was_there = self.get(hash, key, now_s).is_some();
        // An expired record is removed as well.
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

    /// Allocates an extent. If there is no space, releases extents from quarantine early, and then evicts records.
    fn space(&mut self, bytes: usize, now: Ns) -> Option<Extent> {
        loop {
            if let Some(extent) = self.extents.alloc(bytes) {
                return Some(extent);
            }
            if !self.extents.release_early() && !self.evict(now) {
                return None;
            }
        }
    }

    /// Cache mode: evicts the key whose record is oldest. READs leave no trace at the server, so age is the only
    /// criterion.
    pub(super) fn evict(&mut self, now: Ns) -> bool {
        while let Some((hash, offset)) = self.eldest.as_mut().and_then(VecDeque::pop_front) {
            if self.table.get(hash).is_some_and(|record| record.offset == offset) {
                let old = self.table.remove(hash);
                self.retire(old, now);
                self.evictions += 1;
                return true;
            }
        }
        false
    }

    fn remember(&mut self, hash: KeyHash, offset: u64) {
        let Some(eldest) = &mut self.eldest else { return };
        eldest.push_back((hash, offset));
        // Keys that are written repeatedly leave outdated entries in the queue.
        if eldest.len() > 2 * self.table.len() + 64 {
            let table = &self.table;
            eldest.retain(|(hash, offset)| table.get(*hash).is_some_and(|record| record.offset == *offset));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Record;
    use drover_base::HashSeed;
    use drover_mem::PageWish;

    const KEY: &[u8] = b"key";

    fn shard(memory_bytes: usize, evicts: bool) -> Shard {
        let region = |bytes| Region::private(bytes, PageWish::Small).expect("memory");
        let table = CuckooTable::new(region(CuckooTable::<Region>::bytes_for(64)), 64, 1);
        let extents = ExtentsOptions {
            grace: Ns(100),
            ..ExtentsOptions::for_bytes(memory_bytes)
        };
        Shard::new(table, region(memory_bytes), extents, 4096, evicts)
    }

    fn hash(key: &[u8]) -> KeyHash {
        HashSeed::new(1, 2).hash(key)
    }

    fn put(shard: &mut Shard, key: &[u8], value: &[u8], now: Ns) -> Result<(), Refusal> {
        let draft = shard.draft(key, value.len(), (0, 0), now)?;
        shard.write_value(&draft, value);
        shard
            .publish(hash(key), &draft, now)
            .expect("a place in the table");
        Ok(())
    }

    fn read(shard: &Shard, record: &RecordRef) -> Vec<u8> {
        let mut bytes = vec![0; record.len as usize];
        shard.copy_out(record.offset as usize, &mut bytes);
        bytes
    }

    fn record(shard: &Shard, key: &[u8]) -> RecordRef {
        shard.get(hash(key), key, 1).expect("it is there").record
    }

    /// Pilaf's released code changes values in place, so a reader may never see a complete value of a key that is
    /// written often.
    #[test]
    fn pilaf_a_reader_who_is_under_way_finds_the_old_record_whole() {
        let mut shard = shard(1 << 16, false);
        put(&mut shard, KEY, b"old", Ns(0)).expect("space");
        let old = record(&shard, KEY);
        put(&mut shard, KEY, b"new", Ns(10)).expect("space");
        assert_ne!(record(&shard, KEY).offset, old.offset);
        for now in 11..60 {
            put(&mut shard, b"other", b"abc", Ns(now)).expect("space");
        }
        let bytes = read(&shard, &old);
        assert_eq!(Record::open(&bytes, &old).expect("still whole").value, b"old");
    }

    /// Pilaf's released code stores the checksum that a client sends: with a wrong one every reader retries for ever.
    /// It also READs a quarter more than the record's length.
    #[test]
    fn pilaf_sums_are_the_servers_and_lengths_exact() {
        let mut shard = shard(1 << 16, false);
        for len in [0, 1, 7, 100, 4000] {
            put(&mut shard, KEY, &vec![len as u8; len], Ns(0)).expect("space");
            let now = record(&shard, KEY);
            assert_eq!(now.len as usize, record_bytes(KEY.len(), len));
            assert_eq!(
                Record::open(&read(&shard, &now), &now)
                    .expect("whole")
                    .value
                    .len(),
                len
            );
        }
    }

    /// With almost no grace period a reader may find another record at the address: the checksum shows it.
    #[test]
    fn a_place_that_was_reused_is_found_out() {
        let mut shard = shard(4096, true);
        put(&mut shard, KEY, &[1; 60], Ns(0)).expect("space");
        let old = record(&shard, KEY);
        for round in 0..100 {
            put(&mut shard, KEY, &[round; 60], Ns(1)).expect("a cache is never full");
        }
        let bytes = read(&shard, &old);
        assert!(Record::open(&bytes, &old).is_err());
    }

    #[test]
    fn a_cache_forgets_the_oldest_and_a_store_is_full() {
        let (mut cache, mut store) = (shard(4096, true), shard(4096, false));
        let mut refused = 0;
        for key in 0..100u32 {
            let key = key.to_le_bytes();
            put(&mut cache, &key, &[1; 100], Ns(0)).expect("a cache is never full");
            refused += u32::from(put(&mut store, &key, &[1; 100], Ns(0)) == Err(Refusal::Full));
        }
        assert!(refused > 0 && store.len() == 100 - refused as usize);
        assert!(
            cache
                .get(hash(&0u32.to_le_bytes()), &0u32.to_le_bytes(), 1)
                .is_none()
        );
        assert!(
            cache
                .get(hash(&99u32.to_le_bytes()), &99u32.to_le_bytes(), 1)
                .is_some()
        );
    }
}
