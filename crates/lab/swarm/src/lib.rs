//! Simulation testing: unchanged servers and clients, as actors in a simulated cluster with injected faults. Every
//! operation is recorded; afterwards the record is checked.
//!
//! A run is a scenario and a seed. The seed draws the sizes, switches whole kinds of trouble on or off (*swarm
//! testing* `[Groce12]`: a run without loss reaches states that a run with a little of everything never does), and
//! places every fault. The same scenario and seed give the same [trace hash](outcome::Outcome::trace_hash), so one
//! command repeats a run that found something.
//!
//! - [`subject`] defines what a system supplies for campaigns, [`case`] one run, [`outcome`] its result, [`scenario`] a
//!   selection of kinds of trouble.
//! - [`workers`] simulates services of one acceptor and a worker per partition, [`shards`] services of equal shards:
//!   each has a table of scenarios, kinds of trouble, and **the fault model in prose**.
//! - [`herd`] makes HERD a system of workers.
//! - [`check`] defines the rules that a record must satisfy, independent of the cluster.
//! - [`campaign`] runs many seeds on several threads, and reduces the cases that fail.
//!
//! Systems have planted mistakes that a campaign must find: a search that cannot fail proves nothing.
//!
//! The crate contains no model of a system: clients and servers are those of production, on a simulated fabric. It
//! measures no performance.
//!
//! ```
//! use drover_swarm::subject;
//! use drover_systems::System;
//! let outcome = subject::run(System::ALL[0], "calm", 7).expect("HERD has this scenario");
//! assert_eq!(outcome.violations, []);
//! assert!(outcome.summary.completed > 0);
//! ```
#![forbid(unsafe_code)]

mod actors;
mod asker;
pub mod campaign;
pub mod case;
pub mod check;
mod cluster;
mod door;
mod draw;
pub mod herd;
mod load;
pub mod outcome;
mod phases;
pub mod record;
mod reply;
mod run;
pub mod scenario;
pub mod shards;
pub mod subject;
mod wish;
pub mod workers;
