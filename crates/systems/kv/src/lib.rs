//! What every key-value system of drover offers: operations, outcomes, and the shape of clients.
//!
//! It is not a system: those are the `kv-*` crates. Anything generic over systems (the conformance suite,
//! benchmarks, the command line) is written against this crate.
//!
//! - [`Op`] is what a caller wants, [`Outcome`] what came of it.
//! - [`KvClient`] is the batch-shaped, non-blocking client that everything else is built on: submit, poll.
//! - [`System`] is what a system tells and does as a whole: facts, sizes, how a service starts and a client connects.
//! - [`Shard`], [`ShardPlan`] and [`ShardedSystem`] are for systems whose services are equal shards.
//! - [`SystemTable`] is a table of systems, for whatever iterates over one.
//!
//! **Promises.** Per key, completed operations are linearizable. An operation that may or may not have
//! happened is [`Outcome::Indeterminate`], never an error that looks like "did not happen". Every operation
//! completes: with a result, or with a failure when its deadline has passed.
#![forbid(unsafe_code)]

mod call;
mod client;
mod connect;
mod counter;
mod op;
mod plan;
mod reads;
mod shard;
mod sharded;
mod system;

pub use call::CallError;
pub use client::{Completion, KvClient, SubmitError, Token};
pub use connect::{
    ConnectError, ConnectOptions, ServiceClient, ServiceInfo, SetupFailure, ask_service, connect, dials,
};
pub use counter::{Counter, CounterKind, Merge, stats_text};
pub use op::{KEY_BYTES_MAX, Op, OpKind, Outcome, Refusal};
pub use plan::{ShardPlan, TableShape};
pub use reads::{Reads, TableKind};
pub use shard::Shard;
pub use sharded::{Planted, ShardedJob, ShardedSystem};
pub use system::{
    Capacity, Channels, Facts, Offers, OnCore, Policy, Service, Sizes, System, SystemJob, SystemTable,
};
