//! [`CacheTable`]: 8-slot buckets without chains. A full bucket evicts its oldest item.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 8 i | 8 | slot i | [`Slot`], little-endian, written by the table's owner only |
//!
//! No header: the owner is one thread *(8 slots without header: stated in `[HERD §4.1]`)*.

use crate::{BUCKET_BYTES, BucketLines, CACHE_SLOTS, Slot, SlotMask};
use drover_base::{KeyHash, Line};
use drover_mem::{AllocError, LineRef, LineTable, PageWish, Region};

/// A lossy table of [`Slot`]s: a power-of-two number of 8-slot buckets, a cache line each. A new entry in a full bucket
/// replaces the oldest one.
#[derive(Clone, Debug)]
pub struct CacheTable<const BITS: u32 = 48> {
    lines: LineTable,
}

/// A reference to one bucket of a [`CacheTable`].
#[derive(Clone, Copy, Debug)]
pub struct CacheBucket<'t, const BITS: u32 = 48> {
    line: LineRef<'t>,
}

/// Result of [`CacheBucket::choose`]: the slot for a new entry, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Index of the slot in its bucket, 0 to 7.
    pub slot_index: usize,
    /// Reason for the choice.
    pub reason: Reason,
}

/// Reason for choosing a slot; in descending order of preference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The first of the ghosts passed to [`choose`](CacheBucket::choose): an entry with the new key's tag whose item
    /// the log has overwritten, most likely an old version of the same key.
    Ghost,
    /// An empty slot.
    Empty,
    /// An entry of any tag whose item the log has overwritten.
    Dead,
    /// The entry of the oldest item of a full bucket. The item is live, and is evicted.
    Oldest,
}

impl<const BITS: u32> CacheTable<BITS> {
    /// Places a table of `bucket_count` buckets at offset `start` of `region`, with the entries that are in this memory
    /// already: zeros are an empty table.
    ///
    /// # Panics
    /// If `bucket_count` is not a power of two up to 2^32, or the buckets do not fit.
    pub fn new(region: Region, start: usize, bucket_count: usize) -> CacheTable<BITS> {
        assert!(
            bucket_count.is_power_of_two() && bucket_count <= 1 << 32,
            "{bucket_count} buckets: want a power of two up to 2^32"
        );
        CacheTable {
            lines: LineTable::new(region, start, bucket_count * BUCKET_BYTES),
        }
    }

    /// Creates an empty table as [`new`](CacheTable::new) does, in newly allocated private memory.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `bucket_count` is not a power of two up to 2^32.
    pub fn private(bucket_count: usize, pages: PageWish) -> Result<CacheTable<BITS>, AllocError> {
        let region = Region::private(bucket_count * BUCKET_BYTES, pages)?;
        Ok(CacheTable::new(region, 0, bucket_count))
    }

    /// Number of buckets.
    pub fn bucket_count(&self) -> u64 {
        (self.lines.len() / BUCKET_BYTES) as u64
    }

    /// The bucket of the keys with `hash`.
    #[inline(always)]
    pub fn bucket(&self, hash: KeyHash) -> CacheBucket<'_, BITS> {
        self.bucket_at(hash.bucket_index(u64::MAX))
    }

    /// The bucket numbered `index` modulo the number of buckets.
    #[inline(always)]
    pub fn bucket_at(&self, index: u64) -> CacheBucket<'_, BITS> {
        CacheBucket {
            line: self.lines.at(index * BUCKET_BYTES as u64),
        }
    }

    /// Addresses of the buckets, for prefetching.
    #[inline(always)]
    pub fn bucket_lines(&self) -> BucketLines {
        BucketLines::new(&self.lines)
    }

    /// Empties every bucket. Cost: writes the whole table.
    pub fn clear(&self) {
        self.lines.zero();
    }
}

