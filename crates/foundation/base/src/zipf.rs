//! [`Zipf`]: ranks drawn with probability proportional to 1 / rank^s, exactly, in constant time.
//!
//! Rejection-inversion `[HD96]` *(the method; our code)*. No table, any number of ranks; YCSB's own generator
//! approximates the same distribution. It is written by hand because `rand_distr` may draw other values in another version:
//! simulated figures and traces must stay the same.

use crate::Rng;

/// The Zipf distribution over ranks 1..=n.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    exponent: f64,
    ranks: f64,
    /// The integral of the hat at both ends of the drawing range.
    area_low: f64,
    area_high: f64,
    /// Below this distance from the rank the inversion is exact and needs no test.
    accept_below: f64,
}

impl Zipf {
    /// Creates the distribution over `rank_count` ranks (at least 1) with `exponent` > 0; YCSB's constant is 0.99.
    ///
    /// # Panics
    /// If there is no rank or the exponent is not positive.
    pub fn new(rank_count: u64, exponent: f64) -> Zipf {
        assert!(
            rank_count > 0 && exponent > 0.0,
            "Zipf over {rank_count} ranks with exponent {exponent}"
        );
        let mut zipf = Zipf {
            exponent,
            ranks: rank_count as f64,
            area_low: 0.0,
            area_high: 0.0,
            accept_below: 0.0,
        };
        zipf.area_low = zipf.area(1.5) - 1.0;
        zipf.area_high = zipf.area(zipf.ranks + 0.5);
        zipf.accept_below = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank, from 1 (the most popular) to the rank count. Takes about 1.1 tries on average, each with two
    /// transcendental functions.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.area_high + rng.unit() * (self.area_low - self.area_high);
            let x = self.area_inverse(u);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.accept_below || u >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    /// Probability of `rank` (1 to the rank count). Cost: a sum over all ranks; for tests and reports.
    pub fn probability(&self, rank: u64) -> f64 {
        let sum: f64 = (1..=self.ranks as u64).rev().map(|r| self.weight(r as f64)).sum();
        self.weight(rank as f64) / sum
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of `weight` from 1 to `x`: (x^(1-s) - 1) / (1 - s), or ln x where s is near 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_ratio((1.0 - self.exponent) * log) * log
    }

    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding may push the argument of ln_1p below its domain at the far end.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (ln1p_ratio(t) * area).exp()
    }
}

/// (e^x - 1) / x, 1 at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x * 0.5
    }
}

/// ln(1 + x) / x, 1 at 0.
fn ln1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x * 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    /// The largest deviation of a rank's count from its expectation, in standard deviations, over the
    /// `ranks` most popular.
    fn worst_deviation(zipf: &Zipf, against: &Zipf, ranks: u64) -> f64 {
        let mut rng = Rng::new(5, 0, 0);
        let mut counts = vec![0u64; ranks as usize + 1];
        for _ in 0..DRAWS {
            let rank = zipf.draw(&mut rng);
            assert!((1..=zipf.ranks as u64).contains(&rank), "{rank}");
            if rank <= ranks {
                counts[rank as usize] += 1;
            }
        }
        (1..=ranks)
            .map(|rank| {
                let p = against.probability(rank);
                let (want, sigma) = (p * DRAWS as f64, (p * (1.0 - p) * DRAWS as f64).sqrt());
                (counts[rank as usize] as f64 - want).abs() / sigma
            })
            .fold(0.0, f64::max)
    }

    #[test]
    #[cfg_attr(miri, ignore = "400,000 draws of safe arithmetic")]
    fn counts_agree_with_the_analytic_probabilities() {
        for (ranks, exponent) in [(1000, 0.99), (50_000, 0.99), (100, 1.0), (100, 0.5), (100, 2.0)] {
            let zipf = Zipf::new(ranks, exponent);
            let worst = worst_deviation(&zipf, &zipf, 20);
            assert!(worst < 4.5, "{worst} sigma at n = {ranks}, s = {exponent}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "400,000 draws of safe arithmetic")]
    fn the_check_catches_a_neighbouring_exponent() {
        let (zipf, other) = (Zipf::new(1000, 0.99), Zipf::new(1000, 0.95));
        assert!(worst_deviation(&other, &zipf, 20) > 10.0);
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let mut rng = Rng::new(1, 0, 0);
        assert!((0..100).all(|_| Zipf::new(1, 0.99).draw(&mut rng) == 1));
    }
}
