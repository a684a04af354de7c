//! Measures key-value systems: workloads, load generators, the machine's bounds, rivals, result files.
//!
//! It names no fabric and no system of ours: the load generator drives a [`Target`], and a [`System`] makes targets.
//! The rivals of [`rivals`] are targets too, so the same loop drives all of them.
//!
//! - [`workload`]: the operations; a [`Tape`](workload::Tape) is drawn before the clock starts.
//! - [`Client`] drives one target, [`LoadThreads`] are all client threads (of several processes, if wanted),
//!   [`session::run`] is a whole `bench`.
//! - [`bound`]: the machine's limits, measured in the same seconds.
//! - [`report`], [`result_file`]: the results as files.
//!
//! ```
//! use drover_base::Ns;
//! use drover_bench::workload::{KeyText, Mix, Popularity, Tape, TapeOptions, Values};
//! use drover_bench::{Client, NullTarget, Pace, RunOptions};
//! let tape = Tape::new(&TapeOptions {
//!     mix: Mix::parse("b").unwrap(),
//!     popularity: Popularity::Zipf(0.99),
//!     key_count: 1000,
//!     entry_count: 4096,
//!     seed: 1,
//!     client_index: 0,
//!     client_count: 1,
//! });
//! let keys = KeyText::new(16, 1000, 1).unwrap();
//! let mut client = Client::new(NullTarget::default(), tape, keys, Values::new(32, 32), 0);
//! let options = RunOptions { window: 16, pace: Pace::Closed, time: Ns::from_ms(1), ops_min: 100, other_tape: false };
//! let measured = client.run(&options).unwrap();
//! assert!(measured.counts.ops >= 100);
//! ```
//!
//! Sources: `[YCSB]` for mixes and constants, `[HERD §5.2]` for the workloads, `[HdrHistogram]`.
#![forbid(unsafe_code)]

pub mod bound;
mod churn;
mod counted;
mod driver;
mod flight;
mod helper;
mod latency;
mod load_process;
mod load_threads;
mod machine;
pub mod pin;
pub mod processor_time;
mod progress;
mod reads;
pub mod report;
pub mod result_file;
pub mod rivals;
pub mod session;
mod table;
mod target;
mod verbs;
pub mod workload;

/// Commit that this program was built from, or `unknown`.
pub const COMMIT: &str = env!("DROVER_COMMIT");

pub use driver::{Client, Measured, Pace, Rates, RunOptions, SAMPLE_EVERY};
pub use drover_kv::{Reads, TableKind};
pub use flight::Counts;
pub use helper::{Helper, helper_main};
pub use latency::{Latency, LatencyUs, SpreadUs};
pub use load_process::client_process;
pub use load_threads::{LoadOptions, LoadThreads, System};
pub use machine::Machine;
pub use progress::Progress;
pub use reads::{Churned, ReadsPerGet, Table};
pub use target::{KvTarget, NullTarget, Target, TargetError};
pub use verbs::{VerbsByKind, VerbsPerOp};
