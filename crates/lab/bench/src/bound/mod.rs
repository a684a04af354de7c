//! What this machine could do at best: the bounds that a system's figures are held against.
//!
//! - [`Echo`] is a second process that answers as barely as possible, through a ring of cache lines in shared
//!   memory or through a socket. It stands for "moving 64 B there and 64 B back".
//! - [`Pairs`] reads memory as a key-value store must: an index line, then the item it points to.
//! - [`Placement`] tells how far apart the two cores are just now: on virtual machines that changes.

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

/// The bounds, measured in the same seconds as a sample.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// Requests per second of a bare 64 B + 64 B ring between two processes, at the run's window.
    pub ring_ops: f64,
    /// Pairs of dependent random reads per second, prefetched in batches of 16, over the run's footprint.
    pub dram_pair_ops: f64,
    /// One round trip of that ring at window 1, nanoseconds.
    pub ring_rtt_ns: f64,
    /// One such pair, unpipelined, nanoseconds.
    pub dram_pair_ns: f64,
    /// One round trip of 64 B + 64 B over a Unix socket, both sides polling, microseconds: what the kernel
    /// costs before a rival does anything.
    pub socket_rtt_us: f64,
}
