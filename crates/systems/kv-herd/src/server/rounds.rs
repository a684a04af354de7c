//! [`Rounds`]: how the rounds of the loop that steps a worker go, and how long requests take in them.

use drover_base::{Durations, Ns, Spread};
use drover_rt::RunStats;

/// Counts rounds. Empty for a worker that is stepped by hand.
#[derive(Default)]
pub(super) struct Rounds {
    durations: Durations,
    last: Round,
    stats: RunStats,
}

/// A round.
#[derive(Clone, Copy, Default)]
struct Round {
    began: Ns,
    /// Operations in it.
    executed: u64,
    /// Operations by its end.
    total: u64,
}

impl Rounds {
    /// A round that began at `began` has ended, with `total` operations executed so far. What was executed in the round
    /// before took until the start of this one: a busy core does not sleep in between, so no clock is read for it.
    pub(super) fn note(&mut self, began: Ns, total: u64, stats: RunStats) {
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

    /// How long requests took.
    pub(super) fn durations(&self) -> Spread {
        self.durations.read()
    }

    /// What the loop says of itself.
    pub(super) fn stats(&self) -> RunStats {
        self.stats
    }
}
