//! [`Sharing`]: access of other threads to a partition, chosen by type so that unshared partitions do not pay for it.

use crate::cache::{Mistake, Victims};
use drover_base::sync::{AtomicU32, AtomicU64, Ordering};
use drover_index::{Seqlock, Ticket};
use drover_mem::Spread;
use std::sync::Arc;

/// How the owner of a partition announces its writes to readers on other threads.
pub trait Sharing: Sized {
    /// Whether the partition has [`Reader`](crate::Reader)s.
    const HAS_READERS: bool = false;
    /// Creates the state for a partition of at most `bucket_count_max` buckets.
    fn for_buckets(bucket_count_max: usize) -> Self;
    /// What owner and readers share; `None` if there are no readers.
    #[inline(always)]
    fn shared(&self) -> Option<&Arc<Shared>> {
        None
    }
    /// Announces that slots or items of the bucket numbered `bucket`, or of its neighbour, are about to change.
    #[inline(always)]
    fn begin_write(&self, bucket: u64) {
        let _ = bucket;
    }
    /// Announces that slots or items of the bucket numbered `bucket`, or of its neighbour, have changed.
    #[inline(always)]
    fn end_write(&self, bucket: u64) {
        let _ = bucket;
    }
    /// Announces that all buckets are about to change.
    fn begin_clear(&self) {}
    /// Announces that all buckets have changed.
    fn end_clear(&self) {}
    /// Announces that entries are about to move to other buckets.
    #[inline(always)]
    fn begin_move(&self) {}
    /// Announces that entries have moved: from now on hashes are spread over the buckets like `spread`.
    #[inline(always)]
    fn end_move(&self, spread: Spread) {
        let _ = spread;
    }
    /// Whether the cache makes this mistake; by default none. Only [`Mistaken`](crate::Mistaken), for tests, makes any.
    #[inline(always)]
    fn makes(&self, _: Mistake) -> bool {
        false
    }
    /// What a cache that makes [`Mistake::RevivesEvicted`] remembers; `None` for one that does not.
    #[inline(always)]
    fn victims(&mut self) -> Option<&mut Victims> {
        None
    }
}

/// Exclusive read, exclusive write: one thread owns the partition; writes are not announced.
#[derive(Clone, Copy, Default, Debug)]
pub struct Exclusive;

impl Sharing for Exclusive {
    fn for_buckets(_bucket_count_max: usize) -> Exclusive {
        Exclusive
    }
}

/// Concurrent read, exclusive write: one thread owns the partition, others read through a [`Reader`](crate::Reader). A
/// write costs the owner two more stores and a fence; reads cost it nothing. When the owner drops it, the readers end.
#[derive(Debug)]
pub struct SharedReads {
    shared: Arc<Shared>,
}

/// What the owner of a partition and its readers share.
#[derive(Debug)]
pub struct Shared {
    layout: Layout,
    counts: ReadCounts,
    /// One lock per group of pairs of neighbouring buckets.
    locks: Box<[Seqlock]>,
}

/// What every reader reads, and the owner seldom writes: a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Layout {
    /// Odd while the fields below and the buckets of entries change; and for ever, once the readers have been ended.
    lock: Seqlock,
    /// How hashes are spread over the buckets: the fields of a [`Spread`].
    spread: [AtomicU64; 3],
    /// Second from which on the owner will have removed all items; 0: none.
    clear_at_s: AtomicU32,
    is_ended: AtomicU32,
}

/// GETs by readers, a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ReadCounts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A cache line with what a reader needs to know first, as of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    ticket: Ticket,
    pub(crate) spread: Spread,
    pub(crate) clear_at_s: u32,
}

/// Most locks of a partition: few enough to stay cached, enough that readers seldom collide with unrelated writes.
const LOCKS_MAX: usize = if cfg!(miri) { 4 } else { 1024 };

impl Shared {
    fn for_buckets(bucket_count_max: usize) -> Arc<Shared> {
        // A power of two, to be masked; no more than the pairs of buckets can use.
        let count = bucket_count_max.div_ceil(2).next_power_of_two().min(LOCKS_MAX);
        Arc::new(Shared {
            layout: Layout {
                lock: Seqlock::default(),
                spread: [1, 1, 0].map(AtomicU64::new),
                clear_at_s: AtomicU32::new(0),
                is_ended: AtomicU32::new(0),
            },
            counts: ReadCounts::default(),
            locks: (0..count).map(|_| Seqlock::default()).collect(),
        })
    }