impl<const BITS: u32> CacheBucket<'_, BITS> {
    /// Address of the bucket's cache line, for prefetching.
    #[inline(always)]
    pub fn line(self) -> Line {
        self.line.line()
    }

    /// Slots with this tag; for tag 0 the empty ones.
    #[inline(always)]
    pub fn matches(self, tag: u16) -> SlotMask {
        SlotMask::new(self.line.match_high16(tag))
    }

    /// The slot with index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn slot(self, slot_index: usize) -> Slot<BITS> {
        Slot::from_word(self.line.load(slot_index))
    }

    /// Stores `slot` at index `slot_index`, 0 to 7.
    #[inline(always)]
    pub fn set(self, slot_index: usize, slot: Slot<BITS>) {
        self.line.store(slot_index, slot.word());
    }

    /// All slots of the bucket, empty ones included, in order.
    #[inline]
    pub fn slots(self) -> [Slot<BITS>; CACHE_SLOTS] {
        std::array::from_fn(|i| self.slot(i))
    }

    /// Chooses the slot for a new entry, without writing it: the first [`Reason`] that applies. `ghosts` are the slots
    /// with the new entry's tag whose items the caller found overwritten. The items are in a log of `log_bytes` bytes,
    /// which has appended `head` bytes so far.
    #[inline(always)]
    pub fn choose(self, ghosts: SlotMask, head: u64, log_bytes: u64) -> Choice {
        if let Some(slot_index) = ghosts.first() {
            return Choice {
                slot_index,
                reason: Reason::Ghost,
            };
        }
        if let Some(slot_index) = self.matches(0).first() {
            return Choice {
                slot_index,
                reason: Reason::Empty,
            };
        }
        let (slot_index, distance) = furthest(&self.slots(), head);
        let reason = if distance > log_bytes {
            Reason::Dead
        } else {
            Reason::Oldest
        };
        Choice { slot_index, reason }
    }

    /// Empties the slots whose items have been overwritten in a log of `log_bytes` bytes that has appended `head` bytes
    /// so far; returns the number of slots emptied.
    pub fn clean(self, head: u64, log_bytes: u64) -> u64 {
        let mut cleaned = 0;
        for i in 0..CACHE_SLOTS {
            let slot = self.slot(i);
            if !slot.is_empty() && !slot.is_live(head, log_bytes) {
                self.set(i, Slot::EMPTY);
                cleaned += 1;
            }
        }
        cleaned
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

    /// A table of one bucket whose slot i starts at `offsets[i]`.
    fn table_of(offsets: [u64; 8]) -> CacheTable {
        let table = CacheTable::private(1, PageWish::Small).expect("memory");
        for (i, offset) in offsets.into_iter().enumerate() {
            table.bucket_at(0).set(i, Slot::new(i as u16 + 1, offset));
        }
        table
    }

    #[test]
    fn a_ghost_before_an_empty_slot_before_a_dead_one_before_the_oldest() {
        let head = 10 * LOG;
        let live = head - LOG;
        let table = table_of([64, 8, 80, 0, 72, 16, 24, 32].map(|o| live + o));
        let bucket = table.bucket_at(0);
        let choose = |ghosts| {
            let c = bucket.choose(SlotMask::new(ghosts), head, LOG);
            (c.slot_index, c.reason)
        };
        assert_eq!(choose(0), (3, Reason::Oldest));
        bucket.set(6, Slot::new(7, live - 8));
        assert_eq!(choose(0), (6, Reason::Dead));
        bucket.set(5, Slot::EMPTY);
        bucket.set(7, Slot::EMPTY);
        assert_eq!(choose(0), (5, Reason::Empty));
        assert_eq!(choose(0b1000_0000), (7, Reason::Ghost));
    }

    type Victim = fn(&[Slot<48>; CACHE_SLOTS], u64) -> (usize, u64);

    /// The comparison found in both public versions of MICA.
    fn nearest(slots: &[Slot<48>; CACHE_SLOTS], head: u64) -> (usize, u64) {
        let distances = slots.map(|s| s.distance(head));
        let (i, d) = distances
            .into_iter()
            .enumerate()
            .min_by_key(|&(_, d)| d)
            .expect("eight");
        (i, d)
    }

    /// Whether `victim` finds the oldest, for any position of it and of the head.
    fn finds_the_oldest(victim: Victim) -> bool {
        (0..8usize).all(|oldest| {
            [LOG, 5 * LOG + 8, (1 << 48) + 40, (1 << 48) - 8]
                .into_iter()
                .all(|head: u64| {
                    let slots = std::array::from_fn(|i| {
                        let age = 8 * (1 + (i + 8 - oldest - 1) % 8) as u64;
                        Slot::new(9, head.wrapping_sub(age))
                    });
                    victim(&slots, head) == (oldest, 64)
                })
        })
    }

    #[test]
    fn defect_1_full_bucket_evicts_oldest_not_newest() {
        assert!(finds_the_oldest(furthest));
        assert!(!finds_the_oldest(nearest), "the flaw must be caught");
    }

    #[test]
    fn cleaning_spares_the_living_and_the_empty() {
        let head = 10 * LOG;
        let dead = head - LOG - 8;
        let table = table_of([head, dead, head - LOG, dead, head - 8, dead, head, head]);
        let bucket = table.bucket_at(0);
        assert_eq!(bucket.clean(head, LOG), 3);
        assert_eq!(bucket.matches(0).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(bucket.clean(head, LOG), 0);
    }

    #[test]
    fn buckets_are_named_modulo_the_count() {
        let table = CacheTable::<48>::private(4, PageWish::Small).expect("memory");
        let line = |i| table.bucket_at(i).line();
        assert_eq!((line(7), line(6)), (line(3), line(2)));
        assert_eq!(
            table
                .bucket(KeyHash {
                    low: 0xff6_1234,
                    high: 0
                })
                .line(),
            line(2)
        );
    }
}
