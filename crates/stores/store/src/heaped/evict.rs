//! Which items LRU mode evicts: that of a full bucket which was used longest ago; and where the heap is full, the oldest
//! ones of some buckets, then whatever is next to them.
//!
//! The second step bounds the cost of a large item among small ones. Memory of items that are far apart is of no use to
//! it, so evicting the oldest until it fits could empty the cache.

use super::{HeapIndex, Heaped};
use crate::heap::Heap;
use crate::item::{self, Body, Head, ItemRef, Key, Value};
use crate::sharing::Sharing;
use drover_base::{Cpu, KeyHash};
use drover_index::Slot;

/// Buckets whose oldest item is evicted before neighbours in the heap are.
const OLDEST_TRIED: usize = 8;

/// Why an item is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    FullBucket,
    FullHeap,
}

impl<S: Sharing, T: HeapIndex> Heaped<S, T> {
    /// Writes an item for which the heap has no chunk, in place of that at `old`, which is kept until it is written if
    /// possible.
    #[cold]
    pub(super) fn replace_by_eviction<C: Cpu, V: Value>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        body: &Body<V>,
        old: u64,
    ) -> Option<u64> {
        let new = self.allocate_by_eviction(cpu, key.hash, item::bytes_of(key, body), Some(old))?;
        self.write(cpu, new, key, body);
        let slot = Slot::new(key.hash.tag(), new);
        match self.table.find(cpu, key.hash, |offset| offset == old) {
            Some((slot_place, _)) => {
                self.point_to(key.hash, slot_place, new);
                self.heap.free(old);
            }
            None => {
                self.table.insert(key.hash, slot);
                self.counters.items += 1;
                self.counters.inserts += 1;
            }
        }
        Some(new)
    }

    /// Evicts items until the heap has a chunk for `need` bytes, and takes it. The item at `keep` goes last.
    #[cold]
    pub(super) fn allocate_by_eviction<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        need: usize,
        keep: Option<u64>,
    ) -> Option<u64> {
        let mut freed = 0;
        for turn in 0..OLDEST_TRIED {
            let index = match turn {
                0 => self.table.bucket_index(hash),
                _ => self.next_bucket(),
            };
            let oldest = self.table.oldest(index);
            if let Some(slot) = oldest.filter(|slot| Some(slot.offset()) != keep) {
                freed = self.evict(cpu, index, slot, Reason::FullHeap);
                if let Some(new) = self.heap.allocate(need) {
                    return Some(new);
                }
            }
        }
        let new = self.evict_run(cpu, freed, need, keep);
        new.or_else(|| self.evict_run(cpu, 0, need, keep))
            .or_else(|| self.evict_run(cpu, 0, need, None))
    }

    /// Evicts the oldest item of a full bucket.
    pub(super) fn evict_oldest<C: Cpu>(&mut self, cpu: &C, index: u64) {
        if let Some(slot) = self.table.oldest(index) {
            self.evict(cpu, index, slot, Reason::FullBucket);
        }
    }

    /// The next bucket to evict from: they take turns.
    fn next_bucket(&mut self) -> u64 {
        self.hand = (self.hand + 1) % self.table.bucket_count();
        self.hand
    }

    /// Evicts what is in the heap from `at` on, where a chunk begins, but for the item at `keep`, until one free chunk has
    /// space for `need` bytes, and takes that. `None` if there is none before the end of the heap.
    fn evict_run<C: Cpu>(&mut self, cpu: &C, mut at: u64, need: usize, keep: Option<u64>) -> Option<u64> {
        while let Some((size, is_used)) = self.heap.chunk(at) {
            if !is_used && size - Heap::TAGS_BYTES >= need as u64 {
                return self.heap.allocate(need);
            }
            let offset = at + 8;
            if !is_used || Some(offset) == keep {
                at += size;
                continue;
            }
            let (index, slot) = self.entry_of(offset);
            at = self.evict(cpu, index, slot, Reason::FullHeap);
        }
        None
    }

    /// Removes an entry and its item; returns where the free chunk begins.
    fn evict<C: Cpu>(&mut self, cpu: &C, index: u64, slot: Slot, reason: Reason) -> u64 {
        let place = self.heap.place(slot.offset());
        cpu.touch(place.line(0));
        let unread = u64::from(!slot.is_read());
        let counters = &mut self.counters;
        if Head::load(place).is_expired(place, self.now_s) {
            counters.reclaimed += 1;
            counters.expired_unread += unread;
        } else {
            *match reason {
                Reason::FullBucket => &mut counters.evicted_bucket_full,
                Reason::FullHeap => &mut counters.evicted_log_wrapped,
            } += 1;
            counters.evicted_unread += unread;
            self.watch.note(ItemRef::new(place), slot);
        }
        self.counters.items -= 1;
        let was_there = self.table.evict(index, slot.offset());
        debug_assert!(was_there, "an entry that was just read");
        self.heap.free(slot.offset())
    }

    /// Bucket and entry of the item at `offset`.
    fn entry_of(&self, offset: u64) -> (u64, Slot) {
        let find = |index: u64| {
            let mut found = None;
            self.table.each(index, |slot| {
                if slot.offset() == offset {
                    found = Some((index, slot));
                }
            });
            found
        };
        let hash = item::hash_of(self.heap.place(offset), self.hasher.as_deref());
        let own = hash.and_then(|hash| find(self.table.bucket_index(hash)));
        // Only partitions that do not know the seed of their keys' hashes search the whole index.
        own.or_else(|| (0..self.table.bucket_count()).find_map(find))
            .expect("every item in the heap has an entry")
    }
}
