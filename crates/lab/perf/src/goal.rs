//! [`Goal`] and [`Laps`]: when a measurement is over, and the times of its iterations.

use crate::{Found, Plan};
use drover_base::Ns;
use drover_bench::Latency;

/// When a measurement is over, and which of its iterations count.
pub(crate) struct Goal {
    warm_up: u64,
    iterations: u64,
    duration: Option<Ns>,
    until: Ns,
    done: u64,
}

impl Goal {
    pub(crate) fn new(plan: &Plan) -> Goal {
        Goal {
            warm_up: plan.warm_up,
            iterations: plan.iterations,
            duration: plan.duration,
            until: Ns::MAX,
            done: 0,
        }
    }

    /// Another iteration is over at `now`. Whether it counts.
    #[inline]
    pub(crate) fn count(&mut self, now: Ns) -> bool {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            return false;
        }
        if self.done == 0
            && let Some(time) = self.duration
        {
            self.until = now + time;
        }
        self.done += 1;
        true
    }

    /// Iterations that do not count.
    pub(crate) fn warm_up(&self) -> u64 {
        self.warm_up
    }

    /// Whether `count` iterations in `time` are enough.
    pub(crate) fn is_enough(&self, count: u64, time: Ns) -> bool {
        match self.duration {
            None => count >= self.iterations,
            Some(wanted) => count > 0 && time >= wanted,
        }
    }

    /// Whether that was the last one.
    #[inline]
    pub(crate) fn is_reached(&self, now: Ns) -> bool {
        match self.duration {
            None => self.done >= self.iterations,
            Some(_) => self.done > 0 && now >= self.until,
        }
    }
}

/// Iterations that are timed one after the other: where one ends, the next begins.
pub(crate) struct Laps {
    goal: Goal,
    latency: Latency,
    /// When the one under way began; none before the first.
    since: Option<Ns>,
}

impl Laps {
    pub(crate) fn new(plan: &Plan) -> Laps {
        Laps {
            goal: Goal::new(plan),
            latency: Latency::new(),
            since: None,
        }
    }

    /// Whether one is under way.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.since.is_some()
    }

    /// The one under way ends `now` and the next begins, or the first does. What was measured, if that was the last.
    #[inline]
    pub(crate) fn lap(&mut self, now: Ns) -> Option<Found> {
        if let Some(since) = self.since.replace(now) {
            if self.goal.count(now) {
                self.latency.record(now.since(since).0);
            }
            if self.goal.is_reached(now) {
                return Some(Found::Latency(self.latency.clone()));
            }
        }
        None
    }
}
