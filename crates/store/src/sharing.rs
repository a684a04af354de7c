//! [`Sharing`]: who else may look at a partition, decided by a type so that nobody pays who need not.

use drover_base::KeyHash;

/// How the owner's writes are announced to readers on other threads.
pub trait Sharing {
    /// The slots or items of the bucket of `hash` are about to change.
    fn begin_write(&self, hash: KeyHash);
    /// They have changed.
    fn end_write(&self, hash: KeyHash);
    /// All slots are about to change.
    fn begin_clear(&self);
    /// They have changed.
    fn end_clear(&self);
    /// The log's bytes up to virtual offset `head` are about to be overwritten.
    fn publish_head(&self, head: u64);
}

/// Exclusive read, exclusive write: one thread owns the partition and nothing is announced.
#[derive(Clone, Copy, Default, Debug)]
pub struct Erew;

impl Sharing for Erew {
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