    /// Lock of the bucket numbered `bucket`, and of its neighbour, into which its items spill.
    #[inline(always)]
    pub(crate) fn lock(&self, bucket: u64) -> &Seqlock {
        &self.locks[(bucket / 2) as usize & (self.locks.len() - 1)]
    }

    /// Begins a read; `None` while entries are moved, or if the readers have been ended.
    #[inline(always)]
    pub(crate) fn look(&self) -> Option<Sight> {
        let ticket = self.layout.lock.begin_read()?;
        // Relaxed: half-changed numbers are values, which the ticket gives away.
        let [low, high, boundary] = &self.layout.spread;
        Some(Sight {
            ticket,
            spread: Spread {
                low: low.load(Ordering::Relaxed),
                high: high.load(Ordering::Relaxed),
                boundary: boundary.load(Ordering::Relaxed),
            },
            clear_at_s: self.layout.clear_at_s.load(Ordering::Relaxed),
        })
    }

    /// Whether no entry has moved since `sight`, and the readers have not been ended.
    #[inline(always)]
    pub(crate) fn is_current(&self, sight: &Sight) -> bool {
        self.layout.lock.is_current(sight.ticket)
    }

    fn begin_clear(&self) {
        self.locks.iter().for_each(Seqlock::begin_write);
    }

    fn end_clear(&self) {
        self.locks.iter().for_each(Seqlock::end_write);
    }

    fn end_move(&self, spread: Spread) {
        let numbers = [spread.low, spread.high, spread.boundary];
        for (shared, number) in self.layout.spread.iter().zip(numbers) {
            // Relaxed: between the two writes of the lock.
            shared.store(number, Ordering::Relaxed);
        }
        self.layout.lock.end_write();
    }

    /// Tells the readers that all items are to be removed at `at_s`.
    pub(crate) fn set_clear_at_s(&self, at_s: Option<u32>) {
        // Relaxed: a reader that has to know it learns it with the reply to the request that set it.
        self.layout.clear_at_s.store(at_s.unwrap_or(0), Ordering::Relaxed);
    }

    /// Ends the readers: no read that is under way or begins later has a result. Only the owner calls it.
    pub(crate) fn end(&self) {
        // Relaxed: only the owner reads and writes it.
        if self.layout.is_ended.swap(1, Ordering::Relaxed) == 0 && self.layout.lock.begin_read().is_some() {
            self.layout.lock.begin_write();
        }
    }

    /// Adds GETs of a reader.
    pub(crate) fn count(&self, hits: u64, misses: u64) {
        // Relaxed: statistics.
        self.counts.hits.fetch_add(hits, Ordering::Relaxed);
        self.counts.misses.fetch_add(misses, Ordering::Relaxed);
    }

    /// Numbers of hits and misses of all readers.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.counts.hits), load(&self.counts.misses))
    }
}

impl Sharing for SharedReads {
    const HAS_READERS: bool = true;

    fn for_buckets(bucket_count_max: usize) -> SharedReads {
        SharedReads {
            shared: Shared::for_buckets(bucket_count_max),
        }
    }

    #[inline(always)]
    fn shared(&self) -> Option<&Arc<Shared>> {
        Some(&self.shared)
    }

    #[inline]
    fn begin_write(&self, bucket: u64) {
        self.shared.lock(bucket).begin_write();
    }

    #[inline]
    fn end_write(&self, bucket: u64) {
        self.shared.lock(bucket).end_write();
    }

    fn begin_clear(&self) {
        self.shared.begin_clear();
    }

    fn end_clear(&self) {
        self.shared.end_clear();
    }

    fn begin_move(&self) {
        self.shared.layout.lock.begin_write();
    }

    fn end_move(&self, spread: Spread) {
        self.shared.end_move(spread);
    }
}

impl Drop for SharedReads {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// [`SharedReads`] with a mistake: the owner does not announce its writes, so a reader's check finds nothing. For tests,
/// which must notice it.
#[derive(Debug)]
pub struct Unannounced(SharedReads);

impl Sharing for Unannounced {
    const HAS_READERS: bool = true;

    fn for_buckets(bucket_count_max: usize) -> Unannounced {
        Unannounced(SharedReads::for_buckets(bucket_count_max))
    }

    fn shared(&self) -> Option<&Arc<Shared>> {
        self.0.shared()
    }

    fn end_move(&self, spread: Spread) {
        self.0.begin_move();
        self.0.end_move(spread);
    }
}
