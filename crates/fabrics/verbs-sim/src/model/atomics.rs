//! [`AtomicUnit`]: serialises CAS and FAA. An operation takes the unit itself, then the lock of the word's bucket; when
//! too many operations wait for locks, the unit stops, so one hot word slows down all others.

use drover_sim::{Ps, Usage};

/// The unit. All times are known on arrival, so it needs no events.
#[derive(Debug)]
pub(crate) struct AtomicUnit {
    unit: Ps,
    hold: Ps,
    unit_free_at: Ps,
    bucket_free_at: Vec<Ps>,
    /// End times of the last few operations, the oldest at `next`.
    waiting: Vec<Ps>,
    next: usize,
    usage: Usage,
}

impl AtomicUnit {
    pub(crate) fn new(unit: Ps, hold: Ps, buckets: u64, waiting: u64) -> AtomicUnit {
        AtomicUnit {
            unit,
            hold,
            unit_free_at: Ps::ZERO,
            bucket_free_at: vec![Ps::ZERO; buckets.max(1) as usize],
            waiting: vec![Ps::ZERO; waiting.max(1) as usize],
            next: 0,
            usage: Usage::default(),
        }
    }

    /// End of an operation on the word at `address` that arrives at `now`.
    pub(crate) fn serve(&mut self, now: Ps, address: u64) -> Ps {
        let start = now.max(self.unit_free_at).max(self.waiting[self.next]);
        self.unit_free_at = start + self.unit;
        let bucket = (address / 8 % self.bucket_free_at.len() as u64) as usize;
        let bucket = &mut self.bucket_free_at[bucket];
        let end = self.unit_free_at.max(*bucket) + self.hold;
        *bucket = end;
        self.waiting[self.next] = end;
        self.next = (self.next + 1) % self.waiting.len();
        self.usage.served += 1;
        // Busy time is that of the bottleneck: the unit or, with one bucket, its lock.
        self.usage.busy += match self.bucket_free_at.len() {
            1 => self.hold,
            _ => self.unit,
        };
        end
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_serialises_and_many_do_not() {
        let run = |buckets, stride: u64| {
            let mut unit = AtomicUnit::new(Ps(10), Ps(100), buckets, 12);
            (0..100u64).map(|n| unit.serve(Ps::ZERO, n * stride)).max()
        };
        assert_eq!(run(1, 8), Some(Ps(10 + 100 * 100)));
        assert_eq!(run(4096, 0), run(1, 8));
        assert_eq!(run(4096, 8), Some(Ps(100 * 10 + 100)));
    }
}
