//! [`MemberCounters`]: what a core of a member does for and with other members.

use drover_base::sync::{AtomicU64, Ordering};

/// Numbers of one core since its start. The core alone writes them; any thread may read them.
#[derive(Debug, Default)]
pub struct MemberCounters {
    /// Messages sent to other members.
    pub forwarded: Count,
    /// Messages of other members that were served, or answered "elsewhere".
    pub served: Count,
    /// Messages, of this member or another, that were answered "elsewhere".
    pub elsewhere: Count,
    /// Requests that had to wait for a member that serves their key; a request may wait more than once.
    pub parked: Count,
    /// Requests that no member served in time, or that found no space to wait.
    pub gave_up: Count,
    /// Requests whose member was lost before it answered.
    pub lost: Count,
    /// Nanoseconds for which the core was [held](crate::replicas), but for a hold that lasts.
    pub held_ns: Count,
}

/// A number that one thread counts up.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more. Only one thread may call it.
    #[inline]
    pub(crate) fn add_one(&self) {
        self.add(1);
    }

    /// Counts `more` up. Only one thread may call it.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Relaxed: only shown. No read-modify-write: there is one writer.
        self.0.store(self.get() + more, Ordering::Relaxed);
    }
}
