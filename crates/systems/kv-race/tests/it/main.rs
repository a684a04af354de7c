//! Tables in a memory node, over every fabric.

mod audit;
mod bed;
mod deaths;
mod defects;
mod every_death;
mod expiry;
mod full;
mod histories;
mod long_values;
mod no_allocation;
mod nodes;
mod operations;
#[path = "../../../memnode/tests/it/bed.rs"]
#[allow(dead_code, reason = "it belongs to the tests of memnode, which use all of it")]
mod pool_bed;
mod splits;
mod uncertain;
mod verbs;
