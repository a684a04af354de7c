//! Bounds of this machine, with which a system's results are compared.
//!
//! - [`Echo`] is a second process with a minimal server, over a ring of cache lines in shared memory or a socket. It
//!   measures the cost of moving 64 B there and 64 B back.
//! - [`Pairs`] reads memory as a key-value store must: an index line, then the item it points to.
//! - [`Placement`] is the current distance between the two cores, which changes on virtual machines.

mod echo;
mod pairs;
mod placement;
mod ring;
mod socket;
mod speed;

pub(crate) use echo::echo_main;
pub use echo::{Echo, EchoError};
pub use pairs::{Pairs, PairsError};
pub use placement::Placement;
pub use ring::WINDOW_MAX;

use serde::{Deserialize, Serialize};

/// Measured speed of the machine itself, without a store: of moving 64 B between two processes and of reading memory.
/// A store with one client core and one server core can hardly be faster. Part of a [`Sample`](crate::report::Sample).
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// Requests per second of a bare ring in shared memory, 64 B there and 64 B back between two processes, with as
    /// many requests in flight as one client of the run may have (at most [`WINDOW_MAX`]).
    pub ring_ops: f64,
    /// The same with replies of [`reply_bytes`](Bound::reply_bytes); 0 in older results.
    #[serde(default)]
    pub reply_ring_ops: f64,
    /// Bytes of the longest value of the run, in whole lines.
    #[serde(default)]
    pub reply_bytes: usize,
    /// Pairs of dependent random memory reads (an index line, then the log line that it points to) per second,
    /// prefetched in batches of 16, on the first server core, over as much memory as the server's index and log.
    pub dram_pair_ops: f64,
    /// Mean round trip of the bare ring with one request in flight, nanoseconds.
    pub ring_rtt_ns: f64,
    /// Mean time of a pair as in [`dram_pair_ops`](Bound::dram_pair_ops), but without prefetching and each pair after
    /// the previous one, nanoseconds.
    pub dram_pair_ns: f64,
    /// Median round trip of 64 B there and 64 B back over a Unix socket with both sides polling, microseconds: the
    /// kernel's share of a rival's time.
    pub socket_rtt_us: f64,
}
