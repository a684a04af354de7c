//! What every key-value system of drover offers: operations, outcomes, and the shape of clients.
//!
//! It is not a system: those are the `kv-*` crates. Anything generic over systems (the conformance suite,
//! benchmarks, the command line) is written against this crate.
//!
//! - [`Op`] is what a caller wants, [`Outcome`] what came of it.
//! - [`KvClient`] is the batch-shaped, non-blocking client that everything else is built on: submit, poll.
//! - [`Caller`] waits for one operation at a time, over any of them.
//!
//! **Promises.** Per key, completed operations are linearizable. An operation that may or may not have
//! happened is [`Outcome::Indeterminate`], never an error that looks like "did not happen". Every operation
//! completes: with a result, or with a failure when its deadline has passed.
#![forbid(unsafe_code)]

mod caller;
mod client;
mod op;

pub use caller::{CallError, Caller};
pub use client::{Completion, KvClient, SubmitError, Token};
pub use op::{KEY_BYTES_MAX, Op, OpKind, Outcome, Refusal};
