//! Commands on the keys of a system that is a model in memory, whose answers come late and whose items others change.

mod bed;
mod commands;
mod conversations;
mod no_allocation;
mod order;
mod trouble;
