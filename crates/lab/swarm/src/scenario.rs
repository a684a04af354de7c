//! [`Scenario`]: a named selection of kinds of trouble of a system.

use crate::subject::Trouble;
use drover_sim::Stream;

/// A named selection of kinds of trouble.
#[derive(Debug)]
pub struct Scenario<K: 'static> {
    /// Name of the scenario on the command line.
    pub name: &'static str,
    /// Description of the scenario in one line.
    pub about: &'static str,
    /// Kinds of trouble that every seed switches on.
    pub always: &'static [K],
    /// Kinds of trouble that some seeds switch on.
    pub maybe: &'static [K],
}

impl<K: Trouble> Scenario<K> {
    /// Returns the kinds of trouble that `seed` switches on, in the order of [`Trouble::ALL`].
    pub fn kinds(&self, seed: u64) -> Vec<K> {
        let dice = Stream::new(seed, 0, "swarm");
        // Some seeds switch on many kinds, some few.
        let share = 0.1 + 0.4 * dice.unit();
        let chosen = K::ALL.iter().copied();
        chosen
            .filter(|kind| {
                let struck = dice.unit() < share;
                self.always.contains(kind) || (struck && self.maybe.contains(kind))
            })
            .collect()
    }
}
