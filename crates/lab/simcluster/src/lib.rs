//! Servers and clients of our systems as actors in a cluster of simulated machines.
//!
//! It measures throughput and latency over the simulated fabric: unchanged servers and clients run on virtual cores,
//! and every client keeps a number of operations outstanding. It does not check histories (`drover-swarm` does), and it
//! contains no published results.
//!
//! - [`Setup`] describes the servers, the clients and their load. [`run()`] simulates a system of a table and returns an
//!   [`Outcome`]; [`run_form`] does it for one type of system.
//! - [`pools`] has memory nodes, and compute processes of threads with tasks, whatever they hold and do.
//! - [`Load`] describes the operations of the clients; [`costs`] has the prices of a system's own code.
//!
//! ```
//! use drover_base::Ns;
//! use drover_simcluster::{Setup, run};
//! use drover_systems::System;
//! let mut setup = Setup::new();
//! (setup.servers.shard_count, setup.clients, setup.machines) = (1, 4, 2);
//! (setup.warm_up, setup.measured) = (Ns::from_us(50), Ns::from_us(100));
//! for system in System::ALL {
//!     let outcome = run(&setup, *system, None);
//!     assert_eq!(outcome.failed, 0);
//!     println!("{system}: {:.2} Mops at {:.1} us", outcome.mops, outcome.latency.mean_us);
//! }
//! ```
//!
//! Sources: `[HERD §5]` for the set-up that [`Setup::new`] describes.
#![forbid(unsafe_code)]

mod asker;
pub mod costs;
mod load;
mod outcome;
pub mod pools;
mod run;
mod setup;
mod tally;

pub use load::{Draw, Draws, Load, Popularity};
pub use outcome::{FRACTIONS, LatencyUs, Outcome};
pub use run::{run, run_form, run_of};
pub use setup::{Prescribed, Servers, Setup};
