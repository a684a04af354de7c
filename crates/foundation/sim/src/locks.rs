//! [`Locks`]: locks that cores share: when each is held, and what it costs to get one.

use crate::Ps;
use drover_base::LockId;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Time for which the lines of a lock bounce between the cores that wait for it, if each of them costs `per_waiter`. The
/// waiters are the time `waited` in units of `held`, how long the lock was last held, so that a holder that is nearly done
/// counts little. How many come behind is not known yet; in a steady state as many as went before.
#[must_use]
pub fn bounces(per_waiter: Ps, waited: Ps, held: Ps) -> Ps {
    let time = u128::from(per_waiter.0) * u128::from(waited.0);
    Ps(time.checked_div(u128::from(held.0)).unwrap_or(0) as u64)
}

/// When a lock is held. Cores take their steps one after the other, and a step that takes a lock may be simulated before one
/// of another core that takes it earlier: so the lock is also free between the spans in which it is held.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// In order, none touching the next.
    spans: VecDeque<(Ps, Ps)>,
}

impl Turns {
    /// Forgets spans that end before `past`: no core asks about earlier times.
    pub fn forget(&mut self, past: Ps) {
        while self.spans.front().is_some_and(|(_, end)| *end < past) {
            self.spans.pop_front();
        }
    }

    /// The first time from `now` on from which the lock is free for long enough: for `hold` of how long one has waited for it.
    #[must_use]
    pub fn free_from(&self, now: Ps, hold: impl Fn(Ps) -> Ps) -> Ps {
        let first = self.spans.partition_point(|(_, end)| *end <= now);
        let mut free = now;
        for (start, end) in self.spans.range(first..) {
            if free + hold(free - now) <= *start {
                break;
            }
            free = *end;
        }
        free
    }

    /// Adds a span. Those that it touches become one with it: one that took longer than it was given time for reaches into
    /// the next.
    pub fn hold(&mut self, start: Ps, end: Ps) {
        if end <= start {
            return;
        }
        let from = self.spans.partition_point(|(_, other)| *other < start);
        let to = self.spans.partition_point(|(other, _)| *other <= end);
        let all = self.spans.drain(from..to);
        let whole = all.fold((start, end), |own, other| {
            (own.0.min(other.0), own.1.max(other.1))
        });
        self.spans.insert(from, whole);
    }
}

/// The locks of all cores of a simulation; clones are handles of the same ones. By default they cost nothing.
///
/// What the next holder of a lock does is not known when it comes: it gets the lock where there is time for as long as the
/// last one held it.
#[derive(Clone, Debug, Default)]
pub struct Locks(Option<Rc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// What each waiter, and a line that another core has, costs.
    per_waiter: Ps,
    locks: RefCell<BTreeMap<LockId, Lock>>,
}

#[derive(Debug, Default)]
struct Lock {
    turns: Turns,
    /// Since when the core holds it whose step is under way.
    since: Ps,
    /// How long it was held last.
    held: Ps,
    /// The core that held it last.
    last: Option<u32>,
}

impl Locks {
    /// Locks for which each waiter costs `per_waiter`.
    pub fn new(per_waiter: Ps) -> Locks {
        Locks(Some(Rc::new(Shared {
            per_waiter,
            locks: RefCell::default(),
        })))
    }

    /// `core`, whose time is `now`, takes `lock`: returns when it has it. No core will ask about times before `past`.
    pub(crate) fn take(&self, lock: LockId, core: u32, now: Ps, past: Ps) -> Ps {
        let Some(shared) = &self.0 else { return now };
        let mut locks = shared.locks.borrow_mut();
        let lock = locks.entry(lock).or_default();
        lock.turns.forget(past);
        let free = lock.turns.free_from(now, |_| lock.held);
        let mut transfer = bounces(shared.per_waiter, free - now, lock.held);
        if lock.last.is_some_and(|last| last != core) {
            transfer += shared.per_waiter;
        }
        lock.last = Some(core);
        // The lock changes hands while its line is on the way.
        lock.since = free;
        free + transfer
    }

    /// The core whose step is under way gives `lock` back at `now`.
    pub(crate) fn give_back(&self, lock: LockId, now: Ps) {
        let Some(shared) = &self.0 else { return };
        let mut locks = shared.locks.borrow_mut();
        let lock = locks.entry(lock).or_default();
        lock.held = now.since(lock.since);
        lock.turns.hold(lock.since, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: LockId = LockId(7);

    fn hold(locks: &Locks, core: u32, now: u64, time: u64) -> (u64, u64) {
        let start = locks.take(LOCK, core, Ps(now), Ps::ZERO);
        let end = start + Ps(time);
        locks.give_back(LOCK, end);
        (start.0, end.0)
    }

    #[test]
    fn who_comes_later_waits_and_pays_for_the_lines() {
        let locks = Locks::new(Ps(36));
        assert_eq!(hold(&locks, 0, 1_000, 100), (1_000, 1_100));
        assert_eq!(hold(&locks, 0, 1_100, 100), (1_100, 1_200), "its own line");
        // One waiter: the time of a whole hold.
        assert_eq!(hold(&locks, 1, 1_100, 100), (1_200 + 36 + 36, 1_372));
        assert_eq!(
            hold(&locks, 0, 2_000, 100),
            (2_036, 2_136),
            "another core's line, but nobody waits"
        );
        assert_eq!(hold(&Locks::default(), 0, 1_100, 100), (1_100, 1_200));
    }

    /// A step that is simulated first and takes the lock late does not keep it from one that takes it early.
    #[test]
    fn a_lock_is_free_before_and_between_the_times_when_it_is_held() {
        let locks = Locks::new(Ps::ZERO);
        for start in [1_000, 3_000, 5_000] {
            hold(&locks, 0, start, 500);
        }
        assert_eq!(hold(&locks, 1, 200, 500), (200, 700));
        assert_eq!(hold(&locks, 1, 1_200, 500), (1_500, 2_000));
        assert_eq!(
            hold(&locks, 1, 2_600, 500),
            (3_500, 4_000),
            "before 3000 there is too little time"
        );
        assert_eq!(
            hold(&locks, 2, 4_000, 1_500),
            (4_000, 5_500),
            "longer than the last one"
        );
        assert_eq!(hold(&locks, 3, 4_100, 500), (5_500, 6_000));
        let shared = locks.0.expect("they cost something");
        let spans = shared.locks.borrow()[&LOCK].turns.spans.clone();
        assert_eq!(
            spans,
            [(200, 700), (1_000, 2_000), (3_000, 6_000)].map(|(a, b)| (Ps(a), Ps(b)))
        );
    }

    #[test]
    fn random_uses_keep_the_spans_in_order() {
        let mut state = std::process::id().into();
        println!("seed {state}");
        let locks = Locks::new(Ps(3));
        for _ in 0..2_000 {
            state = drover_base::mix(state);
            hold(
                &locks,
                (state % 5) as u32,
                state >> 8 & 0xffff,
                state >> 32 & 0x3f,
            );
        }
        let shared = locks.0.expect("they cost something");
        let spans = shared.locks.borrow()[&LOCK].turns.spans.clone();
        assert!(spans.iter().all(|(start, end)| start < end));
        let mut pairs = spans.iter().zip(spans.iter().skip(1));
        assert!(pairs.all(|(a, b)| a.1 < b.0), "{spans:?}");
    }
}
