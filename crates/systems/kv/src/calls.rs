//! [`Calls`]: counts of the calls of clients whose results are fetched or pushed; [`FetchChoice`]: how they are fetched.

/// Most failed READs of a call that [`Calls::fails`] tells apart.
pub const FAILS_COUNTED_MAX: usize = 16;

/// Counts of the calls of a client that READs the results of its requests, or has them WRITTEN to its memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Calls {
    /// Work requests posted for all calls: WRITEs of requests and modes, READs.
    pub operations: u64,
    /// Results that came by READ, by the number of READs that had found nothing; the last counts all longer ones.
    pub fails: [u64; FAILS_COUNTED_MAX + 1],
    /// Results that the server WROTE.
    pub pushed: u64,
    /// READs of what a first READ had left out.
    pub second_reads: u64,
    /// Changes from fetched to pushed results, and back.
    pub switches: [u64; 2],
}

impl Calls {
    /// Adds the counts of another client.
    pub fn add(&mut self, other: &Calls) {
        self.each(other, |sum, other| *sum += other);
    }

    /// These counts without those of `earlier`, a previous state of them.
    ///
    /// # Panics
    /// In debug builds, if a count of `earlier` is larger.
    #[must_use]
    pub fn since(mut self, earlier: &Calls) -> Calls {
        self.each(earlier, |count, earlier| *count -= earlier);
        self
    }

    /// Number of calls that have ended.
    pub fn ended(&self) -> u64 {
        self.fails.iter().sum::<u64>() + self.pushed
    }

    fn each(&mut self, other: &Calls, change: fn(&mut u64, u64)) {
        change(&mut self.operations, other.operations);
        change(&mut self.pushed, other.pushed);
        change(&mut self.second_reads, other.second_reads);
        let switches = self.switches.iter_mut().zip(other.switches);
        let fails = self.fails.iter_mut().zip(other.fails);
        switches
            .chain(fails)
            .for_each(|(count, other)| change(count, other));
    }
}

/// How clients READ results, instead of what they would choose themselves: for figures, which prescribe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchChoice {
    /// `R`: a call with this many failed READs is slow. `u32::MAX`: none is, so that results are never pushed.
    pub slow_reads: u32,
    /// `F`: bytes of a value that the first READ of a GET's result fetches, headers excluded.
    pub first_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_and_taken_away_again_is_gone() {
        let one = Calls {
            operations: 9,
            fails: std::array::from_fn(|fails| fails as u64),
            pushed: 3,
            second_reads: 2,
            switches: [2, 1],
        };
        let mut both = one;
        both.add(&one);
        assert_eq!(both.ended(), 2 * one.ended());
        assert_eq!(one.ended(), 16 * 17 / 2 + 3);
        assert_eq!(both.since(&one), one);
        assert_eq!(one.since(&one), Calls::default());
    }
}
