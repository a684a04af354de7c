//! [`Activity`]: what a compute process does in a pool, counted for monitors.

use drover_base::sync::{AtomicU64, Ordering};

/// Something that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Renewals of leases, at each node.
    Renewals,
    /// Dead clients whose remains this process has repaired, at each node.
    Repairs,
    /// Freed pieces of memory that wait for an epoch now.
    Limbo,
    /// Times an operation waited for another client's, or gave way to it.
    Retries,
    /// READs that were repeated, since what they saw was torn or has changed.
    Rereads,
}

/// Number of kinds of [`Counted`].
const KINDS: usize = 5;

/// Counts of one process, whatever identities it has had in the pool. Threads add to them now and then, never for each operation.
#[derive(Debug, Default)]
pub struct Activity([AtomicU64; KINDS]);

impl Activity {
    /// Adds `change`; an amount becomes less by [`u64::wrapping_neg`].
    pub fn add(&self, what: Counted, change: u64) {
        self.0[what as usize].fetch_add(change, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self, what: Counted) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }
}
