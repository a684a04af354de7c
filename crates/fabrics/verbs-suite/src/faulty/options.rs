//! Options of the faults, and counters.

use drover_base::Ns;
use drover_verbs::Caps;
use std::sync::atomic::{AtomicU64, Ordering};

/// Faults and their probabilities, from 0 to 1, each drawn separately for every request. If several of `drop` to
/// `duplicate` are drawn for one request, only the first in the order of the fields applies; if that is `tear` and the
/// request cannot be torn, the request has no fault.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultOptions {
    /// Seed of all draws. They also depend on the order in which contexts are opened, and on each context's order of
    /// posts.
    pub seed: u64,
    /// Probability that a message over UC or UD never arrives.
    pub drop: f64,
    /// Probability that the cache lines of a WRITE over UC (its words, if it is within one line) become visible one by
    /// one in random order, each as late as with `delay`. WRITEs with immediate data are not torn.
    pub tear: f64,
    /// Whether torn WRITEs become visible word by word of 8 bytes, instead of line by line.
    pub tear_words: bool,
    /// Probability that a message over UC or UD arrives late: after the waits that `late_polls_max` and `late_max`
    /// describe.
    pub delay: f64,
    /// Probability that a message over UC or UD arrives only at the second post of send requests, poll or park of the
    /// sender's context after its own post.
    pub reorder: f64,
    /// Probability that a message over UC or UD arrives twice: at once, and once more late, as with `delay`.
    pub duplicate: f64,
    /// Probability, per request over RC, that its queue pair moves to the error state: half of the time before the list
    /// with the request is posted, else after.
    pub rc_break: f64,
    /// Maximum wait of a late message (delayed, piece of a torn one, or second copy), counted in posts of send
    /// requests, polls and parks of the sender's context. Each message draws from 1 to this; 0 counts as 1. It also
    /// waits for the time that it draws with `late_max`.
    pub late_polls_max: u32,
    /// Maximum wait of a late message in time; each message draws from zero to this. It is delivered at the first post,
    /// poll or park when both waits are over.
    pub late_max: Ns,
    /// Whether a READ or an atomic over RC that completes without its result ends its thread by a panic, which
    /// [`lost_results`](super::lost_results) counts: a fault of the device. The last 8 bytes of where the result goes are
    /// overwritten before.
    pub checks_results: bool,
    /// A deliberate bug, to test the tests: late WRITEs are split into lines, each of which may be lost separately,
    /// although a WRITE of up to [`Caps::mtu_bytes`] arrives either whole or not at all.
    pub splits_late: bool,
}

impl FaultOptions {
    /// Options without faults, as a base for others, with a `late_polls_max` of 64 and a `late_max` of zero.
    pub fn quiet(seed: u64) -> FaultOptions {
        FaultOptions {
            seed,
            drop: 0.0,
            tear: 0.0,
            tear_words: false,
            delay: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            rc_break: 0.0,
            late_polls_max: 64,
            late_max: Ns::ZERO,
            checks_results: false,
            splits_late: false,
        }
    }

    /// Options with all faults of UC and UD, each with probability `p`. RC connections do not break.
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

    /// Whether any fault has a probability above 0.
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
        caps.supports.shared_queues = false;
        if self.tear > 0.0 {
            caps.writes.ordered = false;
            // Words, also without `tear_words`: WRITEs within one line are torn into words.
            caps.reads.unit_bytes = caps.reads.unit_bytes.min(8);
        }
        if self.any() {
            caps.writes.lossless = false;
            caps.send_depth_max = caps.send_depth_max.saturating_sub(super::late::LATE_DEPTH).max(1);
        }
        caps
    }
}

/// Number of faults injected, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Messages dropped by [`FaultOptions::drop`].
    pub dropped: u64,
    /// WRITEs torn, counted when posted: one per WRITE, not per piece.
    pub torn: u64,
    /// Messages delayed, counted when posted.
    pub delayed: u64,
    /// Messages reordered, counted when posted.
    pub reordered: u64,
    /// Messages duplicated, counted when posted.
    pub duplicated: u64,
    /// Queue pairs moved to the error state by [`FaultOptions::rc_break`].
    pub broken: u64,
    /// Late messages (delayed, reordered, second copies, pieces of torn WRITEs) that were lost instead, because all 256
    /// buffers of the context were in use or the message was longer than 4096 bytes.
    pub overflowed: u64,
}

impl FaultCounts {
    /// Sum of all counters but `overflowed`.
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
