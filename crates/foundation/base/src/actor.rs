//! [`Actor`]: whatever polls; the only thing that run loops and simulators know.

use crate::{Cpu, Ns};

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There was work, there may be more: step again at once.
    Busy,
    /// Nothing to do until something arrives or `wake_at` comes ([`Ns::MAX`]: only when something arrives).
    Idle {
        /// The earliest timer of this actor.
        wake_at: Ns,
    },
}

impl Progress {
    /// Both together: busy if one is, else idle until the earlier timer.
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
    /// Does what can be done now.
    fn step(&mut self, cpu: &C) -> Progress;
}
