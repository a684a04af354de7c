//! Published figures, run again: microbenchmarks over the verbs API, with what was published printed beside.
//!
//! It is not a place for key-value systems or for end-to-end results: the rows those are held against stand in
//! `drover-heldout`, which this crate cannot reach, because here profiles are fitted.
//!
//! - [`room::Room`] is a room of machines, by whichever provider; [`micro`] runs in it without knowing which.
//! - [`published::Expected`] holds published values.
//!
//! Sources: `[HERD]`, `[A16]`, `[FaSST]`, `[RFP]`, `[SMART]`, `[PRISM]`; see `docs/sources.md`.
#![forbid(unsafe_code)]

pub mod micro;
pub mod published;
pub mod room;
