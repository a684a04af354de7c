//! Options of the faults, and counters.

use drover_base::Ns;
use drover_verbs::Caps;
use std::sync::atomic::{AtomicU64, Ordering};

/// Faults and their probabilities, per request, from 0 to 1. The first fault drawn, in the order of the fields,
/// applies.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultOptions {
    /// Seed of all draws, which also depend on the order in which contexts are opened.
    pub seed: u64,
    /// The message never arrives.
    pub drop: f64,
    /// The lines of a WRITE become visible in random order (only WRITEs of more than one word).
    pub tear: f64,
    /// The message arrives later.
    pub delay: f64,
    /// The message arrives after the next one.
    pub reorder: f64,
    /// The message arrives, and once more later.
    pub duplicate: f64,
    /// Over RC: the connection breaks, with equal probability before or after the list is executed.
    pub rc_break: f64,
    /// A late message waits for at most this many posts and polls ...
    pub late_polls_max: u32,
    /// ... and for at most this long (both drawn uniformly).
    pub late_max: Ns,
    /// A deliberate bug, to test the tests: late WRITEs are split into lines, each of which may be lost separately,
    /// although [`WriteCaps::ordered`](drover_verbs::WriteCaps::ordered) promises that a WRITE arrives completely or not at all.
    pub splits_late: bool,
}

impl FaultOptions {
    /// No faults.
    pub fn quiet(seed: u64) -> FaultOptions {
        FaultOptions {
            seed,
            drop: 0.0,
            tear: 0.0,
            delay: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            rc_break: 0.0,
            late_polls_max: 64,
            late_max: Ns::ZERO,
            splits_late: false,
        }
    }

    /// All faults of unreliable queue pairs, each with probability `p`.
    pub fn all(seed: u64, p: f64) -> FaultOptions {
        FaultOptions {
            drop: p,
            tear: p,
            delay: p,
            reorder: p,
            duplicate: p,
            ..FaultOptions::quiet(seed)
        }
    }

    /// Whether any fault is possible.
    pub fn any(&self) -> bool {
        self.any_unreliable() || self.rc_break > 0.0
    }

    pub(super) fn any_unreliable(&self) -> bool {
        [self.drop, self.tear, self.delay, self.reorder, self.duplicate]
            .iter()
            .any(|&p| p > 0.0)
    }

    /// Capabilities that remain true with the faults.
    pub(super) fn caps(&self, inner: &Caps) -> Caps {
        let mut caps = inner.clone();
        if self.tear > 0.0 {
            caps.writes.ordered = false;
        }
        if self.any() {
            caps.writes.lossless = false;
            caps.send_depth_max = caps.send_depth_max.saturating_sub(super::late::LATE_DEPTH).max(1);
        }
        caps
    }
}

/// Number of faults by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Messages dropped.
    pub dropped: u64,
    /// WRITEs torn.
    pub torn: u64,
    /// Messages delayed.
    pub delayed: u64,
    /// Messages delivered after the next one.
    pub reordered: u64,
    /// Messages delivered twice.
    pub duplicated: u64,
    /// Connections broken.
    pub broken: u64,
    /// Late messages that were lost instead, because too many were late or the message was too long.
    pub overflowed: u64,
}

impl FaultCounts {
    /// All faults together.
    pub fn total(&self) -> u64 {
        self.dropped + self.torn + self.delayed + self.reordered + self.duplicated + self.broken
    }
}

/// The counters behind [`FaultCounts`], shared by all contexts. Relaxed: they publish nothing.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) dropped: AtomicU64,
    pub(super) torn: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) reordered: AtomicU64,
    pub(super) duplicated: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) overflowed: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> FaultCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FaultCounts {
            dropped: get(&self.dropped),
            torn: get(&self.torn),
            delayed: get(&self.delayed),
            reordered: get(&self.reordered),
            duplicated: get(&self.duplicated),
            broken: get(&self.broken),
            overflowed: get(&self.overflowed),
        }
    }
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
