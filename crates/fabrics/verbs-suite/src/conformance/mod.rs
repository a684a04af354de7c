//! The conformance suite: one generic body per rule that every provider must follow.
//!
//! Two [`End`]s play a rule. They are connected by the provider under test and, separately, by a [`Chan`]. Both ends
//! run the same `async` body, with branches by [`Role`]; the body awaits instead of blocking, so the same code runs
//! - with both ends interleaved in one thread ([`assert_rule`] with [`Together::OneThread`]),
//! - in two threads ([`Together::TwoThreads`]),
//! - in two processes: each calls [`run_end`] with its role and its end of a channel.
//!
//! ```
//! mod conformance {
//!     use drover_verbs::*;
//!     use drover_verbs_suite::{conformance::*, loopback::*};
//!     struct Bed;
//!     impl TestBed for Bed {
//!         type Provider = Loopback;
//!         fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
//!             let device = LoopbackDevice::new();
//!             Ok([device.clone(), device])
//!         }
//!     }
//!     drover_verbs_suite::conformance_tests!(|rule| assert_rule(&Bed, rule)); // one #[test] per rule
//! }
//! ```
//!
//! A rule about a feature that the provider's [`Caps`](drover_verbs::Caps) do not offer is reported as skipped, by name
//! and with the missing capability. The flaws of the reference provider prove that the rules can fail ([`MUTANTS`]):
//! each flaw is caught by the rules listed with it.
//!
//! Sources: `[IBTA]` chapters 9-11; where fabrics differ, a rule checks only its own text.

mod access;
mod atomics;
mod bed;
mod card;
mod chan;
mod completions;
mod connecting;
mod datagrams;
mod domains;
mod end;
mod failures;
mod link;
mod lists;
mod local;
mod masked;
mod mutants;
mod reads;
mod rules;
mod sends;
mod shared_queue;
mod shared_recv;
mod sleeping;
mod writes;

pub use bed::{TestBed, Together, assert_rule, run_end, run_rule};
pub use chan::{Chan, ChanClosed, MemoryChan};
pub use end::{End, Role};
pub use mutants::{MUTANTS, Mutant};
pub use rules::{Need, Rule, rule, rules};

use std::fmt;

/// Result of one end's run of a rule: `Ok` if this end saw nothing that breaks the rule.
pub type Check = Result<(), Stop>;

/// Reason for ending a run of a rule early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The rule is broken, or the run failed for another reason; with a description.
    Broken(String),
    /// The rule does not apply to this provider; with the reason.
    Skipped(String),
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Broken(format!("unexpected error: {error}"))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Broken(how) => write!(f, "broken: {how}"),
            Stop::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// Ends the body with [`Stop::Broken`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Stop::Broken(format!($($text)+)));
        }
    };
}
use ensure;

/// `ensure!` that two values are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $what:expr) => {{
        let (left, right) = ($left, $right);
        if left != right {
            return Err($crate::conformance::Stop::Broken(format!(
                "{}: {left:?} instead of {right:?}",
                $what
            )));
        }
    }};
}
use ensure_eq;
