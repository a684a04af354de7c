//! [`Shard`]: the keys of one server, in memory that clients READ. It posts no verbs.
//!
//! A reader always finds a complete value, old or new, or notices that it did not. An object is overwritten in place by
//! one of as many lines, in the order of its versions. Otherwise the new object is written first, then the slot that
//! names it, and then the old object is put into quarantine. Every write has its own version, so two objects that were
//! ever at the same address never have the same version within the duration of a READ.

use super::places::Places;
use crate::layout::Status;
use drover_base::{KeyHash, Ns};
use drover_index::hopscotch::{
    Content, HopscotchTable, INLINE_BYTES_MAX, Object, ObjectHead, ObjectRef, ObjectWriter, SlotKind,
    item_bytes, next_version, object_bytes,
};
use drover_kv::{Condition, Extension, ItemInfo, Refusal};
use drover_mem::Region;
use std::collections::VecDeque;

/// Slots checked for expired objects per write.
const SWEPT_PER_WRITE: usize = 4;

/// Table and objects, and the state for eviction.
pub(super) struct Shard {
    table: HopscotchTable<Region>,
    memory: Region,
    places: Places,
    writer: ObjectWriter,
    item_bytes_max: usize,
    /// Cache mode: keys with the versions of their objects, oldest first; some keys have a newer object.
    eldest: Option<VecDeque<(KeyHash, u64)>>,
    evictions: u64,
    version: u64,
    incarnation: u16,
    /// Whether any object may expire.
    has_mortals: bool,
    /// Next slot to check for an expired object (`hand`), and next victim in a full neighbourhood (`turn`).
    hand: usize,
    turn: usize,
    bytes: Vec<u8>,
    object: Object,
    inline: [u8; INLINE_BYTES_MAX],
    /// Buffer for the value of an item that is touched.
    touched: Vec<u8>,
}

/// Value of a key: in the slot, or in an object.
enum Found {
    Inline(usize),
    Object(ObjectRef),
}

