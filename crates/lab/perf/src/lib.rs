//! Latency and rate of single verbs between two ends, measured as `perftest` measures them and told in its table, over
//! any provider.
//!
//! One end, the *client*, measures; the other, the *server*, answers, receives, or only has memory.
//!
//! ```text
//!   send-lat, write-lat    client  --ping-->  server     half a round trip; a WRITE is noticed by polling its last byte
//!                                  <--pong--
//!   read-lat, atomic-lat   client  --request, result-->  a whole round trip, until the completion is polled
//!   *-bw                   client  --many under way-->   requests per second, from the first post to the last completion
//! ```
//!
//! - [`Plan`] is what to measure; an [`End`] is a queue pair with memory, made for a plan.
//! - [`Pinger`] and [`Ponger`], [`Fetcher`], [`Issuer`] and [`Sink`] are the actors: the same ones on real and on
//!   simulated cores. [`players`] makes those of a plan.
//! - [`client`] and [`server`] are both ends of a session over a control channel; where both ends live in one thread
//!   (a simulated cluster), [`join`] connects them and whoever owns the space steps them.
//! - [`LatencyRow`], [`RateRow`] are lines of the table.
//!
//! It is not a benchmark of key-value systems: that is `drover-bench`, whose histograms are used here.
//!
//! # What is measured exactly
//! The clock is read once per iteration of a latency test, between an arrival and the next post, as perftest does; in
//! rate tests, once per poll that brought completions. Nothing is allocated while the clock runs. WRITE latency polls
//! the last byte of memory. Where [`ordered_writes`](drover_verbs::Caps::ordered_writes) is not offered, the bytes
//! before it may arrive later: what is measured is then when the last byte is visible, and nobody may conclude from
//! it that the message is whole. perftest measures the same.
//!
//! Source: `[perftest]` for letters, defaults, the table and what is timed.
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

/// A look at the last byte of memory that a WRITE will change: what a simulated core charges for it.
pub const LOOK: Cost = Cost::new("perf.look");

/// Nothing to do until something arrives.
pub(crate) const IDLE: Progress = Progress::Idle { wake_at: Ns::MAX };
