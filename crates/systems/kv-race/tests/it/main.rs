//! Tables in a memory node, over every fabric.

mod bed;
mod conformance;
mod deaths;
mod defects;
mod histories;
mod no_allocation;
mod operations;
mod splits;
mod verbs;