impl Shard {
    /// A shard with `memory_bytes` bytes for objects; retired objects stay in quarantine for `grace`.
    pub(super) fn new(
        table: HopscotchTable<Region>,
        memory: Region,
        memory_bytes: usize,
        grace: Ns,
        item_bytes_max: usize,
        evicts: bool,
    ) -> Shard {
        Shard {
            // `memory` is rounded up to whole pages; the limit is exact.
            places: Places::new(memory_bytes, grace),
            table,
            memory,
            writer: ObjectWriter::default(),
            item_bytes_max,
            eldest: evicts.then(VecDeque::new),
            evictions: 0,
            version: 0,
            incarnation: 0,
            has_mortals: false,
            hand: 0,
            turn: 0,
            bytes: Vec::new(),
            object: Object::default(),
            inline: [0; INLINE_BYTES_MAX],
            touched: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of objects in use.
    pub(super) fn used_bytes(&self) -> usize {
        self.places.used_bytes()
    }

    /// Keys evicted to make space.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Number of keys in overflow.
    pub(super) fn overflow_len(&self) -> usize {
        self.table.overflow_len()
    }

    /// The value of `key`; `None` if it does not exist or has expired.
    pub(super) fn get(&mut self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<&[u8]> {
        match self.find(hash)? {
            Found::Inline(len) => Some(&self.inline[..len]),
            Found::Object(object) => {
                self.bytes.resize(object.len as usize, 0);
                self.memory.copy_out(object.offset as usize, &mut self.bytes);
                let opened = self.object.open(&self.bytes, object.incarnation);
                opened.expect("only the owner writes, and it finishes what it writes");
                let is_it = self.object.key() == key && !self.object.head().is_expired(now_s);
                is_it.then(|| self.object.value())
            }
        }
    }

    fn find(&mut self, hash: KeyHash) -> Option<Found> {
        let slot = self.table.slot(self.table.find(hash)?);
        Some(match slot.content()? {
            Content::Inline(value) => {
                self.inline[..value.len()].copy_from_slice(value);
                Found::Inline(value.len())
            }
            Content::Object(object) => Found::Object(object),
        })
    }

    /// As [`get`](Shard::get), with the version and flags of the item. A value that is inside the table has neither, so it
    /// gets an object first.
    pub(super) fn get_item(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        (now, now_s): (Ns, u32),
    ) -> Result<Option<(ItemInfo, &[u8])>, Refusal> {
        if let Some(Found::Inline(len)) = self.find(hash) {
            let value = self.inline;
            self.put_object(hash, key, &value[..len], (0, 0), now)?;
        }
        if self.get(hash, key, now_s).is_none() {
            return Ok(None);
        }
        let ObjectHead { version, flags, .. } = self.object.head();
        Ok(Some((ItemInfo { version, flags }, self.object.value())))
    }

    /// Whether `condition` holds for the key; the status that refuses the update if not. No version is that of a value that
    /// is inside the table: it gets one when a client asks.
    pub(super) fn check(&mut self, hash: KeyHash, now_s: u32, condition: Condition) -> Result<(), Status> {
        let present = match self.find(hash) {
            None => None,
            Some(Found::Inline(_)) => Some(0),
            Some(Found::Object(object)) => {
                let head = self.head(&object);
                (!head.is_expired(now_s)).then_some(head.version)
            }
        };
        match (condition, present) {
            (Condition::IfVersion(0), Some(_)) => Err(Status::Exists),
            _ if condition.holds(present) => Ok(()),
            (_, Some(_)) => Err(Status::Exists),
            (_, None) => Err(Status::NotFound),
        }
    }

    /// Sets the expiry of `key`, whose object gets a new version; returns false if it does not exist or has expired.
    pub(super) fn touch(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        expire_s: u32,
        (now, now_s): (Ns, u32),
    ) -> Result<bool, Refusal> {
        let mut value = std::mem::take(&mut self.touched);
        value.clear();
        let is_there = self
            .get(hash, key, now_s)
            .map(|bytes| value.extend_from_slice(bytes));
        let flags = match self.find(hash) {
            Some(Found::Object(object)) => self.head(&object).flags,
            _ => 0,
        };
        let done = match is_there {
            Some(()) => self
                .put_object(hash, key, &value, (expire_s, flags), now)
                .map(|()| true),
            None => Ok(false),
        };
        self.touched = value;
        done
    }

    /// Whether an item with `key` and a value of this length is within the limit; checked before the value is fetched.
    pub(super) fn admits(&self, key: &[u8], value_bytes: usize) -> Result<(), Refusal> {
        match item_bytes(key.len(), value_bytes) > self.item_bytes_max {
            true => Err(Refusal::TooLarge),
            false => Ok(()),
        }
    }

    /// Stores the value under `key`. A refused PUT changes nothing.
    pub(super) fn put(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        (expire_s, extension): (u32, Option<Extension>),
        (now, now_s): (Ns, u32),
    ) -> Result<(), Refusal> {
        self.admits(key, value.len())?;
        self.places.release(now);
        self.sweep(now, now_s);
        let is_wide = self.table.options().kind == SlotKind::Wide;
        // Slots have no fields for an expiry, flags and a version.
        if is_wide && value.len() <= INLINE_BYTES_MAX && expire_s == 0 && extension.is_none() {
            return self.publish(hash, Content::Inline(value), now);
        }
        let Extension { flags, keep, .. } = extension.unwrap_or_default();
        let terms = match self.find(hash) {
            Some(Found::Object(object)) if keep => {
                let head = self.head(&object);
                (!head.is_expired(now_s)).then_some((head.expire_s, head.flags))
            }
            Some(Found::Inline(_)) if keep => Some((0, 0)),
            _ => None,
        };
        self.put_object(hash, key, value, terms.unwrap_or((expire_s, flags)), now)
    }

    /// Stores the value in an object.
    fn put_object(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        (expire_s, flags): (u32, u32),
        now: Ns,
    ) -> Result<(), Refusal> {
        let len = object_bytes(key.len(), value.len()) as u32;
        self.version = next_version(self.version);
        self.has_mortals |= expire_s != 0;
        let mut head = ObjectHead {
            version: self.version,
            incarnation: 0,
            expire_s,
            flags,
        };
        match self.find(hash) {
            Some(Found::Object(old)) if old.len == len => {
                head.incarnation = old.incarnation;
                self.write(old.offset, head, key, value);
            }
            _ => {
                let offset = self.space(len as usize, now).ok_or(Refusal::Full)?;
                self.incarnation = (self.incarnation + 1) & 0x7fff;
                head.incarnation = self.incarnation;
                self.write(offset, head, key, value);
                let object = ObjectRef {
                    offset,
                    len,
                    incarnation: head.incarnation,
                };
                if let Err(refusal) = self.publish(hash, Content::Object(object), now) {
                    self.places.free(offset, len);
                    return Err(refusal);
                }
            }
        }
        self.remember(hash);
        Ok(())
    }

    fn write(&mut self, offset: u64, head: ObjectHead, key: &[u8], value: &[u8]) {
        self.writer
            .write(&mut self.memory, offset as usize, head, key, value);
    }

    /// Sets the content of the key with `hash`.
    fn publish(&mut self, hash: KeyHash, content: Content<'_>, now: Ns) -> Result<(), Refusal> {
        loop {
            match self.table.put(hash, content) {
                Ok(old) => {
                    if let Some(Content::Object(object)) = old.as_ref().and_then(|slot| slot.content()) {
                        self.places.retire(object.offset, object.len, now);
                    }
                    return Ok(());
                }
                Err(_) if self.eldest.is_some() => self.make_way(hash, now),
                Err(_) => return Err(Refusal::TableFull),
            }
        }
    }

    /// Removes `key`; returns false if it did not exist or had expired.
    pub(super) fn remove(&mut self, hash: KeyHash, now: Ns, now_s: u32) -> bool {
        let is_alive = match self.find(hash) {
            None => return false,
            Some(Found::Inline(_)) => true,
            Some(Found::Object(object)) => !self.head(&object).is_expired(now_s),
        };
        self.forget(hash, now);
        is_alive
    }

    fn head(&self, object: &ObjectRef) -> ObjectHead {
        ObjectHead::load(&self.memory, object.offset as usize)
    }

    fn forget(&mut self, hash: KeyHash, now: Ns) {
        let old = self.table.remove(hash);
        if let Some(Content::Object(object)) = old.as_ref().and_then(|slot| slot.content()) {
            self.places.retire(object.offset, object.len, now);
        }
    }

    /// Allocates an object. If there is no space, releases objects from quarantine early, and then evicts objects.
    fn space(&mut self, bytes: usize, now: Ns) -> Option<u64> {
        loop {
            if let Some(offset) = self.places.alloc(bytes) {
                return Some(offset);
            }
            if !self.places.release_early() && !self.evict(now) {
                return None;
            }
        }
    }

    /// Cache mode: evicts the object that was written longest ago. READs leave no trace at the server, so age is the
    /// only criterion.
    fn evict(&mut self, now: Ns) -> bool {
        while let Some((hash, version)) = self.eldest.as_mut().and_then(VecDeque::pop_front) {
            if self.object_version(hash) == Some(version) {
                self.forget(hash, now);
                self.evictions += 1;
                return true;
            }
        }
        false
    }

    /// Cache mode: evicts a key of the neighbourhood. Other slots of the table may be free, but readers would not find
    /// the new key there.
    fn make_way(&mut self, hash: KeyHash, now: Ns) {
        self.turn = self.turn.wrapping_add(1);
        self.evictions += 1;
        let rival = self.table.rival(hash, self.turn);
        self.forget(rival.expect("a full neighbourhood has a key to evict"), now);
    }

    fn object_version(&self, hash: KeyHash) -> Option<u64> {
        let slot = self.table.slot(self.table.find(hash)?);
        match slot.content()? {
            Content::Object(object) => Some(self.head(&object).version),
            Content::Inline(_) => None,
        }
    }

    fn remember(&mut self, hash: KeyHash) {
        let Some(mut eldest) = self.eldest.take() else {
            return;
        };
        eldest.push_back((hash, self.version));
        // Keys that are written repeatedly leave outdated entries in the queue.
        if eldest.len() > 2 * self.table.len() + 64 {
            eldest.retain(|(hash, version)| self.object_version(*hash) == Some(*version));
        }
        self.eldest = Some(eldest);
    }

    /// Checks a few slots for expired objects.
    fn sweep(&mut self, now: Ns, now_s: u32) {
        if !self.has_mortals {
            return;
        }
        let slots = self.table.slot_count();
        for _ in 0..SWEPT_PER_WRITE {
            self.hand = (self.hand + 1) % slots;
            let Some(hash) = self.table.key_at(self.hand) else {
                continue;
            };
            if let Some(Content::Object(object)) = self.table.slot(self.hand).content()
                && self.head(&object).is_expired(now_s)
            {
                self.forget(hash, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;
    use drover_index::hopscotch::{Geometry, TableOptions};
    use drover_mem::PageWish;

    const KEY: &[u8] = b"key";

    fn shard_of(kind: SlotKind, memory_bytes: usize, evicts: bool) -> Shard {
        let region = |bytes| Region::private(bytes, PageWish::Small).expect("memory");
        let options = TableOptions {
            geometry: Geometry::CLASSIC,
            kind,
            home_count: 64,
            block_count: 4,
            epoch: 1,
        };
        let table = HopscotchTable::new(region(options.bytes()), &options);
        Shard::new(table, region(memory_bytes), memory_bytes, Ns(100), 4096, evicts)
    }

    fn shard(memory_bytes: usize, evicts: bool) -> Shard {
        shard_of(SlotKind::Wide, memory_bytes, evicts)
    }

    fn hash(key: &[u8]) -> KeyHash {
        HashSeed::new(1, 2).hash(key)
    }

    fn put(shard: &mut Shard, key: &[u8], value: &[u8], now: Ns) -> Result<(), Refusal> {
        shard.put(hash(key), key, value, (0, None), (now, 1))
    }

    fn object(shard: &mut Shard, key: &[u8]) -> ObjectRef {
        match shard.find(hash(key)) {
            Some(Found::Object(object)) => object,
            _ => panic!("no object"),
        }
    }

    /// The value that a reader with this pointer reads.
    fn read(shard: &Shard, pointer: &ObjectRef) -> Option<Vec<u8>> {
        let mut bytes = vec![0; pointer.len as usize];
        shard.memory.copy_out(pointer.offset as usize, &mut bytes);
        let mut object = Object::default();
        object.open(&bytes, pointer.incarnation).ok()?;
        Some(object.value().to_vec())
    }

    #[test]
    fn values_of_all_lengths_come_back_in_both_kinds_of_table() {
        for kind in [SlotKind::Wide, SlotKind::Narrow] {
            let mut shard = shard_of(kind, 1 << 16, false);
            for len in [0, 1, 31, 32, 33, 40, 41, 42, 103, 104, 105, 4000, 7, 32] {
                let value = vec![len as u8; len];
                put(&mut shard, KEY, &value, Ns(0)).expect("space");
                assert_eq!(shard.get(hash(KEY), KEY, 1), Some(&value[..]), "{kind:?}, {len}");
            }
            assert!(shard.remove(hash(KEY), Ns(0), 1) && !shard.remove(hash(KEY), Ns(0), 1));
            assert_eq!(shard.get(hash(KEY), KEY, 1), None);
        }
    }

    /// A reader in progress finds the old object complete, or the new one; never a mixture.
    #[test]
    fn farm_an_object_is_written_over_where_it_is_or_left_alone() {
        let mut shard = shard(1 << 16, false);
        put(&mut shard, KEY, &[1; 100], Ns(0)).expect("space");
        let old = object(&mut shard, KEY);
        put(&mut shard, KEY, &[2; 101], Ns(10)).expect("space");
        assert_eq!(object(&mut shard, KEY), old, "the same lines suffice");
        assert_eq!(read(&shard, &old), Some(vec![2; 101]));
        put(&mut shard, KEY, &[3; 300], Ns(20)).expect("space");
        assert_ne!(object(&mut shard, KEY).offset, old.offset);
        for now in 21..70 {
            put(&mut shard, b"other", &[9; 100], Ns(now)).expect("space");
        }
        assert_eq!(read(&shard, &old), Some(vec![2; 101]), "in quarantine");
    }

    /// With almost no grace period a reader may find another object at the address; the incarnation shows it, even for
    /// the same key.
    #[test]
    fn farm_a_place_that_was_reused_is_found_out() {
        let mut shard = shard(4096, true);
        put(&mut shard, KEY, &[1; 100], Ns(0)).expect("space");
        let old = object(&mut shard, KEY);
        let mut reused = 0;
        for round in 0..200u8 {
            let len = if round % 2 == 0 { 200 } else { 100 };
            put(&mut shard, KEY, &vec![round; len], Ns(1)).expect("a cache is never full");
            let now = object(&mut shard, KEY);
            reused += u32::from((now.offset, now.len) == (old.offset, old.len));
            assert!(now == old || round == 0 || read(&shard, &old).is_none_or(|value| value == [1; 100]));
        }
        assert!(reused > 0, "its place was never used again");
        assert_eq!(read(&shard, &old), None);
    }

    /// No two writes have the same version, so lines of two objects at one address can be distinguished.
    #[test]
    fn farm_versions_are_the_shards() {
        let mut shard = shard(4096, true);
        let mut last = 0;
        for round in 0..300u32 {
            let key = (round % 7).to_le_bytes();
            put(&mut shard, &key, &[1; 100], Ns(0)).expect("a cache is never full");
            let pointer = object(&mut shard, &key);
            let version = shard.head(&pointer).version;
            assert!(version > last);
            last = version;
        }
    }

    #[test]
    fn what_expires_goes_and_frees_its_room() {
        let mut shard = shard(1 << 16, false);
        shard
            .put(hash(KEY), KEY, b"v", (5, None), (Ns(0), 1))
            .expect("space");
        assert_eq!(shard.get(hash(KEY), KEY, 4), Some(&b"v"[..]));
        assert_eq!(shard.get(hash(KEY), KEY, 5), None);
        assert_eq!(shard.len(), 1);
        for _ in 0..64 {
            shard
                .put(hash(b"other"), b"other", b"v", (0, None), (Ns(0), 5))
                .expect("space");
        }
        assert_eq!(shard.len(), 1, "the sweep found it");
        assert!(!shard.remove(hash(KEY), Ns(0), 5));
    }

    #[test]
    fn a_cache_forgets_and_a_store_is_full() {
        for (len, memory, refusal) in [(100, 4096, Refusal::Full), (8, 1 << 16, Refusal::TableFull)] {
            let (mut cache, mut store) = (shard(memory, true), shard(memory, false));
            let mut refused = 0;
            for key in 0..300u32 {
                let key = key.to_le_bytes();
                put(&mut cache, &key, &vec![1; len], Ns(0)).expect("a cache is never full");
                assert!(
                    cache.get(hash(&key), &key, 1).is_some(),
                    "what was just put is there"
                );
                match put(&mut store, &key, &vec![1; len], Ns(0)) {
                    Ok(()) => {}
                    Err(why) => {
                        assert_eq!(why, refusal, "{len} bytes");
                        refused += 1;
                    }
                }
            }
            assert!(
                refused > 0 && store.len() == 300 - refused as usize,
                "{len} bytes"
            );
            for key in 0..300u32 {
                let key = key.to_le_bytes();
                let _ = store.get(hash(&key), &key, 1);
            }
        }
    }
}
