//! [`Actor`]: code that polls; the only interface that run loops and simulators use.

use crate::{Cpu, Ns};

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There was work and there may be more: step again at once.
    Busy,
    /// Nothing to do until something arrives or `wake_at` comes ([`Ns::MAX`]: only when something arrives).
    Idle {
        /// Earliest timer of this actor.
        wake_at: Ns,
    },
}

impl Progress {
    /// Combines two results: busy if one of them is, else idle until the earlier timer.
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
    /// Does the work that is ready now.
    fn step(&mut self, cpu: &C) -> Progress;
}
