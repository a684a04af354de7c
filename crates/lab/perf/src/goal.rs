//! [`Goal`] and [`Laps`]: end of a measurement, and the times of its iterations.

use crate::{Found, Plan};
use drover_base::Ns;
use drover_bench::Latency;

/// End of a measurement, and which of its iterations count.
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

    /// Records an iteration that ended at `now`. Returns whether it counts.
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

    /// Number of warm-up iterations.
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

    /// Whether the last iteration is done.
    #[inline]
    pub(crate) fn is_reached(&self, now: Ns) -> bool {
        match self.duration {
            None => self.done >= self.iterations,
            Some(_) => self.done > 0 && now >= self.until,
        }
    }
}

/// Times consecutive iterations: the end of one is the start of the next.
pub(crate) struct Laps {
    goal: Goal,
    latency: Latency,
    /// Start of the current iteration; `None` before the first.
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

    /// Whether an iteration is in progress.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.since.is_some()
    }

    /// Ends the current iteration at `now` and starts the next, or starts the first. Returns the result after the last
    /// one.
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
