//! [`Tally`]: operations under way and completed.

/// How many operations were taken and ended.
#[derive(Default)]
pub(super) struct Tally {
    in_flight: usize,
    completed: usize,
}

impl Tally {
    /// An operation was taken.
    #[inline(always)]
    pub(super) fn began(&mut self) {
        self.in_flight += 1;
    }

    /// So many have ended.
    #[inline(always)]
    pub(super) fn ended(&mut self, count: usize) {
        self.in_flight -= count;
        self.completed += count;
    }

    #[inline(always)]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Since the client was made.
    #[inline(always)]
    pub(super) fn completed(&self) -> usize {
        self.completed
    }
}
