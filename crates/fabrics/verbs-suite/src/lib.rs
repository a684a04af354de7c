//! What providers of the verbs API are tested with, and what protocols are tested over.
//!
//! - [`conformance`]: one generic body per rule that every provider must keep.
//! - [`loopback`]: the reference provider, two ends in one process; its switchable flaws prove that the rules can fail.
//! - [`faulty`]: a provider around a provider that loses, duplicates, delays, reorders and tears messages.
//! - [`traced`]: a provider around a provider that records the last verbs.
//!
//! It is not part of the contract, which is [`drover_verbs`], and no shipping crate links it: below the lab crates
//! it appears among dev-dependencies only, and `cargo xtask tidy` checks that.
//!
//! Each module has an example. Sources are those of the contract: `[IBTA]` chapters 9-11.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod faulty;
pub mod loopback;
pub mod traced;
