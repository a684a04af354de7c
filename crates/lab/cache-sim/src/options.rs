//! [`Options`]: which caches are simulated, and by which rules.

use crate::Rate;
use crate::sizes::CACHE_BYTES;
use drover_store::{Eviction, VALUE_BYTES_MAX};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Which items a cache evicts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Ours, the default of `drover serve`: those that are used least (S3-FIFO).
    S3Fifo,
    /// Those whose last use is longest ago: a model, for comparison.
    Lru,
    /// Ours, `drover serve --eviction fifo`: those that were stored longest ago.
    Fifo,
}

impl Policy {
    /// Every policy, in the order of reports.
    pub const ALL: [Policy; 3] = [Policy::S3Fifo, Policy::Lru, Policy::Fifo];

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::S3Fifo => "s3fifo",
            Policy::Lru => "lru",
            Policy::Fifo => "fifo",
        }
    }

    /// The policy of our own code; `None` for a model.
    pub(crate) fn eviction(self) -> Option<Eviction> {
        match self {
            Policy::S3Fifo => Some(Eviction::S3Fifo),
            Policy::Fifo => Some(Eviction::Fifo),
            Policy::Lru => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("{text}: expected s3fifo, lru or fifo"))
    }
}

/// Caches to simulate, and rules.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Sizes of the caches, bytes: memory for items and index of ours, for items of the model. At least one, each in
    /// [`CACHE_BYTES`].
    pub sizes: Vec<u64>,
    /// Policies, each with every size. At least one.
    pub policies: Vec<Policy>,
    /// Share of the trace that fills the caches before gets are counted, from 0 to 1.
    pub warmup: f64,
    /// Whether a get that misses stores the item, as users of a cache do.
    pub fill: bool,
    /// Length of values where the trace has none, bytes.
    pub value_bytes: u64,
    /// Time to live of stored items where the trace has none, seconds; 0: unlimited.
    pub ttl_s: u32,
    /// Longest value accepted, bytes (`drover serve -I`). A value longer than half of a cache is refused, too.
    pub item_bytes_max: usize,
    /// Bytes that an item of the LRU model takes besides key and value.
    pub overhead_bytes: u64,
    /// Share of the keys that caches are simulated with; `None`: as many as [`memory_bytes`](Options::memory_bytes) allows.
    pub sample: Option<Rate>,
    /// Most memory of one simulated cache, bytes, unless `sample` is given: larger ones are simulated with a share of the
    /// keys and of their memory.
    pub memory_bytes: u64,
    /// Threads that play the trace.
    pub jobs: usize,
}

impl Default for Options {
    /// All policies, caches of 16 MiB to 1 GiB, the second half counted.
    fn default() -> Options {
        Options {
            sizes: (24..=30).map(|shift| 1 << shift).collect(),
            policies: Policy::ALL.to_vec(),
            warmup: 0.5,
            fill: true,
            value_bytes: 100,
            ttl_s: 0,
            item_bytes_max: 1 << 20,
            overhead_bytes: ITEM_HEAD_BYTES,
            sample: None,
            memory_bytes: 256 << 20,
            jobs: 1,
        }
    }
}

/// Head of an item of memcached, with a CAS number *(stated in `[memcached]`, `items.h`)*.
const ITEM_HEAD_BYTES: u64 = 56;

/// Options that cannot be simulated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No size or no policy is given.
    #[error("no cache to simulate: there must be a size and a policy")]
    NoCache,
    /// A size is outside [`CACHE_BYTES`].
    #[error("a cache of {bytes} bytes: from 64k to 1024t")]
    Size {
        /// The size, bytes.
        bytes: u64,
    },
    /// The warm-up is no share.
    #[error("warm-up {share}: expected a share of the trace from 0 to 1")]
    Warmup {
        /// What was given.
        share: f64,
    },
    /// The longest value is out of range.
    #[error("longest value of {bytes} bytes: from 1 to 8m")]
    ItemBytes {
        /// What was given.
        bytes: usize,
    },
    /// With this sample a cache has less memory than a partition must have.
    #[error(
        "a cache of {bytes} bytes with {sample} of the keys: less than 64k is left; sample more, or leave the size out"
    )]
    Sample {
        /// Size of the cache, bytes.
        bytes: u64,
        /// The sample.
        sample: Rate,
    },
}

impl Options {
    /// Share of the keys that a cache of `size_bytes` is simulated with.
    pub(crate) fn rate(&self, size_bytes: u64) -> Rate {
        let least = *CACHE_BYTES.start();
        self.sample
            .unwrap_or_else(|| Rate::fitting(size_bytes, self.memory_bytes.max(2 * least)))
    }

    /// Checks everything that [`simulate`](crate::simulate) would refuse.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.sizes.is_empty() || self.policies.is_empty() {
            return Err(OptionsError::NoCache);
        }
        // A comparison with NaN is false.
        if !(0.0..=1.0).contains(&self.warmup) {
            return Err(OptionsError::Warmup { share: self.warmup });
        }
        if !(1..=VALUE_BYTES_MAX + 1).contains(&self.item_bytes_max) {
            return Err(OptionsError::ItemBytes {
                bytes: self.item_bytes_max,
            });
        }
        for &bytes in &self.sizes {
            if !CACHE_BYTES.contains(&bytes) {
                return Err(OptionsError::Size { bytes });
            }
            let sample = self.rate(bytes);
            if sample.of(bytes) < *CACHE_BYTES.start() {
                return Err(OptionsError::Sample { bytes, sample });
            }
        }
        Ok(())
    }
}
