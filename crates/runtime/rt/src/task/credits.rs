//! [`Credits`]: bounds the outstanding requests of a pool. *[SMART §4.2]*
//!
//! A card keeps the state of outstanding requests in a cache; with too many of them every request misses it. A credit
//! is the permission for one request. A post takes one per request, and each request gives its credit back exactly
//! once: when it has ended, or when its queue pair is replaced.
//!
//! Deviations from the paper: a list that is longer than the credits left is split instead of waiting for enough of
//! them, so that a list longer than the ceiling does not wait for ever; and one destination of several gets at most
//! the ceiling less [`RESERVED`], so that a dead one cannot absorb all credits of the thread.

/// Credits that one destination of several leaves to the others. *(our choice)*
const RESERVED: u32 = 2;

/// Credits of one pool. The ceiling may be lowered below what is outstanding: then no credit is left until enough
/// requests have ended.
#[derive(Clone, Debug)]
pub(super) struct Credits {
    ceiling: u32,
    /// What one destination may take.
    share: u32,
    taken: u32,
    peer_count: usize,
}

impl Credits {
    /// Credits of a pool without destinations; `None`: without a limit.
    pub(super) fn new(ceiling: Option<u32>) -> Credits {
        let mut credits = Credits {
            ceiling: 1,
            share: 1,
            taken: 0,
            peer_count: 0,
        };
        credits.set_ceiling(ceiling.unwrap_or(u32::MAX));
        credits
    }

    /// Adds a destination.
    pub(super) fn add_peer(&mut self) {
        self.peer_count += 1;
        self.set_ceiling(self.ceiling);
    }

    /// Sets the most requests that may be outstanding, at least 1.
    pub(super) fn set_ceiling(&mut self, ceiling: u32) {
        self.ceiling = ceiling.max(1);
        self.share = match self.peer_count {
            0 | 1 => self.ceiling,
            _ => self.ceiling.saturating_sub(RESERVED).max(1),
        };
    }

    pub(super) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    /// Number of credits taken, which is that of outstanding requests.
    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    /// Number of requests that may be posted now to a destination with `outstanding` requests.
    #[inline(always)]
    pub(super) fn left(&self, outstanding: usize) -> usize {
        let left = self.ceiling.saturating_sub(self.taken);
        left.min(self.share.saturating_sub(outstanding as u32)) as usize
    }

    /// Takes `count` credits, at most [`left`](Credits::left), for requests that are posted.
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count as u32;
    }

    /// Returns the credits of `count` requests that have ended, well or not.
    #[inline(always)]
    pub(super) fn give_back(&mut self, count: usize) {
        self.taken -= count as u32;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
