//! Tables in a memory node, over every fabric.

mod bed;
mod histories;
mod operations;
mod splits;
mod verbs;
