//! Tables in a memory node, over every fabric.

mod audit;
mod bed;
mod conformance;
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
mod splits;
mod uncertain;
mod verbs;

use drover_testkit::beds::pool as pool_bed;
