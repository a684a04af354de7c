//! [`Sharing`]: access of other threads to a partition, chosen by type so that unshared partitions do not pay for it.

use drover_base::KeyHash;
use drover_index::{LogHead, Seqlock};
use std::sync::Arc;

/// How the owner of a partition announces its writes to readers on other threads.
pub trait Sharing {
    /// Creates the state for a partition of `bucket_count` buckets, a power of two.
    fn for_buckets(bucket_count: usize) -> Self;
    /// Announces that slots or items of the bucket of `hash` are about to change.
    fn begin_write(&self, hash: KeyHash);
    /// Announces that slots or items of the bucket of `hash` have changed.
    fn end_write(&self, hash: KeyHash);
    /// Announces that all buckets are about to change.
    fn begin_clear(&self);
    /// Announces that all buckets have changed.
    fn end_clear(&self);
    /// Announces that the log is about to be written up to virtual offset `head` (see
    /// [`LogHead::publish`](drover_index::LogHead::publish)).
    fn publish_head(&self, head: u64);
}

/// Exclusive read, exclusive write: one thread owns the partition; writes are not announced.
#[derive(Clone, Copy, Default, Debug)]
pub struct Exclusive;

impl Sharing for Exclusive {
    fn for_buckets(_bucket_count: usize) -> Exclusive {
        Exclusive
    }

    #[inline(always)]
    fn begin_write(&self, _hash: KeyHash) {}
    #[inline(always)]
    fn end_write(&self, _hash: KeyHash) {}
    #[inline(always)]
    fn begin_clear(&self) {}
    #[inline(always)]
    fn end_clear(&self) {}
    #[inline(always)]
    fn publish_head(&self, _head: u64) {}
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
    head: LogHead,
}

/// Most locks of a partition: few enough to stay cached, enough that readers seldom collide with unrelated writes.
const LOCKS_MAX: usize = if cfg!(miri) { 4 } else { 1024 };

impl SharedReads {
    /// Lock of the bucket of `hash`: chosen by the bucket's own bits, so that one bucket has one lock.
    #[inline]
    pub(crate) fn lock(&self, hash: KeyHash) -> &Seqlock {
        self.lock_at(hash.bucket_index(u64::MAX))
    }

    /// Lock of the bucket numbered `index`.
    #[inline]
    pub(crate) fn lock_at(&self, index: u64) -> &Seqlock {
        &self.shared.locks[index as usize & (self.shared.locks.len() - 1)]
    }

    #[inline]
    pub(crate) fn head(&self) -> &LogHead {
        &self.shared.head
    }
}

impl Sharing for SharedReads {
    fn for_buckets(bucket_count: usize) -> SharedReads {
        // At most one lock per bucket: then all hashes of one bucket have the same lock.
        let locks = (0..bucket_count.min(LOCKS_MAX))
            .map(|_| Seqlock::default())
            .collect();
        SharedReads {
            shared: Arc::new(Shared {
                locks,
                head: LogHead::default(),
            }),
        }
    }

    #[inline]
    fn begin_write(&self, hash: KeyHash) {
        self.lock(hash).begin_write();
    }

    #[inline]
    fn end_write(&self, hash: KeyHash) {
        self.lock(hash).end_write();
    }

    fn begin_clear(&self) {
        self.shared.locks.iter().for_each(Seqlock::begin_write);
    }

    fn end_clear(&self) {
        self.shared.locks.iter().for_each(Seqlock::end_write);
    }

    #[inline]
    fn publish_head(&self, head: u64) {
        self.shared.head.publish(head);
    }
}
