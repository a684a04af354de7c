//! [`Pinger`] and [`Ponger`]: latency of messages, there and back.

use crate::lane::Lane;
use crate::{End, Found, Outcome, PerfError, Plan};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_bench::Latency;
use drover_verbs::Provider;

/// Idle steps between two looks for completions of messages that failed.
const LOOK_EVERY: u32 = 1 << 10;

/// Nothing to do until something arrives.
pub(crate) const IDLE: Progress = Progress::Idle { wake_at: Ns::MAX };

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

/// The end that measures: sends, waits for the answer, sends again.
pub struct Pinger<P: Provider> {
    lane: Lane<P>,
    goal: Goal,
    latency: Latency,
    /// When the message under way left; none before the first.
    since: Option<Ns>,
    idle: u32,
    outcome: Outcome,
}

impl<P: Provider> Pinger<P> {
    /// Measures messages of `bytes` through a connected end.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Pinger<P> {
        Pinger {
            goal: Goal::new(&end.plan),
            lane: Lane::new(end, bytes),
            latency: Latency::new(),
            since: None,
            idle: 0,
            outcome,
        }
    }

    /// The end, to measure something else.
    pub fn into_end(self) -> End<P> {
        self.lane.into_end()
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        let Some(since) = self.since else {
            self.since = Some(cpu.refresh());
            self.lane.send(cpu)?;
            return Ok(Progress::Busy);
        };
        if !self.lane.arrived(cpu)? {
            self.idle += 1;
            if self.idle.is_multiple_of(LOOK_EVERY) {
                self.lane.look_for_failures(cpu)?;
            }
            return Ok(IDLE);
        }
        let now = cpu.refresh();
        if self.goal.count(now) {
            self.latency.record(now.since(since).0);
        }
        if self.goal.is_reached(now) {
            self.outcome.leave(Ok(Found::Latency(self.latency.clone())));
            return Ok(IDLE);
        }
        self.since = Some(now);
        self.lane.send(cpu)?;
        self.lane.tidy(cpu)?;
        Ok(Progress::Busy)
    }
}

impl<P: Provider> Actor<P::Cpu> for Pinger<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.outcome.is_done() {
            return IDLE;
        }
        self.turn(cpu).unwrap_or_else(|error| {
            self.outcome.leave(Err(error));
            IDLE
        })
    }
}

/// The other end: answers every message with one as long.
pub struct Ponger<P: Provider> {
    lane: Lane<P>,
    idle: u32,
    answered: u64,
    outcome: Outcome,
}

impl<P: Provider> Ponger<P> {
    /// Answers messages of `bytes` through a connected end. Only an error ends it.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Ponger<P> {
        Ponger {
            lane: Lane::new(end, bytes),
            idle: 0,
            answered: 0,
            outcome,
        }
    }

    /// The end, to measure something else.
    pub fn into_end(self) -> End<P> {
        self.lane.into_end()
    }

    /// How many it has answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if !self.lane.arrived(cpu)? {
            self.idle += 1;
            if self.idle.is_multiple_of(LOOK_EVERY) {
                self.lane.look_for_failures(cpu)?;
            }
            return Ok(IDLE);
        }
        self.lane.send(cpu)?;
        self.answered += 1;
        self.lane.tidy(cpu)?;
        Ok(Progress::Busy)
    }
}

impl<P: Provider> Actor<P::Cpu> for Ponger<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.outcome.is_done() {
            return IDLE;
        }
        self.turn(cpu).unwrap_or_else(|error| {
            self.outcome.leave(Err(error));
            IDLE
        })
    }
}
