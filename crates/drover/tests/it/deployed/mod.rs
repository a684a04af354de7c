//! Services of several members, started as `examples/deploy/` says, each member in a network namespace of its own.

mod bed;
mod campaign;
mod compose;
mod process;
mod settings;
mod three_members;
