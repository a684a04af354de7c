//! Tools that tests of whole systems share: recorded histories and their checker, and the conformance suite that every
//! key-value system passes on every provider.
//!
//! - [`history`] records the operations of all clients with their results and times.
//! - [`linear`] checks whether a history of one key is linearizable.
//! - [`seeds`] chooses the seeds that a test runs with, fixed ones and fresh ones, and shows how to repeat one.
//! - [`kv_conformance`] is the suite; a system supplies a [`kv_conformance::Bed`].
//! - [`beds`] has the beds of each system on each fabric.
//! - [`bounded`] fails a test that hangs.
//! - [`conversations`] are what memcached's clients say, and what they are answered.
//! - [`certificates`] are made on the spot, by a CA of the test.
//! - [`etcd`] starts the registry of services of several members.
//! - [`alone`] runs a test in a process of its own; [`child`] starts other processes and talks to them.
//! - [`network`] has hosts, namespaces with addresses of their own, that can be cut off.
//!
//! Nothing here is used outside tests, examples and campaigns.
#![forbid(unsafe_code)]

pub mod alone;
pub mod beds;
pub mod bounded;
pub mod certificates;
pub mod child;
pub mod conversations;
pub mod etcd;
pub mod history;
pub mod kv_conformance;
pub mod linear;
pub mod network;
pub mod seeds;
