//! [`Durations`]: how long things took.

use crate::Ns;
use crate::sync::{AtomicU64, Ordering};

/// How long things took, by powers of two of a microsecond. One thread writes, any may read. Each number is right by
/// itself; together they are as of about the same time.
#[derive(Debug)]
pub struct Durations {
    counts: [AtomicU64; Durations::BUCKETS],
    sum_ns: AtomicU64,
}

/// What [`Durations`] held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spread {
    /// Of each bucket: those that took longer than the bound before and no longer than its own.
    pub counts: [u64; Durations::BUCKETS],
    /// All together.
    pub sum: Ns,
}

impl Durations {
    /// Up to 1 us, 2 us, 4 us, ... about a second, and longer.
    pub const BUCKETS: usize = 22;

    /// The longest that bucket `index` holds; `None`: there is no longest.
    pub fn bound(index: usize) -> Option<Ns> {
        (index + 1 < Durations::BUCKETS).then(|| Ns::from_us(1 << index))
    }

    /// `count` things took `took`, each. Only the owner calls it. Cost: two words.
    pub fn note(&self, took: Ns, count: u64) {
        let us = took.0.div_ceil(1000).max(1);
        let bucket = (us - 1).checked_ilog2().map_or(0, |log| log as usize + 1);
        let add = |word: &AtomicU64, more: u64| {
            // Relaxed: numbers for people; there is one writer, so nothing is lost between the two.
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.counts[bucket.min(Durations::BUCKETS - 1)], count);
        add(&self.sum_ns, took.0.wrapping_mul(count));
    }

    /// As it is now.
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
