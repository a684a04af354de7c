//! [`Locks`]: locks that cores share: when each is held, and what it costs to get one.

use crate::{CoreId, Ps};
use drover_base::LockId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// How long one waits for a lock, and how many wait for it: so long in units of how long the one before holds it, so that a
/// holder that is nearly done counts little. How many come behind is not known yet; in a steady state as many as went before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Time until it is free, but no longer than if every other core that uses it held it once.
    waited: Ps,
    /// How long the one before holds it.
    held: Ps,
}

impl Waiting {
    /// Time for which the lines of the lock bounce between the cores that wait, if each of them costs `per_waiter`.
    #[must_use]
    pub fn bounces(self, per_waiter: Ps) -> Ps {
        let time = u128::from(per_waiter.0) * u128::from(self.waited.0);
        Ps(time.checked_div(u128::from(self.held.0)).unwrap_or(0) as u64)
    }
}

/// When a lock is held, and by which cores. Cores take their steps one after the other, and a step that takes a lock may be
/// simulated before one of another core that takes it earlier: so the lock is also free between the spans in which it is held.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// In the order of their beginnings.
    spans: VecDeque<(Ps, Ps)>,
    cores: BTreeSet<CoreId>,
}

impl Turns {
    /// `core`, whose time is `now`, comes for the lock: returns when it is free for long enough, `hold` of how long it must
    /// wait, and that. No core will ask about times before `past`.
    pub fn come(&mut self, core: CoreId, now: Ps, past: Ps, hold: impl Fn(Waiting) -> Ps) -> (Ps, Waiting) {
        while self.spans.front().is_some_and(|(_, end)| *end < past) {
            self.spans.pop_front();
        }
        self.cores.insert(core);
        let others = self.cores.len() as u64 - 1;
        let (mut free, mut waiting) = (now, Waiting::default());
        let first = self.spans.partition_point(|(_, end)| *end <= now);
        for (start, end) in self.spans.range(first..) {
            if free + hold(waiting) <= *start {
                break;
            }
            if *end > free {
                let held = *end - *start;
                free = *end;
                let waited = (free - now).min(held * others.max(1));
                waiting = Waiting { waited, held };
            }
        }
        (free, waiting)
    }

    /// The lock is held in this span. It may reach into the next one, if that took longer than it was given time for.
    pub fn hold(&mut self, start: Ps, end: Ps) {
        if start < end {
            let at = self.spans.partition_point(|(other, _)| *other <= start);
            self.spans.insert(at, (start, end));
        }
    }
}

/// A lock that is held for as long as the work under it takes.
///
/// What the next holder of a lock does is not known when it comes: it gets the lock where there is time for as long as the
/// last one held it.
#[derive(Clone, Debug, Default)]
pub struct HeldLock {
    turns: Turns,
    /// Since when the core holds it whose step is under way.
    since: Ps,
    /// How long it was held last.
    held: Ps,
    /// How long it was held by all.
    busy: Ps,
    /// The core that held it last.
    last: Option<CoreId>,
}

/// When a core gets a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Time when the lock is free for it. Its line, and what it guards, come later.
    pub free_at: Ps,
    /// How long the core waited.
    pub waiting: Waiting,
    /// Whether another core held it before.
    pub moves: bool,
    /// Number of other cores that use it.
    pub others: u64,
}

impl HeldLock {
    /// `core`, whose time is `now`, takes the lock. No core will ask about times before `past`.
    pub fn take(&mut self, core: CoreId, now: Ps, past: Ps) -> Taken {
        let held = self.held;
        let (free_at, waiting) = self.turns.come(core, now, past, |_| held);
        // The lock changes hands while its line is on the way.
        self.since = free_at;
        Taken {
            free_at,
            waiting,
            moves: self.last.replace(core).is_some_and(|last| last != core),
            others: self.turns.cores.len() as u64 - 1,
        }
    }

    /// The core that took it last gives it back at `now`.
    pub fn give_back(&mut self, now: Ps) {
        self.held = now.since(self.since);
        self.busy += self.held;
        self.turns.hold(self.since, now);
    }

    /// Total time for which it was held.
    pub fn busy(&self) -> Ps {
        self.busy
    }
}

/// The locks of all cores of a simulation; clones are handles of the same ones. By default they cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Locks(Option<Rc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// What each waiter, and a line that another core has, costs.
    per_waiter: Ps,
    locks: RefCell<BTreeMap<LockId, HeldLock>>,
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
    pub(crate) fn take(&self, lock: LockId, core: CoreId, now: Ps, past: Ps) -> Ps {
        let Some(shared) = &self.0 else { return now };
        let mut locks = shared.locks.borrow_mut();
        let taken = locks.entry(lock).or_default().take(core, now, past);
        let mut transfer = taken.waiting.bounces(shared.per_waiter);
        if taken.moves {
            transfer += shared.per_waiter;
        }
        taken.free_at + transfer
    }

    /// The core whose step is under way gives `lock` back at `now`.
    pub(crate) fn give_back(&self, lock: LockId, now: Ps) {
        let Some(shared) = &self.0 else { return };
        shared.locks.borrow_mut().entry(lock).or_default().give_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: LockId = LockId(7);

    fn hold(locks: &Locks, core: u32, now: u64, time: u64) -> (u64, u64) {
        let start = locks.take(LOCK, CoreId(core), Ps(now), Ps::ZERO);
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
    }

    /// Who waits longer than all other cores hold it once waits for later turns of the same ones: no more lines bounce.
    #[test]
    fn no_more_cores_wait_than_there_are() {
        let (mut turns, per_waiter) = (Turns::default(), Ps(10));
        for start in [0, 100, 200, 300] {
            assert_eq!(
                turns.come(CoreId(0), Ps(start), Ps::ZERO, |_| Ps(100)).0,
                Ps(start)
            );
            turns.hold(Ps(start), Ps(start + 100));
        }
        let (free, waiting) = turns.come(CoreId(1), Ps(0), Ps::ZERO, |_| Ps(100));
        assert_eq!((free, waiting.bounces(per_waiter)), (Ps(400), per_waiter));
        turns.hold(Ps(400), Ps(500));
        let (free, waiting) = turns.come(CoreId(2), Ps(0), Ps::ZERO, |_| Ps(100));
        assert_eq!((free, waiting.bounces(per_waiter)), (Ps(500), per_waiter * 2));
        let (free, waiting) = turns.come(CoreId(2), Ps(450), Ps::ZERO, |_| Ps(100));
        assert_eq!(
            (free, waiting.bounces(per_waiter)),
            (Ps(500), Ps(5)),
            "half is over"
        );
    }
}
