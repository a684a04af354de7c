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

/// The machine's bounds, measured in the same seconds as a sample.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// Requests per second of a bare 64 B + 64 B ring between two processes, at the run's window.
    pub ring_ops: f64,
    /// Pairs of dependent random reads of memory per second, prefetched in batches of 16, over the run's footprint.
    pub dram_pair_ops: f64,
    /// Round trip of the bare ring at window 1, nanoseconds.
    pub ring_rtt_ns: f64,
    /// Time of a pair of dependent random reads of memory, one pair after the other, nanoseconds.
    pub dram_pair_ns: f64,
    /// Round trip of 64 B + 64 B over a Unix socket with both sides polling, microseconds: the kernel's share of a
    /// rival's time.
    pub socket_rtt_us: f64,
}
