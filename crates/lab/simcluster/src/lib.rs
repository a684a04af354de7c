//! Servers and clients of our systems as actors in a cluster of simulated machines.
//!
//! It measures throughput and latency over the simulated fabric: unchanged servers and clients run on virtual cores,
//! and every client keeps a number of operations outstanding. It does not check histories (`drover-swarm` does), and it
//! contains no published results.
//!
//! - [`Setup`] describes the clients and their load, a [`Service`] the servers: [`Herd`], or the [`Shards`] of a
//!   system. [`run()`] simulates them and returns an [`Outcome`].
//! - [`open`], [`Doorkeeper`] and [`Asker`] are the pieces, for tests that build other clusters.
//! - [`Load`] describes the operations of the clients; [`costs`] has the prices of HERD's own code.
//!
//! ```
//! use drover_base::Ns;
//! use drover_simcluster::{Herd, Setup, run};
//! let (mut setup, mut herd) = (Setup::new(), Herd::new());
//! (herd.server.partition_count, setup.clients, setup.machines) = (1, 4, 2);
//! (setup.warm_up, setup.measured) = (Ns::from_us(50), Ns::from_us(100));
//! let outcome = run(&setup, &herd);
//! assert_eq!(outcome.failed, 0);
//! println!("{:.2} Mops at {:.1} us", outcome.mops, outcome.latency.mean_us);
//! ```
//!
//! Sources: `[HERD §5]` for the set-up that [`Setup::new`] describes.
#![forbid(unsafe_code)]

mod asker;
pub mod costs;
mod doorkeeper;
mod herd;
mod load;
mod outcome;
mod run;
mod service;
mod setup;
mod shards;
mod tally;

pub use asker::Asker;
pub use doorkeeper::Doorkeeper;
pub use herd::{Herd, SimWorker, fill, open};
pub use load::{Load, Popularity};
pub use outcome::{LatencyUs, Outcome};
pub use run::run;
pub use service::{Core, Service};
pub use setup::Setup;
pub use shards::Shards;
pub use tally::Tally;
