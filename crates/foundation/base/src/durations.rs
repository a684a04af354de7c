//! [`Durations`]: a histogram of durations.

use crate::Ns;
use crate::sync::{AtomicU64, Ordering};

/// A histogram of durations in power-of-two buckets of microseconds. One thread writes, any thread may read. A snapshot
/// taken during a write may hold part of that write: for example the new count with the old sum.
#[derive(Debug)]
pub struct Durations {
    counts: [AtomicU64; Durations::BUCKETS],
    sum_ns: AtomicU64,
}

/// A snapshot of [`Durations`]: a plain value that no longer changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spread {
    /// Per bucket, the number of durations above the previous bucket's bound and up to and including its own
    /// ([`Durations::bound`]).
    pub counts: [u64; Durations::BUCKETS],
    /// Sum of all durations, those of the unbounded last bucket included.
    pub sum: Ns,
}

impl Durations {
    /// Number of buckets: 21 with the upper bounds 1 us, 2 us, 4 us, ... 2^20 us (about a second), and one for all
    /// longer durations.
    pub const BUCKETS: usize = 22;

    /// Upper bound, inclusive, of bucket `index`; `None` for the last bucket, which has no bound, and for any index
    /// beyond it.
    pub fn bound(index: usize) -> Option<Ns> {
        (index + 1 < Durations::BUCKETS).then(|| Ns::from_us(1 << index))
    }

    /// Adds `count` durations of `took` each. Only one thread may call it, else updates are lost. Costs a load and a
    /// store of each of two words.
    pub fn note(&self, took: Ns, count: u64) {
        let us = took.0.div_ceil(1000).max(1);
        let bucket = (us - 1).checked_ilog2().map_or(0, |log| log as usize + 1);
        let add = |word: &AtomicU64, more: u64| {
            // Relaxed: statistics only; there is one writer, so no update is lost between the load and the store.
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.counts[bucket.min(Durations::BUCKETS - 1)], count);
        add(&self.sum_ns, took.0.wrapping_mul(count));
    }

    /// Returns a snapshot of all counts and the sum since creation.
    pub fn read(&self) -> Spread {
        Spread {
            counts: std::array::from_fn(|i| self.counts[i].load(Ordering::Relaxed)),
            sum: Ns(self.sum_ns.load(Ordering::Relaxed)),
        }
    }
}

impl Default for Durations {
    fn default() -> Durations {
        Durations {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_falls_into_the_first_bucket_that_is_long_enough() {
        for (ns, bucket) in [
            (0, 0),
            (1000, 0),
            (1001, 1),
            (2000, 1),
            (2001, 2),
            (4000, 2),
            (1 << 60, 21),
        ] {
            let durations = Durations::default();
            durations.note(Ns(ns), 3);
            let mut want = [0; Durations::BUCKETS];
            want[bucket] = 3;
            assert_eq!(durations.read().counts, want, "{ns}");
            assert!(Durations::bound(bucket).is_none_or(|bound| ns <= bound.0));
            assert!(bucket == 0 || Durations::bound(bucket - 1).is_some_and(|bound| ns > bound.0));
        }
        let durations = Durations::default();
        durations.note(Ns(700), 2);
        durations.note(Ns(5000), 1);
        assert_eq!(durations.read().sum, Ns(6400));
    }
}
