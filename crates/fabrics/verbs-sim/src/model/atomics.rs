//! [`AtomicUnit`]: serialises CAS and FAA. An operation takes the unit itself, then the lock of the word's bucket; when
//! too many operations wait for locks, the unit stops, so one hot word slows down all others.

use drover_sim::{Ps, Usage};

/// The unit. All times are known on arrival, so it needs no events.
#[derive(Debug)]
pub(crate) struct AtomicUnit {
    unit: Ps,
    hold: Ps,
    unit_free_at: Ps,
    locks: Vec<Lock>,
    /// End times of the last few operations, the oldest at `next`.
    waiting: Vec<Ps>,
    next: usize,
    usage: Usage,
}

/// The lock of a bucket of words.
#[derive(Clone, Copy, Debug, Default)]
struct Lock {
    /// End of the last operation that takes it.
    free_at: Ps,
    /// Time for which all operations hold it, those to come included.
    held: Ps,
}

impl Lock {
    /// An operation that comes at `from` holds the lock for `hold`, after all earlier ones; returns its end.
    fn take(&mut self, from: Ps, hold: Ps) -> Ps {
        self.free_at = from.max(self.free_at) + hold;
        self.held += hold;
        self.free_at
    }

    /// Time for which it was held until `now`. What is to come is taken to have no pauses: so it is at a lock for which
    /// operations wait, and of any other lock little is to come.
    fn held_until(&self, now: Ps) -> Ps {
        self.held.since(self.free_at.since(now))
    }
}

impl AtomicUnit {
    pub(crate) fn new(unit: Ps, hold: Ps, buckets: u64, waiting: u64) -> AtomicUnit {
        AtomicUnit {
            unit,
            hold,
            unit_free_at: Ps::ZERO,
            locks: vec![Lock::default(); buckets.max(1) as usize],
            waiting: vec![Ps::ZERO; waiting.max(1) as usize],
            next: 0,
            usage: Usage::default(),
        }
    }

    /// End of an operation on the word at `address` that arrives at `now`.
    pub(crate) fn serve(&mut self, now: Ps, address: u64) -> Ps {
        let start = now.max(self.unit_free_at).max(self.waiting[self.next]);
        self.unit_free_at = start + self.unit;
        let bucket = (address / 8 % self.locks.len() as u64) as usize;
        let end = self.locks[bucket].take(self.unit_free_at, self.hold);
        self.waiting[self.next] = end;
        self.next = (self.next + 1) % self.waiting.len();
        self.usage.served += 1;
        self.usage.busy += self.unit;
        end
    }

    /// Usage of the unit, without its locks.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Time until `now` for which each lock was held, in the order of buckets.
    pub(crate) fn locked(&self, now: Ps) -> Vec<Ps> {
        self.locks.iter().map(|lock| lock.held_until(now)).collect()
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

    /// Of ten operations at one time, nine on one word: its lock is held without a pause, the other once.
    #[test]
    fn the_lock_of_the_hot_word_is_held_all_the_time() {
        let (hot, cold) = (8 * 3, 8 * 5);
        let mut unit = AtomicUnit::new(Ps(10), Ps(100), 16, 12);
        (0..9).for_each(|n| assert_eq!(unit.serve(Ps::ZERO, hot), Ps(110 + 100 * n)));
        unit.serve(Ps::ZERO, cold);
        let held = |now| {
            let locked = unit.locked(Ps(now));
            (
                locked[3],
                locked[5],
                locked.iter().map(|held| held.0).sum::<u64>(),
            )
        };
        assert_eq!(held(510), (Ps(500), Ps(100), 600), "half of it is to come");
        assert_eq!(held(10_000), (Ps(900), Ps(100), 1000));
        assert_eq!(unit.usage().busy, Ps(100), "the unit's own time");
    }
}
