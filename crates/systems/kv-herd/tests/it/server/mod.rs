//! The server half of HERD, driven by hand on the loopback fabric: what the specification's corner cases
//! promise, one module each. Most modules end with a *flaw* that makes their test fail.

pub mod fake;

mod basics;
mod bulk;
mod elsewhere;
mod exactly_once;
mod handshake;
mod held;
mod order;
mod reclaim;
mod sleep;
mod slots;
mod threads;
mod torn;
