//! [`Tally`]: numbers of operations in flight and completed.

/// Counts a client's operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    in_flight: usize,
    completed: usize,
}

impl Tally {
    /// Counts an accepted operation.
    #[inline(always)]
    pub fn began(&mut self) {
        self.in_flight += 1;
    }

    /// Counts `count` operations as completed.
    #[inline(always)]
    pub fn ended(&mut self, count: usize) {
        self.in_flight -= count;
        self.completed += count;
    }

    /// Number of operations accepted and not completed, including those that wait to be sent.
    #[inline(always)]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of operations completed since the client was created.
    #[inline(always)]
    pub fn completed(&self) -> usize {
        self.completed
    }
}
