//! [`Sizes`]: distributions of value sizes.

use drover_base::Rng;

/// Distribution of the size of values, bytes.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// All values have this size.
    Equal(u32),
    /// The logarithm of the size is uniform between those of the two bounds.
    LogUniform(u32, u32),
    /// Values of two sizes.
    Bimodal {
        /// The usual size.
        small: u32,
        /// The other one.
        large: u32,
        /// Share of keys whose values are large.
        large_share: f64,
    },
    /// The logarithm of the size is normally distributed.
    LogNormal {
        /// Half of the values are smaller.
        median: u32,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
}

/// Bounds of the unbounded distribution. Values are at least as long as the text of their key, which they begin with.
const BOUNDS: (f64, f64) = (16.0, 4096.0);

impl Sizes {
    /// Draws a size.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        match *self {
            Sizes::Equal(bytes) => bytes,
            Sizes::LogUniform(least, most) => {
                let (least, most) = (f64::from(least), f64::from(most));
                (least * (most / least).powf(rng.unit())).round() as u32
            }
            Sizes::Bimodal {
                small,
                large,
                large_share,
            } => match rng.chance(large_share) {
                true => large,
                false => small,
            },
            Sizes::LogNormal { median, sigma } => {
                let bytes = f64::from(median) * (sigma * normal(rng)).exp();
                bytes.clamp(BOUNDS.0, BOUNDS.1).round() as u32
            }
        }
    }
}

/// A number of the standard normal distribution, by Box and Muller's formula.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 100_000;

    fn draws(sizes: &Sizes) -> (u64, Vec<u32>) {
        let seed = crate::seed::fresh();
        let mut rng = Rng::new(seed, 0, 0);
        (seed, (0..COUNT).map(|_| sizes.draw(&mut rng)).collect())
    }

    /// Share of `all` below `bound`.
    fn below(all: &[u32], bound: u32) -> f64 {
        all.iter().filter(|bytes| **bytes < bound).count() as f64 / COUNT as f64
    }

    #[test]
    fn every_doubling_of_the_size_is_equally_likely() {
        let (seed, all) = draws(&Sizes::LogUniform(16, 16 << 10));
        assert!(
            all.iter().all(|bytes| (16..=16 << 10).contains(bytes)),
            "seed {seed}"
        );
        // Above the smallest sizes, where rounding shows, each doubling has a tenth.
        for power in 7..14 {
            let share = below(&all, 2 << power) - below(&all, 1 << power);
            assert!((share - 0.1).abs() < 0.01, "seed {seed}: {share} above 2^{power}");
        }
    }

    #[test]
    fn one_value_in_ten_is_large() {
        let (seed, all) = draws(&Sizes::Bimodal {
            small: 100,
            large: 10_240,
            large_share: 0.1,
        });
        assert!(
            all.iter().all(|bytes| [100, 10_240].contains(bytes)),
            "seed {seed}"
        );
        assert!((below(&all, 101) - 0.9).abs() < 0.01, "seed {seed}");
    }

    #[test]
    fn half_of_the_values_are_below_the_median() {
        let (seed, all) = draws(&Sizes::LogNormal {
            median: 150,
            sigma: 0.7,
        });
        assert!((below(&all, 150) - 0.5).abs() < 0.02, "seed {seed}");
        // One standard deviation of the logarithm below it.
        let bound = (150.0 * (-0.7_f64).exp()).round() as u32;
        assert!((below(&all, bound) - 0.159).abs() < 0.01, "seed {seed}");
    }
}
