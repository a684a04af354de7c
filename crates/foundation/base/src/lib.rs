//! Types that every other crate of drover uses: units, the hash of a key, seeded randomness, and the two traits that
//! let the same protocol source run on real cores and on simulated ones.
//!
//! No general utilities: nothing here depends on memory, verbs or key-value operations, of which stores and systems share
//! only the [`Condition`] and the length of keys.
//!
//! - [`Ns`] is a duration or a point in time, in nanoseconds; times are never passed as bare integers.
//! - [`KeyHash`] is the 128-bit keyed hash of a key, with the bit fields that choose partition, bucket
//!   and tag.
//! - [`Cpu`] is the core that code runs on: the only source of the time, of random numbers and of the cost of work.
//! - [`Crc64`] is the checksum by which those who poll or READ memory tell whole bytes from torn ones.
//! - [`Contended`] is what several threads change, behind a lock.
//! - [`Actor`] is anything that polls: one `step` is at most one batch of work.
//!
//! ```
//! use drover_base::{HashSeed, KeyHash};
//! let seed = HashSeed::new(1, 2);
//! let hash = seed.hash(b"user42");
//! assert_eq!(hash, seed.hash(b"user42"));
//! assert!(hash.partition_index(6) < 6);
//! ```
//!
//! Sources: `[HERD §4]` and `[MICA]` for the bit fields, `[HD96]` for [`Zipf`]; see `docs/sources.md`.
#![forbid(unsafe_code)]

mod actor;
mod condition;
mod contended;
mod cpu;
mod crc32c;
mod crc64;
mod durations;
mod hash;
mod rng;
pub mod sync;
mod time;
mod xxh3;
mod zipf;

pub use actor::{Actor, Progress};
pub use condition::{Condition, KEY_BYTES_MAX};
pub use contended::{Contended, Glance, Held, LockCounts};
pub use cpu::{Cost, Cpu, Line, LockId, TimelessCpu, Work};
pub use crc32c::{crc32c, crc32c_append};
pub use crc64::{Crc64, crc64};
pub use durations::{Durations, Spread};
pub use hash::{HashKind, HashSeed, KeyHash, KeyHasher, key_words};
pub use rng::{Rng, mix};
pub use time::Ns;
pub use zipf::Zipf;
