//! [`NodeClock`]: a node's clock, as a compute process knows it.

use drover_base::Ns;
use drover_base::sync::{AtomicU64, Ordering};

/// What a process adds to its own time to get the node's. The node stores whole seconds, and only while its processor runs; so
/// the clock goes on from the latest that was seen.
pub(crate) struct NodeClock {
    /// Node's time less own time, nanoseconds, modulo 2^64: the largest seen, or somewhat less.
    ahead: AtomicU64,
    /// Own time when that was seen.
    seen_at: AtomicU64,
}

/// Clocks of two machines differ by less than one in so many.
const DRIFT: i64 = 10_000;

impl NodeClock {
    /// `clock_s` was read before `now`.
    pub(crate) fn new(clock_s: u64, now: Ns) -> NodeClock {
        NodeClock {
            ahead: AtomicU64::new(ahead(clock_s, now) as u64),
            seen_at: AtomicU64::new(now.0),
        }
    }

    /// `clock_s` was read before `now`. Called by the thread of the lease only.
    pub(crate) fn learn(&self, clock_s: u64, now: Ns) {
        let since = now.0.saturating_sub(self.seen_at.load(Ordering::Relaxed));
        let known = self.ahead.load(Ordering::Relaxed) as i64;
        // What was seen long ago may be too much, if the node's clock is slower than ours.
        let known = known.saturating_sub(since as i64 / DRIFT);
        self.ahead
            .store(known.max(ahead(clock_s, now)) as u64, Ordering::Relaxed);
        self.seen_at.store(now.0, Ordering::Relaxed);
    }

    /// The node's clock at `now`: seconds.
    #[inline]
    pub(crate) fn at(&self, now: Ns) -> u32 {
        let ahead = self.ahead.load(Ordering::Relaxed) as i64;
        let at = (now.0 as i64).saturating_add(ahead).max(0);
        (at / 1_000_000_000) as u32
    }
}

/// Least by which the node's time was ahead at `now`, nanoseconds.
fn ahead(clock_s: u64, now: Ns) -> i64 {
    (clock_s as i64)
        .saturating_mul(1_000_000_000)
        .saturating_sub(now.0 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stands_still_grows_older_and_one_that_moves_is_never_overtaken() {
        let clock = NodeClock::new(7, Ns::from_s(100));
        assert_eq!(clock.at(Ns::from_s(100)), 7);
        // Its processor does nothing for four seconds: what is read is old.
        clock.learn(7, Ns::from_s(104));
        assert_eq!(clock.at(Ns::from_s(105)), 11);
        // The real clock was at 7.9 then.
        clock.learn(12, Ns::from_s(105));
        assert_eq!(
            (clock.at(Ns::from_s(105)), clock.at(Ns::from_ms(105_999))),
            (12, 12)
        );
        assert_eq!(clock.at(Ns::from_s(106)), 13);
    }

    #[test]
    fn a_slower_node_is_not_overtaken_for_long() {
        let clock = NodeClock::new(0, Ns::from_s(0));
        // A node that loses 50 us each second, for a day.
        for second in 1..86_400u64 {
            let node_s = second * (1_000_000 - 50) / 1_000_000;
            clock.learn(node_s, Ns::from_s(second));
            let known = u64::from(clock.at(Ns::from_s(second)));
            assert!(known == node_s || known == node_s + 1, "{known} for {node_s}");
        }
    }

    #[test]
    fn anything_can_be_read() {
        let clock = NodeClock::new(u64::MAX, Ns(u64::MAX));
        clock.learn(u64::MAX / 3, Ns(5));
        let _ = clock.at(Ns(u64::MAX));
    }
}
