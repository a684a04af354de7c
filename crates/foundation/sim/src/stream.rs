//! [`Stream`]: counter-based randomness, one stream per (seed, entity, purpose).

use drover_base::mix;
use std::cell::Cell;

/// A stream of random numbers. The nth draw is a hash of n and the three arguments of [`new`](Stream::new): any number
/// of streams are independent, and adding an entity does not change other draws. A clone is a copy, which draws the
/// same numbers as the original. `[Steele14]`
#[derive(Clone, Debug)]
pub struct Stream {
    key: u64,
    drawn: Cell<u64>,
}

impl Stream {
    /// Starts the random stream of `purpose` for `entity` under `seed`; the same three arguments give the same stream.
    pub fn new(seed: u64, entity: u64, purpose: &str) -> Stream {
        let named = purpose.bytes().fold(0, |hash, byte| {
            mix(hash ^ u64::from(byte) ^ 0x9e37_79b9_7f4a_7c15)
        });
        let key = mix(mix(mix(seed ^ 0x243f_6a88_85a3_08d3) ^ entity) ^ named);
        Stream {
            key,
            drawn: Cell::new(0),
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next(&self) -> u64 {
        let n = self.drawn.get() + 1;
        self.drawn.set(n);
        mix(self.key.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A uniform number in [0, 1).
    #[inline]
    pub fn unit(&self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform number from 0 to `bound` - 1; 0 if `bound` is 0.
    #[inline]
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with probability `p`. If `p` is at most 0, returns false and draws no number.
    #[inline]
    pub fn chance(&self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// An exponentially distributed number with mean `mean`, such as the time between independent events.
    pub fn exponential(&self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// A log-uniform number between `low`, which is positive, and `high`: every factor of two is equally likely.
    pub fn log_uniform(&self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_by_seed_entity_and_purpose() {
        let first = |seed, entity, purpose| Stream::new(seed, entity, purpose).next();
        assert_eq!(first(1, 2, "loss"), first(1, 2, "loss"));
        for other in [first(2, 2, "loss"), first(1, 3, "loss"), first(1, 2, "noise")] {
            assert_ne!(first(1, 2, "loss"), other);
        }
    }

    #[test]
    fn draws_have_the_mean_they_should() {
        let stream = Stream::new(7, 0, "test");
        let mean = |draw: &dyn Fn() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 20_000.0;
        assert!((mean(&|| stream.unit()) - 0.5).abs() < 0.01);
        assert!((mean(&|| stream.exponential(4.0)) - 4.0).abs() < 0.1);
        let log = mean(&|| stream.log_uniform(1.0, 100.0).log10());
        assert!((log - 1.0).abs() < 0.02);
    }
}
