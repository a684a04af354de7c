//! [`Actor`]: code that polls; the only interface that run loops and simulators use.

use crate::{Cpu, Ns};

/// Result of a step: when the caller should step this actor again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There was work and there may be more: step again at once.
    Busy,
    /// There is no work until something arrives or the time `wake_at` comes. The caller may still step earlier.
    Idle {
        /// Time (on the clock of [`Cpu::now`]) of the actor's earliest timer; [`Ns::MAX`] if it has none. A past time
        /// means: step again at once.
        wake_at: Ns,
    },
}

impl Progress {
    /// Combines two results: busy if at least one of them is, else idle until the earlier timer.
    pub fn and(self, other: Progress) -> Progress {
        match (self, other) {
            (Progress::Idle { wake_at: a }, Progress::Idle { wake_at: b }) => {
                Progress::Idle { wake_at: a.min(b) }
            }
            _ => Progress::Busy,
        }
    }
}

/// Something that makes progress in bounded steps and never blocks.
///
/// A step is at most one batch of work: under the simulator memory is seen as of the start of the step.
pub trait Actor<C: Cpu> {
    /// Does the work that is ready now, at most one batch, and reports whether there may be more. The caller has called
    /// [`Cpu::refresh`] shortly before.
    fn step(&mut self, cpu: &C) -> Progress;
}
