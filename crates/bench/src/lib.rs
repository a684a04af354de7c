//! Workloads, load generators, bounds, rivals, result files.
#![forbid(unsafe_code)]

pub mod bound;
mod driver;
mod flight;
mod helper;
mod latency;
mod machine;
pub mod pin;
mod progress;
pub mod report;
pub mod result_file;
pub mod rivals;
mod target;
pub mod workload;

pub use driver::{Client, Measured, Pace, RunOptions, SAMPLE_EVERY};
pub use flight::Counts;
pub use helper::{Helper, helper_main};
pub use latency::{Latency, LatencyUs};
pub use machine::Machine;
pub use progress::Progress;
pub use target::{KvTarget, Target, TargetError};
