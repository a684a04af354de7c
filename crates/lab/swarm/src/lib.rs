//! Simulation testing: unchanged servers and clients, as actors in a simulated cluster with injected faults. Every
//! operation is recorded; afterwards the record is checked.
//!
//! A run is a scenario and a seed. The seed draws the sizes, switches whole kinds of trouble on or off (*swarm
//! testing* `[Groce12]`: a run without loss reaches states that a run with a little of everything never does), and
//! places every fault. The same scenario and seed give the same [trace hash](run::Outcome::trace_hash), so one command
//! repeats a run that found something.
//!
//! - [`subject`] defines what a system supplies for campaigns, [`case`] one run, [`outcome`] its result.
//! - [`scenario`] is HERD's table of scenarios, [`kind`] its kinds of trouble and **the fault model in prose**.
//! - [`run`] runs one case of HERD: first trouble, then operations that must all succeed.
//! - [`shards`] does the same for systems whose services consist of equal shards.
//! - [`check`] defines the rules that a record must satisfy, independent of the cluster.
//! - [`campaign`] runs many seeds on several threads, and reduces the cases that fail.
//! - [`planted`] lists mistakes that a campaign must find: a search that cannot fail proves nothing.
//!
//! It contains no model of a system: clients and servers are those of production, on a simulated fabric. It measures
//! no performance.
//!
//! ```
//! use drover_swarm::{run, scenario::Scenario};
//! let calm = Scenario::named("calm").expect("in the table");
//! let outcome = run::run(&run::Case::new(calm, 7));
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
pub mod kind;
mod non_client;
pub mod options;
pub mod outcome;
mod phases;
pub mod planted;
pub mod record;
pub mod run;
pub mod scenario;
pub mod shards;
pub mod subject;
