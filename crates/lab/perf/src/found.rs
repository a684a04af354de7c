//! [`Found`]: the result of an actor, and [`Outcome`], where the actor stores it.

use crate::{IDLE, PerfError};
use drover_base::{Ns, Progress};
use drover_bench::Latency;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Raw result of a measurement with one message size; [`Row::new`](crate::Row::new) makes a row of the table from it.
#[derive(Clone, Debug)]
pub enum Found {
    /// Latencies of all measured iterations; of SEND and WRITE whole round trips, not halved.
    Latency(Latency),
    /// Number of requests completed after the warm-up, and the time that they took.
    Rate {
        /// Number of requests that completed within `time`; those still in flight then are not counted.
        count: u64,
        /// Time from the poll that ended the warm-up to the poll that found the last counted completion.
        time: Ns,
        /// Highest rate of the consecutive stretches of at least [`tx_depth`](crate::Plan::tx_depth) requests each,
        /// requests per second; at least the average.
        peak: f64,
    },
}

/// Cell for the result of an actor, empty at first. Its clones share one result: the actor stores it through one clone,
/// and the code that runs the actor takes it through another, because a simulated world owns its actors.
#[derive(Clone, Default)]
pub struct Outcome {
    done: Rc<Cell<bool>>,
    result: Rc<RefCell<Option<Result<Found, PerfError>>>>,
}

impl Outcome {
    /// Whether a result or error has been stored, even if it was taken since.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.get()
    }

    /// Stores the result or error; only the first call has an effect.
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

    /// Takes the result; `None` if there is none yet or it was taken before.
    pub fn take(&self) -> Option<Result<Found, PerfError>> {
        self.result.borrow_mut().take()
    }
}
