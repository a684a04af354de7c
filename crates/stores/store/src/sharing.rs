//! [`Sharing`]: access of other threads to a partition, chosen by type so that unshared partitions do not pay for it.

use crate::cache::{Mistake, Victims};
use drover_index::Seqlock;
use std::sync::Arc;

/// How the owner of a partition announces its writes to readers on other threads.
pub trait Sharing {
    /// Whether other threads read, with copies of what the owner knows about the index.
    const IS_SHARED: bool;
    /// Creates the state for a partition of `bucket_count` buckets.
    fn for_buckets(bucket_count: usize) -> Self;
    /// Announces that slots or items of the bucket numbered `bucket` are about to change.
    fn begin_write(&self, bucket: u64);
    /// Announces that slots or items of the bucket numbered `bucket` have changed.
    fn end_write(&self, bucket: u64);
    /// Announces that all buckets are about to change.
    fn begin_clear(&self);
    /// Announces that all buckets have changed.
    fn end_clear(&self);
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
    const IS_SHARED: bool = false;

    fn for_buckets(_bucket_count: usize) -> Exclusive {
        Exclusive
    }

    #[inline(always)]
    fn begin_write(&self, _bucket: u64) {}
    #[inline(always)]
    fn end_write(&self, _bucket: u64) {}
    #[inline(always)]
    fn begin_clear(&self) {}
    #[inline(always)]
    fn end_clear(&self) {}
}

/// Concurrent read, exclusive write: one thread owns the partition, others read through a [`Reader`](crate::Reader). A
/// write costs the owner two more stores and a fence; reads cost it nothing.
#[derive(Clone, Debug)]
pub struct SharedReads {
    shared: Arc<Shared>,
}

/// State shared by owner and readers.
#[derive(Debug)]
struct Shared {
    /// One lock per group of buckets.
    locks: Box<[Seqlock]>,
}

/// Most locks of a partition: few enough to stay cached, enough that readers seldom collide with unrelated writes.
const LOCKS_MAX: usize = if cfg!(miri) { 4 } else { 1024 };

impl SharedReads {
    /// Lock of the bucket numbered `index`.
    #[inline]
    pub(crate) fn lock(&self, index: u64) -> &Seqlock {
        &self.shared.locks[index as usize & (self.shared.locks.len() - 1)]
    }
}

impl Sharing for SharedReads {
    const IS_SHARED: bool = true;

    fn for_buckets(bucket_count: usize) -> SharedReads {
        // A power of two, to be masked; no more than the buckets can use.
        let count = bucket_count.next_power_of_two().min(LOCKS_MAX);
        let locks = (0..count).map(|_| Seqlock::default()).collect();
        SharedReads {
            shared: Arc::new(Shared { locks }),
        }
    }

    #[inline]
    fn begin_write(&self, bucket: u64) {
        self.lock(bucket).begin_write();
    }

    #[inline]
    fn end_write(&self, bucket: u64) {
        self.lock(bucket).end_write();
    }

    fn begin_clear(&self) {
        self.shared.locks.iter().for_each(Seqlock::begin_write);
    }

    fn end_clear(&self) {
        self.shared.locks.iter().for_each(Seqlock::end_write);
    }
}
