//! [`Seeds`]: the seeds that a test runs with. A few are fixed, so that a failure found once is always tested again;
//! the others are fresh, so that every run covers new cases.
//!
//! Environment variables choose other seeds: `DROVER_SEED` is the first seed, `DROVER_SEEDS` the number of seeds.
//! `DROVER_SEED` alone means only that seed, to repeat a failure; `DROVER_SEEDS` alone means that number of fresh
//! seeds after the fixed ones.
//!
//! ```
//! use drover_testkit::seeds::Seeds;
//!
//! let seeds = Seeds::new(4, 2);
//! println!("{seeds}");
//! let mut played = 0;
//! seeds.each(|_seed| played += 1);
//! assert_eq!(played, seeds.count());
//! ```

use std::fmt;
use std::ops::Range;

/// Fresh seeds are below this number, so that they are easy to type.
const FRESH_MAX: u64 = 1_000_000_000;

/// The seeds that a test runs with: fixed ones and fresh ones, or instead of both those that `DROVER_SEED` names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeds {
    fixed: Range<u64>,
    others: Range<u64>,
    is_repetition: bool,
}

impl Seeds {
    /// Chooses the seeds 0 to `fixed - 1` and `fresh` consecutive seeds from a random start, unless `DROVER_SEED` or
    /// `DROVER_SEEDS` is set (see the [module](self)).
    ///
    /// # Panics
    ///
    /// If one of them is no number, or the system provides no randomness.
    pub fn new(fixed: u64, fresh: u64) -> Seeds {
        Seeds::choose(
            fixed,
            fresh,
            number("DROVER_SEED"),
            number("DROVER_SEEDS"),
            fresh_seed,
        )
    }

    fn choose(
        fixed: u64,
        fresh: u64,
        first: Option<u64>,
        count: Option<u64>,
        start: impl FnOnce() -> u64,
    ) -> Seeds {
        if let Some(first) = first {
            let count = count.unwrap_or(1);
            return Seeds {
                fixed: 0..0,
                others: first..first + count,
                is_repetition: count < fresh.max(fixed),
            };
        }
        let count = count.unwrap_or(fresh);
        let first = if count == 0 { 0 } else { start() };
        Seeds {
            fixed: 0..fixed,
            others: first..first + count,
            is_repetition: false,
        }
    }

    /// Number of all seeds.
    pub fn count(&self) -> u64 {
        let len = |range: &Range<u64>| range.end - range.start;
        len(&self.fixed) + len(&self.others)
    }

    /// Whether `DROVER_SEED` is set and there are fewer seeds than the larger of the `fixed` and `fresh` of
    /// [`new`](Seeds::new), as when a failure is repeated: too few for checks that need many seeds.
    pub fn is_repetition(&self) -> bool {
        self.is_repetition
    }

    /// Calls `play` with each seed in turn, the fixed ones first. If `play` panics, prints to standard error how to
    /// repeat that seed; the panic then continues.
    pub fn each(&self, mut play: impl FnMut(u64)) {
        for seed in self.fixed.clone().chain(self.others.clone()) {
            let told = TellSeed(seed);
            play(told.0);
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seeds { fixed, others, .. } = self;
        if !fixed.is_empty() {
            write!(f, "seeds {fixed:?}")?;
        }
        if !others.is_empty() {
            let and = if fixed.is_empty() { "" } else { " and " };
            let count = others.end - others.start;
            write!(f, "{and}DROVER_SEED={} DROVER_SEEDS={count}", others.start)?;
        }
        Ok(())
    }
}

/// Prints the current seed if its run panics.
struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("DROVER_SEED={} repeats this failure", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Returns a random seed below 10^9 (few digits to type), which is unlikely to have been used before.
///
/// # Panics
/// If the system provides no randomness.
pub fn fresh_seed() -> u64 {
    drover_mem::entropy() % FRESH_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seeds: &Seeds) -> Vec<u64> {
        let mut all = Vec::new();
        seeds.each(|seed| all.push(seed));
        all
    }

    #[test]
    fn fixed_ones_come_first_and_fresh_ones_follow_each_other() {
        let seeds = Seeds::choose(2, 3, None, None, || 70);
        assert_eq!(all(&seeds), [0, 1, 70, 71, 72]);
        assert_eq!(seeds.to_string(), "seeds 0..2 and DROVER_SEED=70 DROVER_SEEDS=3");
        assert!(!seeds.is_repetition());
        assert_eq!(seeds.count(), 5);
    }

    #[test]
    fn the_environment_chooses() {
        let one = Seeds::choose(2, 3, Some(71), None, || 70);
        assert_eq!((all(&one), one.is_repetition()), (vec![71], true));
        assert_eq!(one.to_string(), "DROVER_SEED=71 DROVER_SEEDS=1");
        let as_before = Seeds::choose(2, 3, Some(70), Some(3), || 1);
        assert_eq!(
            (all(&as_before), as_before.is_repetition()),
            (vec![70, 71, 72], false)
        );
        let more = Seeds::choose(1, 3, None, Some(4), || 70);
        assert_eq!(
            (all(&more), more.is_repetition()),
            (vec![0, 70, 71, 72, 73], false)
        );
    }

    #[test]
    fn a_test_of_fixed_seeds_draws_none() {
        let seeds = Seeds::choose(2, 0, None, None, || unreachable!("nothing fresh is wanted"));
        assert_eq!(
            (all(&seeds), seeds.to_string()),
            (vec![0, 1], "seeds 0..2".to_string())
        );
        let one = Seeds::choose(2, 0, Some(9), None, || unreachable!("it is chosen"));
        assert!(one.is_repetition());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no getrandom here")]
    fn fresh_ones_differ() {
        assert!((0..8).any(|_| fresh_seed() != fresh_seed()));
    }
}
