//! [`Pinger`] and [`Ponger`]: round-trip latency of messages.

use crate::goal::Laps;
use crate::lane::Lane;
use crate::{End, IDLE, Outcome, PerfError};
use drover_base::{Actor, Cpu, Progress};
use drover_verbs::Provider;

/// Actor of the measuring end in a latency test of SEND or WRITE: sends, waits for the answer, sends again.
pub struct Pinger<P: Provider> {
    lane: Lane<P>,
    laps: Laps,
    outcome: Outcome,
}

impl<P: Provider> Pinger<P> {
    /// Creates a pinger that sends messages of `bytes` bytes (1 to the plan's largest size) on `end`, which must be
    /// connected. After the last iteration it stores its result in `outcome`.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Pinger<P> {
        Pinger {
            laps: Laps::new(&end.plan),
            lane: Lane::new(end, bytes),
            outcome,
        }
    }

    /// Returns the end, for another measurement.
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

/// Actor of the other end in a latency test of SEND or WRITE: answers every message with one of the same length.
pub struct Ponger<P: Provider> {
    lane: Lane<P>,
    answered: u64,
    outcome: Outcome,
}

impl<P: Provider> Ponger<P> {
    /// Creates a ponger that answers messages of `bytes` bytes (1 to the plan's largest size) on `end`, which must be
    /// connected. It never finishes: it stores only an error, if one occurs, in `outcome`.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Ponger<P> {
        Ponger {
            lane: Lane::new(end, bytes),
            answered: 0,
            outcome,
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        self.lane.into_end()
    }

    /// Number of messages answered since this ponger was created, warm-up included.
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
