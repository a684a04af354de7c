//! [`Tally`]: counters that all clients of a run share.

use drover_base::Ns;
use drover_kv::Calls;
use drover_sim::Ps;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::rc::Rc;

/// Longer latencies are recorded as this one.
const LATENCY_MAX: Ns = Ns::from_s(100);

/// Counters shared by all its clones; every [`Asker`](crate::asker::Asker) adds to the clone that it holds.
#[derive(Clone)]
pub(crate) struct Tally(Rc<RefCell<Counts>>);

pub(crate) struct Counts {
    /// Clients that have connected and submitted their share of the fill; never reset.
    pub(crate) ready: usize,
    /// This and all fields below count since the last [`Tally::begin`].
    pub(crate) done: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) failed: u64,
    /// Operations done, by partition.
    pub(crate) by_partition: Vec<u64>,
    /// Latencies in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Calls of systems whose results are fetched or pushed; `None` for others.
    pub(crate) calls: Option<Calls>,
    /// Of each client, calls that ended and results that were pushed; empty if there are none.
    pub(crate) by_client: Vec<(u64, u64)>,
    /// Sum of the latencies of operations whose result was pushed.
    pub(crate) pushed: Ns,
    /// Time in steps of clients.
    pub(crate) worked: Ps,
}

impl Tally {
    /// Counters at 0, for a server of `partitions` partitions.
    pub(crate) fn new(partitions: usize) -> Tally {
        Tally(Rc::new(RefCell::new(Counts {
            ready: 0,
            done: 0,
            gets: 0,
            hits: 0,
            failed: 0,
            by_partition: vec![0; partitions],
            latency: Histogram::new_with_bounds(1, LATENCY_MAX.0, 3).expect("bounds in order"),
            calls: None,
            by_client: Vec::new(),
            pushed: Ns::ZERO,
            worked: Ps::ZERO,
        })))
    }

    /// Number of clients that have connected and submitted the PUTs of their share of the fill. Never decreases.
    pub(crate) fn ready(&self) -> usize {
        self.0.borrow().ready
    }

    /// Resets all counters of operations, at the end of the warm-up; [`ready`](Tally::ready) keeps its value.
    pub(crate) fn begin(&self) {
        let mut counts = self.0.borrow_mut();
        (counts.done, counts.gets, counts.hits, counts.failed) = (0, 0, 0, 0);
        counts.by_partition.fill(0);
        counts.by_client.clear();
        (counts.calls, counts.pushed, counts.worked) = (None, Ns::ZERO, Ps::ZERO);
        counts.latency.reset();
    }

    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut Counts) -> T) -> T {
        what(&mut self.0.borrow_mut())
    }
}
