//! The common interface of drover's key-value systems: operations, outcomes, and the client trait.
//!
//! It is not a system: those are the `kv-*` crates. Code that is generic over systems (the conformance suite,
//! benchmarks, the command line) is written against this crate.
//!
//! - [`Op`] is an operation that a caller submits, [`Outcome`] its result.
//! - [`KvClient`] is the non-blocking client with submit and poll, for batches; everything else is built on it. [`Hosted`] is
//!   one whose operations are executed by tasks.
//! - [`System`] describes and runs a whole system: facts, sizes, how to start a service, how a client connects.
//! - [`Shard`], [`ShardPlan`] and [`ShardedSystem`] are for systems whose services are equal shards.
//! - [`PartitionMap`] says which shard owns a key.
//! - [`SteppedSystem`] is for callers that step servers and clients as actors, such as simulated clusters.
//! - [`HostingSystem`] is for systems whose workers share their cores with a [`CoActor`], such as memcached's sockets.
//! - [`SystemTable`] is a table of systems, for code that iterates over all of them.
//!
//! **Promises.** Completed operations on a key are linearizable. An operation that may or may not have happened is
//! [`Outcome::Indeterminate`], never an error that looks like "did not happen". Every operation completes: with a
//! result, or with a failure after its deadline.
#![forbid(unsafe_code)]

mod call;
mod client;
mod co_actor;
mod connect;
mod counter;
mod error;
mod extension;
mod hosted;
mod hosting;
mod key_order;
mod op;
mod owned_op;
mod partition_map;
mod plan;
mod reads;
pub mod secret;
mod service_stats;
mod shard;
mod sharded;
mod size_limits;
mod stepped;
mod system;
mod transfer;

pub use call::CallError;
pub use client::{Completion, KvClient, SubmitError, Token};
pub use co_actor::{CoActor, CoActors, CoreInfo, MakeCoActor};
pub use connect::{
    ConnectError, ConnectOptions, ServiceClient, ServiceInfo, ask_service, connect, dials, wait_for_sessions,
};
pub use counter::{Counter, CounterKind, Merge, Metric, MetricFamily, stats_text};
pub use drover_base::{Condition, KEY_BYTES_MAX};
pub use error::{SetupError, StartError, refused};
pub use extension::{EXTENSION_BYTES, Extension, ITEM_INFO_BYTES, ItemInfo};
pub use hosted::{Answer, AsyncOps, Hosted};
pub use hosting::{Hosting, HostingJob, HostingService, HostingSystem};
pub use key_order::KeyOrder;
pub use op::{Op, OpKind, Outcome, Refusal};
pub use owned_op::OwnedOp;
pub use partition_map::{BadMap, PARTITIONS_MAX, PartitionMap};
pub use plan::{HANDLER, ShardPlan, TablePlan, TableShape, Trial};
pub use reads::{Reads, TableKind, Verbs};
pub use service_stats::{ServiceStats, WorkerStats};
pub use shard::Shard;
pub use sharded::{MistakenJob, Planted, ShardedJob, ShardedSystem};
pub use size_limits::SizeLimits;
pub use stepped::{Accepting, CoreActor, SteppedJob, SteppedService, SteppedSizes, SteppedSystem};
pub use system::{
    Capacity, Channels, Facts, Offers, OnCore, OperationOffers, Policy, SHARDS_MAX, Service, Sizes,
    SlotPolicy, System, SystemJob, SystemTable,
};
pub use transfer::{Calls, FetchChoice, FetchObjective, InUse, ResultTransfer};
