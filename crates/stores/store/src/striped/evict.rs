//! What a PUT without space evicts: the item of its size class that was used longest ago; if the class has none, that of a
//! longer class; and for an item that is longer than all others, those next to one of them in the heap.
//!
//! Which item is the oldest is known under the lock of its list, and that it is still there under the lock of its stripe,
//! which is taken later: then the index decides.

use super::{
    Counters, HEADER_BYTES, Heap, ItemRef, Space, Stripe, StripedGuards, StripedStore, class_for, item,
};
use drover_base::{Cpu, KeyHash};
use drover_index::{Slot, SlotPosition};

/// Bytes before an item at which its chunk begins.
const CHUNK_BYTES: u64 = HEADER_BYTES as u64 + 8;

impl<G: StripedGuards> StripedStore<G> {
    /// Evicts something so that there may be a chunk of `bytes`; `false` if nothing is left that could make one. The caller
    /// holds no lock.
    #[cold]
    pub(super) fn make_space<C: Cpu>(&self, cpu: &C, bytes: usize, now_s: u32) -> bool {
        for list in self.lists.iter().skip(class_for(bytes)) {
            let oldest = {
                let list = list.lock(cpu);
                // An item of a list has its bucket.
                list.oldest().map(|offset| (offset, self.bucket_of(offset)))
            };
            if let Some((offset, bucket)) = oldest {
                let mut stripe = self.lock(cpu, bucket);
                if let Some(entry) = self.entry_of(bucket, offset) {
                    let mut space = self.space.lock(cpu);
                    self.evict(cpu, &mut space, &mut stripe, entry, offset, now_s);
                }
                return true;
            }
        }
        self.evict_run(cpu, bytes, now_s)
    }

    /// Evicts neighbours in the heap until one free chunk has `bytes`, from the item used longest ago among the longest
    /// ones on. `false` if there is no such run.
    fn evict_run<C: Cpu>(&self, cpu: &C, bytes: usize, now_s: u32) -> bool {
        // Nobody else moves the bounds of chunks meanwhile.
        let mut space = self.space.lock(cpu);
        let oldest = |list: &drover_base::Contended<super::List>| list.lock(cpu).oldest();
        let start = self.lists.iter().rev().find_map(oldest);
        for from in [start.map_or(0, |offset| offset - CHUNK_BYTES), 0] {
            let mut at = from;
            while let Some((size, is_used)) = space.heap.chunk(at) {
                if !is_used && size - Heap::TAGS_BYTES >= bytes as u64 {
                    return true;
                }
                let freed = match is_used {
                    true => self.evict_at(cpu, &mut space, at + CHUNK_BYTES, now_s),
                    false => None,
                };
                at = freed.unwrap_or(at + size);
            }
        }
        false
    }

    /// Evicts the item at `offset`, if one is there that no other thread uses now. Returns where the free chunk begins.
    fn evict_at<C: Cpu>(&self, cpu: &C, space: &mut Space, offset: u64, now_s: u32) -> Option<u64> {
        // A chunk may also be an item that is not in the index, or buckets: then there is no such entry.
        let bucket = self.bucket_of(offset);
        // To wait for a stripe would be against the order of locks.
        let mut stripe = self.stripe(bucket).try_lock(cpu)?;
        let entry = self.entry_of(bucket, offset)?;
        self.evict(cpu, space, &mut stripe, entry, offset, now_s)
    }

    fn evict<C: Cpu>(
        &self,
        cpu: &C,
        space: &mut Space,
        stripe: &mut Stripe,
        (slot_place, slot): (SlotPosition, Slot),
        offset: u64,
        now_s: u32,
    ) -> Option<u64> {
        let place = self.memory.place(offset);
        cpu.touch(place.line(0));
        note(&mut stripe.counters, ItemRef::new(place), slot, now_s);
        let hash: KeyHash = item::hash_of(place, Some(&self.hasher))?;
        self.unlink(cpu, space, stripe, (hash, slot_place), offset)
    }

    /// The entry of the item at `offset` in the chain of the bucket numbered `bucket`.
    fn entry_of(&self, bucket: u64, offset: u64) -> Option<(SlotPosition, Slot)> {
        let mut at = Some(self.table.bucket_at(bucket));
        while let Some(bucket) = at {
            let is_own = |slot: &Slot| !slot.is_empty() && slot.offset() == offset;
            if let Some(i) = bucket.slots().iter().position(is_own) {
                return Some((bucket.place(i), bucket.slot(i)));
            }
            at = self.table.next(bucket);
        }
        None
    }
}

fn note(counters: &mut Counters, item: ItemRef<'_>, slot: Slot, now_s: u32) {
    let unread = u64::from(!slot.is_read());
    if item.is_expired(now_s) {
        counters.reclaimed += 1;
        counters.expired_unread += unread;
    } else {
        counters.evicted_log_wrapped += 1;
        counters.evicted_unread += unread;
    }
}
