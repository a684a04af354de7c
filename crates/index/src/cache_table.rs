//! [`CacheTable`]: 8-slot buckets without chains. A full bucket gives up its oldest item.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i | [`Slot`], little-endian, written by the table's owner only |
//!
//! No header: the owner is one thread *(8 slots without header: stated in `[HERD §4.1]`)*.

use crate::{BUCKET_BYTES, CACHE_SLOTS, Slot, SlotMask};
use drover_base::{Cpu, KeyHash};
use drover_mem::{AllocError, MaskedRegion, PageWish};

/// A power-of-two number of line-sized buckets. A bucket is named by its byte offset.
#[derive(Clone, Debug)]
pub struct CacheTable<const BITS: u32 = 48> {
    words: MaskedRegion,
}

/// The slot that a new entry takes, and at whose expense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// 0..8.
    pub slot_index: usize,
    /// Why this one.
    pub reason: Reason,
}

/// Why a slot was chosen; the order is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A dead entry with our tag: most likely an old version of this very key.
    Ghost,
    /// Nothing was there.
    Empty,
    /// The item there is overwritten already.
    Dead,
    /// A live item has to go: the oldest of the bucket.
    Oldest,
}

impl<const BITS: u32> CacheTable<BITS> {
    /// `bucket_count` (a power of two, at most 2^32) empty buckets. Errors: [`AllocError`].
    pub fn new(bucket_count: usize, pages: PageWish) -> Result<CacheTable<BITS>, AllocError> {
        assert!(
            bucket_count.is_power_of_two() && bucket_count <= 1 << 32,
            "{bucket_count} buckets: want a power of two up to 2^32"
        );
        Ok(CacheTable {
            words: MaskedRegion::private(bucket_count * BUCKET_BYTES, pages)?,
        })
    }

    /// How many buckets.
    pub fn bucket_count(&self) -> u64 {
        (self.words.len() / BUCKET_BYTES) as u64
    }

    /// The memory, for its page kind.
    pub fn memory(&self) -> &MaskedRegion {
        &self.words
    }

    /// The bucket of `hash`.
    #[inline(always)]
    pub fn bucket(&self, hash: KeyHash) -> u64 {
        hash.bucket_index((self.words.len() / BUCKET_BYTES - 1) as u64) * BUCKET_BYTES as u64
    }

    /// The bucket numbered `index` modulo the count.
    #[inline(always)]
    pub fn bucket_at(&self, index: u64) -> u64 {
        (index & (self.bucket_count() - 1)) * BUCKET_BYTES as u64
    }

    /// Asks for the bucket's line.
    #[inline(always)]
    pub fn prefetch<C: Cpu>(&self, cpu: &C, bucket: u64) {
        self.words.prefetch(cpu, bucket);
    }

    /// Accounts for the first access to the bucket's line.
    #[inline(always)]
    pub fn touch<C: Cpu>(&self, cpu: &C, bucket: u64) {
        cpu.touch(self.words.line(bucket));
    }

    /// Slots with this tag, empty ones for tag 0.
    #[inline(always)]
    pub fn matches(&self, bucket: u64, tag: u16) -> SlotMask {
        SlotMask::new(self.words.match_high16(bucket, tag))
    }

    /// Slot `slot_index` (0..8) of `bucket`.
    #[inline(always)]
    pub fn slot(&self, bucket: u64, slot_index: usize) -> Slot<BITS> {
        Slot::from_word(self.words.load(bucket + 8 * slot_index as u64))
    }

    /// Stores a slot.
    #[inline(always)]
    pub fn set(&self, bucket: u64, slot_index: usize, slot: Slot<BITS>) {
        self.words.store(bucket + 8 * slot_index as u64, slot.word());
    }

    /// All slots of `bucket`.
    #[inline]
    pub fn slots(&self, bucket: u64) -> [Slot<BITS>; CACHE_SLOTS] {
        std::array::from_fn(|i| self.slot(bucket, i))
    }

