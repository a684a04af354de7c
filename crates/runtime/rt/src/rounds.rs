//! [`Rounds`]: statistics of a run loop's rounds, with the time that requests take.

use crate::RunStats;
use drover_base::{Durations, Ns, Spread};

/// Statistics of the rounds of a [`RunLoop`](crate::RunLoop) that executes requests. All zero if nothing calls
/// [`note`](Rounds::note).
#[derive(Default, Debug)]
pub struct Rounds {
    durations: Durations,
    last: Round,
    stats: RunStats,
}

/// A round.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    began: Ns,
    /// Operations in it.
    executed: u64,
    /// Operations by its end.
    total: u64,
}

impl Rounds {
    /// Notes the end of a round that began at `began`. `total`: number of requests executed so far, in all rounds;
    /// `stats`: the run loop's own statistics. Requests of the previous round are recorded with the time from the start
    /// of that round to the start of this one: a busy core does not sleep in between, and no clock has to be read for
    /// it.
    pub fn note(&mut self, began: Ns, total: u64, stats: RunStats) {
        self.stats = stats;
        let last = self.last;
        if last.executed > 0 {
            self.durations.note(began.since(last.began), last.executed);
        }
        self.last = Round {
            began,
            executed: total.wrapping_sub(last.total),
            total,
        };
    }

    /// A histogram with one entry per request: the time from the start of the round that executed it to the start of
    /// the next round. Requests of the last round noted are still missing.
    pub fn durations(&self) -> Spread {
        self.durations.read()
    }

    /// The run loop's own statistics, as given to the last [`note`](Rounds::note).
    pub fn stats(&self) -> RunStats {
        self.stats
    }
}
