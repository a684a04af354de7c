//! Hit rates of caches of any size on a trace of requests: the answer to "how much memory do I need?".
//!
//! Policies `s3fifo` and `fifo` are not models: they run [`drover_store::Partition`] with the memory that `drover serve
//! -m SIZE -t 1` would give it. `lru` is a plain model that counts bytes per item. No network, no threads of a server,
//! no clock: time is what the trace says.
//!
//! - [`trace::Trace`] reads requests from a file, or draws them ([`trace::ZipfSpec`]).
//! - [`Options`] has the sizes, the policies and the rules; [`simulate`] plays the trace once for all caches side by side.
//! - [`Report`] has a row per size and policy, prints itself as a table, and has [advice](Report::advice).
//!
//! ```
//! use drover_cache_sim::trace::{Trace, ZipfSpec};
//! use drover_cache_sim::{Options, Policy, simulate};
//! use std::sync::atomic::AtomicU64;
//! let spec: ZipfSpec = "0.99,keys=10000,requests=50000,value=100".parse()?;
//! let options = Options { sizes: vec![256 << 10, 1 << 20], ..Options::default() };
//! let report = simulate(Trace::zipf(&spec), &options, &AtomicU64::new(0))?;
//! let rate = |size, policy| report.row(size, policy).and_then(|row| row.hit_rate).unwrap();
//! assert!(rate(1 << 20, Policy::S3Fifo) > rate(256 << 10, Policy::S3Fifo));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: `[SHARDS]` for sampling by the hash of the key; `[S3-FIFO]` for what is compared; see `docs/sources.md`.
#![forbid(unsafe_code)]

mod batch;
mod cache;
mod counts;
mod feed;
mod lru;
mod options;
mod report;
mod run;
mod sample;
pub mod sizes;
mod table;
pub mod trace;

#[cfg(test)]
mod tests;

pub use options::{Options, OptionsError, Policy};
pub use report::{Report, Row};
pub use run::{SimError, simulate};
pub use sample::Rate;
