//! Test support for providers of the verbs API, and for protocols over them.
//!
//! - [`conformance`]: one generic body per rule that every provider must follow.
//! - [`loopback`]: the reference provider, two ends in one process; its switchable flaws prove that the rules can fail.
//! - [`faulty`]: a wrapper that loses, duplicates, delays, reorders and tears messages of another provider.
//! - [`traced`]: a wrapper that records the last verbs of another provider.
//!
//! It is not part of the contract, which is [`drover_verbs`], and no shipping crate links it: below the lab crates it
//! appears only among dev-dependencies, which `cargo xtask tidy` checks.
//!
//! Each module has an example. Sources are those of the contract: `[IBTA]` chapters 9-11.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod faulty;
pub mod loopback;
pub mod traced;
