//! Draws of numbers and times from a random stream.

use drover_base::Ns;
use drover_sim::Stream;

/// One of `choices`, at random.
pub fn pick<T: Copy>(dice: &Stream, choices: &[T]) -> T {
    choices[dice.below(choices.len() as u64) as usize]
}

/// A number from `low` to `high`, both included.
pub fn between(dice: &Stream, low: u64, high: u64) -> u64 {
    low + dice.below(high - low + 1)
}

/// A time from `low` to `high`, log-uniform: every doubling is equally likely.
pub fn time(dice: &Stream, low: Ns, high: Ns) -> Ns {
    Ns(dice.log_uniform(low.0 as f64, high.0 as f64) as u64)
}

/// A probability from 0.001 to 0.1, log-uniform.
pub fn rate(dice: &Stream) -> f64 {
    dice.log_uniform(1e-3, 1e-1)
}
