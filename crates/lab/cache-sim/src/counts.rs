//! [`Checkpoints`]: sums over the part of a trace that follows its warm-up, whose length is unknown until the trace ends.

use std::ops::Sub;

/// A number of requests, and the bytes of their values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Sum {
    /// Adds one request.
    #[inline(always)]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Sub for Sum {
    type Output = Sum;

    fn sub(self, earlier: Sum) -> Sum {
        Sum {
            count: self.count - earlier.count,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Most checkpoints kept. When there are more, every other one is dropped, so they are at most 1/512 of the trace apart.
const CHECKPOINTS_MAX: usize = 1024;

/// The value of a sum at evenly spaced places of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints<T> {
    interval: u64,
    /// Sum before request 0, `interval`, 2 x `interval` and so on.
    sums: Vec<T>,
}

impl<T: Copy + Sub<Output = T>> Checkpoints<T> {
    pub(crate) fn new() -> Checkpoints<T> {
        Checkpoints {
            interval: 1,
            sums: Vec::new(),
        }
    }

    /// Records `sum`, the sum over all requests before the one at `index`. Every index may be left out, as long as
    /// indices ascend and the sum has not changed between.
    #[inline(always)]
    pub(crate) fn reach(&mut self, index: u64, sum: T) {
        if index >= self.next() {
            self.record(index, sum);
        }
    }

    fn next(&self) -> u64 {
        self.interval * self.sums.len() as u64
    }

    #[cold]
    fn record(&mut self, index: u64, sum: T) {
        while self.next() <= index {
            if self.sums.len() == CHECKPOINTS_MAX {
                let mut position = 0;
                self.sums.retain(|_| {
                    position += 1;
                    position % 2 == 1
                });
                self.interval *= 2;
                continue;
            }
            self.sums.push(sum);
        }
    }

    /// The sum over the requests from the last checkpoint at or before `share` of all `request_count` on, and the index
    /// of the first of them. `sum` is that over all.
    pub(crate) fn after(mut self, share: f64, request_count: u64, sum: T) -> (u64, T) {
        self.reach(request_count, sum);
        let index = (share.clamp(0.0, 1.0) * request_count as f64) as u64;
        let checkpoint = (index / self.interval) as usize;
        (checkpoint as u64 * self.interval, sum - self.sums[checkpoint])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts multiples of `every` among `count` requests, from half on.
    fn second_half(count: u64, every: u64) -> (u64, u64) {
        let (mut checkpoints, mut sum) = (Checkpoints::new(), 0);
        for index in (0..count).filter(|index| index % every == 0) {
            checkpoints.reach(index, sum);
            sum += 1;
        }
        checkpoints.after(0.5, count, sum)
    }

    #[test]
    fn short_traces_are_cut_exactly() {
        assert_eq!(second_half(10, 1), (5, 5));
        assert_eq!(second_half(1000, 1), (500, 500));
        assert_eq!(second_half(0, 1), (0, 0));
        assert_eq!(second_half(1, 1), (0, 1));
        assert_eq!(second_half(100, 7), (50, 7), "56, 63, .. 98");
    }

    #[test]
    fn long_traces_are_cut_at_most_a_512th_early() {
        for count in [1025, 5_000, 100_003, 1 << 17] {
            let (from, counted) = second_half(count, 1);
            assert!(
                (count / 2 - count / 512..=count / 2).contains(&from),
                "{count}: {from}"
            );
            assert_eq!(counted, count - from, "{count}");
        }
    }

    #[test]
    fn everything_is_cut_at_the_same_place_whatever_it_saw() {
        for every in [1, 3, 1000, 99_999] {
            let (from, counted) = second_half(100_003, every);
            assert_eq!(from, second_half(100_003, 1).0);
            let multiples = (from..100_003).filter(|index| index % every == 0).count();
            assert_eq!(counted, multiples as u64, "{every}");
        }
    }
}
