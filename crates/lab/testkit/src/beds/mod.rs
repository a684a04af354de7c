//! Test beds: the servers and clients of a system, all in one thread, on the fabrics that its tests run on.
//!
//! - [`Ground`] is a fabric that a test can open; [`WithFaults`] adds faults to one, and [`devices`] opens real
//!   devices.
//! - [`ShardsBed`] and [`SimBed`] are any [`ShardedSystem`](drover_kv::ShardedSystem), on any ground and in a simulated
//!   cluster.
//! - [`pool`] has memory nodes and compute processes.
//! - [`OneShard`] is one shard with honest clients, for tests that play others.
//! - [`allocates_nothing`], [`connect_in_order`] and [`read_each_once`] are tests that such systems share, and
//!   [`shard_suite!`](crate::shard_suite) generates the suite for one of them.
//! - [`connected`] waits for a client of a bed. [`Cluster`] is the pair of simulated machines that beds with a modelled network share.

mod allocation;
mod clusters;
pub mod devices;
mod fabrics;
mod ground;
mod lists;
mod once;
mod one_shard;
pub mod pool;
mod shards;
mod sim_shards;
mod suite;

pub use allocation::allocates_nothing;
pub use clusters::{Cluster, Simulated};
pub use fabrics::WithFaults;
pub use ground::{Ground, faults, pass_really};
pub use lists::connect_in_order;
pub use once::read_each_once;
pub use one_shard::{OneShard, put};
pub use shards::{ShardOptions, ShardsBed, connected, shard_options};
pub use sim_shards::SimBed;
#[doc(hidden)]
pub use suite::providers;
