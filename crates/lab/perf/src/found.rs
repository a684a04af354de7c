//! [`Found`]: what an actor has measured, and where it leaves it.

use crate::{IDLE, PerfError};
use drover_base::{Ns, Progress};
use drover_bench::Latency;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What was measured for one size.
#[derive(Clone, Debug)]
pub enum Found {
    /// Whole round trips.
    Latency(Latency),
    /// Requests and time.
    Rate {
        /// Requests that completed.
        count: u64,
        /// From the first post to the last completion.
        time: Ns,
        /// Requests per second in the best stretch of one queue's length.
        peak: f64,
    },
}

/// Where an actor leaves its result for whoever runs it: the actor itself may be owned by a space. Clones share it.
#[derive(Clone, Default)]
pub struct Outcome {
    done: Rc<Cell<bool>>,
    result: Rc<RefCell<Option<Result<Found, PerfError>>>>,
}

impl Outcome {
    /// Whether there is a result.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.get()
    }

    /// Leaves the result; the first one counts.
    #[cold]
    pub fn leave(&self, result: Result<Found, PerfError>) {
        if !self.done.replace(true) {
            *self.result.borrow_mut() = Some(result);
        }
    }

    /// What an actor says after a turn: an error is its result.
    #[inline]
    pub(crate) fn after(&self, turn: Result<Progress, PerfError>) -> Progress {
        turn.unwrap_or_else(|error| {
            self.leave(Err(error));
            IDLE
        })
    }

    /// Takes the result, once.
    pub fn take(&self) -> Option<Result<Found, PerfError>> {
        self.result.borrow_mut().take()
    }
}
