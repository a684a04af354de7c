//! [`Found`]: the result of an actor, and [`Outcome`], where the actor stores it.

use crate::{IDLE, PerfError};
use drover_base::{Ns, Progress};
use drover_bench::Latency;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Result for one message size.
#[derive(Clone, Debug)]
pub enum Found {
    /// Latencies of whole round trips.
    Latency(Latency),
    /// Rate of requests.
    Rate {
        /// Requests that completed.
        count: u64,
        /// Time from the first post to the last completion.
        time: Ns,
        /// Highest rate over one queue length of requests, requests per second.
        peak: f64,
    },
}

/// Result cell of an actor, shared with its runner, because a space may own the actor. Clones share the cell.
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

    /// Stores the result; only the first call counts.
    #[cold]
    pub fn leave(&self, result: Result<Found, PerfError>) {
        if !self.done.replace(true) {
            *self.result.borrow_mut() = Some(result);
        }
    }

    /// Passes on an actor's progress; an error becomes the result.
    #[inline]
    pub(crate) fn after(&self, turn: Result<Progress, PerfError>) -> Progress {
        turn.unwrap_or_else(|error| {
            self.leave(Err(error));
            IDLE
        })
    }

    /// Takes the result; works once.
    pub fn take(&self) -> Option<Result<Found, PerfError>> {
        self.result.borrow_mut().take()
    }
}
