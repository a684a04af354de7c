//! The integration tests of `drover-swarm`: one program, because linking is what test programs cost most.

mod departures;
mod found;
mod planted;
mod scenarios;
mod seeds;
mod shards;
mod worst_put;