    /// Where an entry for a key that has none goes, given the slots found to be `ghosts` on the way.
    #[inline(always)]
    pub fn choose(&self, bucket: u64, ghosts: SlotMask, head: u64, log_bytes: u64) -> Choice {
        if let Some(slot_index) = ghosts.first() {
            return Choice {
                slot_index,
                reason: Reason::Ghost,
            };
        }
        if let Some(slot_index) = self.matches(bucket, 0).first() {
            return Choice {
                slot_index,
                reason: Reason::Empty,
            };
        }
        let (slot_index, distance) = furthest(&self.slots(bucket), head);
        let reason = if distance > log_bytes {
            Reason::Dead
        } else {
            Reason::Oldest
        };
        Choice { slot_index, reason }
    }

    /// Empties the slots of `bucket` whose items are gone; returns how many.
    pub fn clean(&self, bucket: u64, head: u64, log_bytes: u64) -> u64 {
        let mut cleaned = 0;
        for i in 0..CACHE_SLOTS {
            let slot = self.slot(bucket, i);
            if !slot.is_empty() && !slot.is_live(head, log_bytes) {
                self.set(bucket, i, Slot::EMPTY);
                cleaned += 1;
            }
        }
        cleaned
    }

    /// Empties every bucket. Cost: writes the whole table.
    pub fn clear(&self) {
        self.words.region().zero(0, self.words.len());
    }
}

/// The entry furthest behind `head`: the oldest, or a dead one if there is any.
///
/// The public MICA code keeps the *smallest* distance here and so evicts the newest.
#[inline(always)]
fn furthest<const BITS: u32>(slots: &[Slot<BITS>; CACHE_SLOTS], head: u64) -> (usize, u64) {
    let mut best = (0, slots[0].distance(head));
    for (i, slot) in slots.iter().enumerate().skip(1) {
        let distance = slot.distance(head);
        if distance > best.1 {
            best = (i, distance);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: u64 = 1 << 12;

    /// A bucket whose slot i starts at `offsets[i]`.
    fn bucket_of(offsets: [u64; 8]) -> CacheTable {
        let table = CacheTable::new(1, PageWish::Small).expect("memory");
        for (i, offset) in offsets.into_iter().enumerate() {
            table.set(0, i, Slot::new(i as u16 + 1, offset));
        }
        table
    }

    #[test]
    fn a_ghost_before_an_empty_slot_before_a_dead_one_before_the_oldest() {
        let head = 10 * LOG;
        let live = head - LOG;
        let table = bucket_of([
            live + 64,
            live + 8,
            live + 80,
            live,
            live + 72,
            live + 16,
            live + 24,
            live + 32,
        ]);
        let choose = |ghosts| {
            let c = table.choose(0, SlotMask::new(ghosts), head, LOG);
            (c.slot_index, c.reason)
        };
        assert_eq!(choose(0), (3, Reason::Oldest));
        table.set(0, 6, Slot::new(7, live - 8));
        assert_eq!(choose(0), (6, Reason::Dead));
        table.set(0, 5, Slot::EMPTY);
        table.set(0, 7, Slot::EMPTY);
        assert_eq!(choose(0), (5, Reason::Empty));
        assert_eq!(choose(0b1000_0000), (7, Reason::Ghost));
    }

    #[test]
    fn cleaning_spares_the_living_and_the_empty() {
        let head = 10 * LOG;
        let dead = head - LOG - 8;
        let table = bucket_of([head, dead, head - LOG, dead, head - 8, dead, head, head]);
        assert_eq!(table.clean(0, head, LOG), 3);
        assert_eq!(table.matches(0, 0).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(table.clean(0, head, LOG), 0);
    }

    #[test]
    fn buckets_are_named_modulo_the_count() {
        let table = CacheTable::<48>::new(4, PageWish::Small).expect("memory");
        assert_eq!(table.bucket_at(7), 3 * 64);
        let hash = KeyHash {
            low: 0x6_1234,
            high: 0,
        };
        assert_eq!(table.bucket(hash), 2 * 64);
    }
}
