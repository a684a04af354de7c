//! Results that stay at the server until the client READs them, or are pushed if that takes too long: RFP, the remote
//! fetching paradigm.
//!
//! ```text
//! client                                                server
//!   WRITE request --------------------------------------> its slot, polled; executes; result into its slot
//!   READ header and F bytes ............................> result slot         no processor involved
//!   (READ the rest, if there is more) ..................>
//! after two calls in a row that take long:
//!   WRITE mode "reply" ---------------------------------> looked at with each result, and again every microsecond
//!   <---------------------------------------------------- WRITE result into the client's memory, which it polls
//! ```
//! **Verbs.** RC throughout. A fast call: one WRITE and one READ, both the client's; the server posts nothing. A slow
//! one: one WRITE each way.
//!
//! **Why results are believed.** A result carries the sequence number of its call, so an older one in the same slot is
//! not taken for it; a checksum, so one that is being written is not; and the server's incarnation. A pushed result
//! lands in memory of its own, so that a late one harms no result that was fetched. The [`Guards`] name these
//! protections; tests take one away at a time.
//!
//! **What we chose.** A header of our own ([`Format::V1`]; the paper's is an option), places with slots and modes of
//! their own, deadlines, the way back from pushing, and what happens to malformed requests. Source: `[RFP]`.
//!
//! - [`FetchClient`] and [`FetchServer`] are the two ends of a connection, with a client's window of calls.
//! - [`Caller`] and [`Callee`] are what they decide, without I/O; [`Layout`] is where their slots are.
//! - [`Selector`] chooses how much the first READ fetches; [`Probe`] measures what that depends on, once for each device
//!   of a process.
//! - With [`Transfer::Reply`], every result is pushed: that is a server that replies by WRITE.

mod callee;
mod caller;
mod choose;
mod client;
mod fuzz;
mod guards;
mod header;
mod known;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
mod measure;
mod next;
mod server;
mod switch;
mod turns;

pub use callee::{BadCall, Callee, CalleeOptions, CalleeStats, Push, Taken};
pub use caller::Caller;
pub use choose::{Choice, Curve, Objective, Selector};
pub use client::{ConnParams, FetchClient, KIND_COUNT};
#[doc(hidden)]
pub use fuzz::{fuzz_requests, fuzz_results};
pub use guards::{Guarded, Guards};
pub use header::{Format, HEADER_BYTES, TIME_MAX};
pub use layout::{Layout, RPC_COUNT_MAX};
pub use measure::{Measured, Probe, ProbeVerb};
pub use next::{CallerOptions, CallerStats, FAILS_COUNTED_MAX, ModeChange, Next};
pub use server::{FetchServer, ServerCall};
pub use switch::{Mode, SwitchOptions, Transfer};

#[cfg(all(test, not(loom)))]
mod tests;
