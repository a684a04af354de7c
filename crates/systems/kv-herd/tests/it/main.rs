//! The integration tests of `drover-kv-herd`: one program, because linking is what test programs cost most.

mod client;
mod co_actor;
mod conformance;
mod control_panics;
mod many_partitions;
mod no_allocation;
mod no_allocation_of_a_pair;
mod planted;
mod server;
mod shm;
mod simulated;
mod units;
mod variants;
