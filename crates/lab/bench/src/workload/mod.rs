//! Workloads: mixes of operations, distributions of keys, bytes of keys and values.
//!
//! Everything is drawn before the clock starts: a [`Tape`] per client thread holds operation and key index of millions
//! of operations, so that drawing one costs about a nanosecond. Key and value bytes are computed from the index.

mod keys;
mod mix;
mod tape;
mod values;

pub use drover_base::Zipf;
pub use keys::{KeyError, KeyText};
pub use mix::{Mix, MixError};
pub(crate) use tape::scatter_below;
pub use tape::{Draw, Popularity, Tape, TapeOptions, Verb};
pub use values::Values;
