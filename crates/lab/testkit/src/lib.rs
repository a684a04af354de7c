//! What tests of whole systems share: recorded histories and their checker, and the suite that every
//! key-value system passes on every provider.
//!
//! - [`history`] records who called what when, and what came back.
//! - [`linear`] says whether a history of one key could have happened one operation at a time.
//! - [`seeds`] says which seeds a test plays, fixed ones and fresh ones, and how to repeat one.
//! - [`kv_conformance`] is the suite; a system supplies a [`kv_conformance::Bed`].
//! - [`beds`] are such beds, of each system on each fabric.
//! - [`bounded`] ends a test with threads that hangs.
//! - [`alone`] runs a test in a process of its own; [`child`] starts other processes and talks to them.
//!
//! Nothing here is used outside tests, examples and campaigns.
#![forbid(unsafe_code)]

pub mod alone;
pub mod beds;
pub mod bounded;
pub mod child;
pub mod history;
pub mod kv_conformance;
pub mod linear;
pub mod seeds;
