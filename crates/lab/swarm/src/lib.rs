//! Simulation testing: real servers and clients, unchanged, as actors in a simulated cluster in which things go
//! wrong; every operation is recorded, and what the cluster did is checked afterwards.
//!
//! One run is a scenario and a seed. The seed draws the sizes, switches whole kinds of trouble on or off (*swarm
//! testing* `[Groce12]`: a run without loss reaches states that a run with a little of everything never does), and
//! places every fault. The same scenario and seed give the same [trace hash](run::Outcome::trace_hash), so a run that
//! found something can be had again, by one command.
//!
//! - [`subject`] says what campaigns want of a system, [`case`] what one run is, [`outcome`] what came of it.
//! - [`scenario`] is HERD's table of scenarios, [`kind`] its kinds of trouble and **the fault model in prose**.
//! - [`run`] runs one of HERD: trouble, then calm, then questions to which everybody must have an answer.
//! - [`shards`] has the same for systems whose services are equal shards.
//! - [`check`] says what must hold; it knows nothing of how the cluster was run.
//! - [`campaign`] runs many seeds on several threads, and shrinks what it finds.
//! - [`planted`] are mistakes that a campaign must find: a search that cannot fail proves nothing.
//!
//! It is no model of a system: clients and servers are those that serve production, on a fabric that happens to
//! be simulated. Nothing here says how fast anything is.
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
