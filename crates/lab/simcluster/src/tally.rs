//! [`Tally`]: what clients count together.

use drover_base::Ns;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::rc::Rc;

/// What takes longer counts as this long.
const LATENCY_MAX: Ns = Ns::from_s(100);

/// Counts of all clients that hold a clone of it.
#[derive(Clone)]
pub struct Tally(Rc<RefCell<Counts>>);

pub(crate) struct Counts {
    /// Clients whose first session stands.
    pub(crate) ready: usize,
    /// All that follows counts from the beginning, or from the last [`Tally::begin`].
    pub(crate) done: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) failed: u64,
    /// By partition.
    pub(crate) by_partition: Vec<u64>,
    /// Latencies in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Tally {
    /// Nothing counted yet, of `partitions` partitions.
    pub fn new(partitions: usize) -> Tally {
        Tally(Rc::new(RefCell::new(Counts {
            ready: 0,
            done: 0,
            gets: 0,
            hits: 0,
            failed: 0,
            by_partition: vec![0; partitions],
            latency: Histogram::new_with_bounds(1, LATENCY_MAX.0, 3).expect("bounds in order"),
        })))
    }

    /// Clients that have been let in.
    pub fn ready(&self) -> usize {
        self.0.borrow().ready
    }

    /// Operations done since [`begin`](Tally::begin).
    pub fn done(&self) -> u64 {
        self.0.borrow().done
    }

    /// Forgets all operations: the warm-up is over.
    pub fn begin(&self) {
        let mut counts = self.0.borrow_mut();
        (counts.done, counts.gets, counts.hits, counts.failed) = (0, 0, 0, 0);
        counts.by_partition.fill(0);
        counts.latency.reset();
    }

    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut Counts) -> T) -> T {
        what(&mut self.0.borrow_mut())
    }
}
