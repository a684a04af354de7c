//! Latency and rate of single verbs between two ends, measured as `perftest` does and reported in its format, over any
//! provider.
//!
//! One end, the *client*, measures; the other, the *server*, answers, receives, or only provides memory.
//!
//! ```text
//!   send-lat, write-lat    client  --ping-->  server     half a round trip; WRITE: polls the last byte
//!                                  <--pong--
//!   read-lat, atomic-lat   client  --request, result-->  a whole round trip, until the completion is polled
//!   *-bw                   client  --many in flight-->   requests per second, end of the warm-up to last completion
//! ```
//!
//! - [`Plan`] describes a measurement; an [`End`] is a queue pair with memory for a plan.
//! - [`Pinger`] and [`Ponger`], [`Fetcher`], [`Issuer`] and [`Sink`] are the actors, the same on real and on simulated
//!   cores. [`players()`] makes those of a plan.
//! - [`client`] and [`server`] run the two ends of a session over a control channel; if both ends are on one thread (a
//!   simulated cluster), [`join`] connects them and the simulator steps them.
//! - [`LatencyRow`], [`RateRow`] are rows of the table.
//!
//! It is not a benchmark of key-value systems: that is `drover-bench`, whose histograms are used here.
//!
//! # What is measured exactly
//! A latency test reads the clock once per iteration, between an arrival and the next post, as perftest does; a rate
//! test, once per poll that brought completions. Nothing is allocated while the clock runs. WRITE latency polls the
//! last byte of memory. Without [`ordered_writes`](drover_verbs::WriteCaps::ordered) the earlier bytes may arrive
//! later: the result is then the time until the last byte is visible, which does not imply that the message is
//! complete. perftest measures the same.
//!
//! Source: `[perftest]` for letters, defaults, the table and the timing.
#![forbid(unsafe_code)]

mod drive;
mod end;
mod error;
mod fetch;
mod found;
mod goal;
mod lane;
mod pingpong;
mod plan;
mod players;
mod rate;
mod session;
mod table;
mod wire;

pub use end::{End, join};
pub use error::PerfError;
pub use fetch::Fetcher;
pub use found::{Found, Outcome};
pub use pingpong::{Pinger, Ponger};
pub use plan::{Atomic, Given, Metric, Op, Plan, Verb};
pub use players::{Client, Server, players};
pub use rate::{Issuer, Sink};
pub use session::{Options, SETUP_WAIT, client, server};
pub use table::{LatencyRow, RateRow, Row, head};

use drover_base::{Cost, Ns, Progress};

/// Cost of one poll of the memory byte that a WRITE changes last; charged on simulated cores.
pub const LOOK: Cost = Cost::new("perf.look");

/// No work until something arrives.
pub(crate) const IDLE: Progress = Progress::Idle { wake_at: Ns::MAX };
