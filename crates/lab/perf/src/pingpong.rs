//! [`Pinger`] and [`Ponger`]: round-trip latency of messages.

use crate::goal::Laps;
use crate::lane::Lane;
use crate::{End, IDLE, Outcome, PerfError};
use drover_base::{Actor, Cpu, Progress};
use drover_verbs::Provider;

/// The end that measures: sends, waits for the answer, sends again.
pub struct Pinger<P: Provider> {
    lane: Lane<P>,
    laps: Laps,
    outcome: Outcome,
}

impl<P: Provider> Pinger<P> {
    /// Measures messages of `bytes` through a connected end.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Pinger<P> {
        Pinger {
            laps: Laps::new(&end.plan),
            lane: Lane::new(end, bytes),
            outcome,
        }
    }

    /// Returns the end, to measure something else.
    pub fn into_end(self) -> End<P> {
        self.lane.into_end()
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if self.laps.is_begun() && !self.lane.arrived(cpu)? {
            return Ok(IDLE);
        }
        if let Some(found) = self.laps.lap(cpu.refresh()) {
            self.outcome.leave(Ok(found));
            return Ok(IDLE);
        }
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
        let turn = self.turn(cpu);
        self.outcome.after(turn)
    }
}

/// The other end: answers every message with one of the same length.
pub struct Ponger<P: Provider> {
    lane: Lane<P>,
    answered: u64,
    outcome: Outcome,
}

impl<P: Provider> Ponger<P> {
    /// Answers messages of `bytes` through a connected end. It runs until an error.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Ponger<P> {
        Ponger {
            lane: Lane::new(end, bytes),
            answered: 0,
            outcome,
        }
    }

    /// Returns the end, to measure something else.
    pub fn into_end(self) -> End<P> {
        self.lane.into_end()
    }

    /// Number of messages answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if !self.lane.arrived(cpu)? {
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
        let turn = self.turn(cpu);
        self.outcome.after(turn)
    }
}
