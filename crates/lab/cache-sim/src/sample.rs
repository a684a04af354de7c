//! [`Rate`]: the share of the keys that a cache is simulated with.
//!
//! A cache of size S that serves all keys has about the hit rate of one of size S x R that serves the keys whose hash is
//! below R, a fixed set *(spatial sampling `[SHARDS §3]`)*. A few very popular keys make the sampled share of the requests
//! differ from R, but they are hits at any size. So only misses are scaled up: estimated misses are those of the sampled
//! keys divided by R, out of the requests of all keys, which are counted exactly *(as `[SHARDS §3.3]` corrects it)*.

use drover_base::KeyHash;
use std::fmt;

/// Share of the keys, in 2^-32: from 1 to 2^32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(u64);

/// Number of different values of the bits that decide.
const WHOLE: u64 = 1 << 32;

impl Rate {
    /// All keys.
    pub const ALL: Rate = Rate(WHOLE);

    /// The share `share`, rounded to 2^-32; `None` if that is not above 0 and at most 1.
    pub fn new(share: f64) -> Option<Rate> {
        let bits = (share * WHOLE as f64).round();
        // A comparison with NaN is false.
        (bits >= 1.0 && bits <= WHOLE as f64).then_some(Rate(bits as u64))
    }

    /// The largest 1 / 2^n with which a cache of `size_bytes` takes at most `bytes_max`.
    pub fn fitting(size_bytes: u64, bytes_max: u64) -> Rate {
        let mut halvings = 0;
        while size_bytes >> halvings > bytes_max && halvings < 32 {
            halvings += 1;
        }
        Rate(WHOLE >> halvings)
    }

    /// As a number, above 0 and at most 1.
    pub fn share(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// Whether keys with this hash are in the sample. The bits that decide choose neither bucket nor tag nor partition.
    #[inline(always)]
    pub fn takes(self, hash: KeyHash) -> bool {
        (hash.high & (WHOLE - 1)) < self.0
    }

    /// `bytes` of a cache of all keys, scaled down to the sample's; rounded down.
    pub fn of(self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }

    /// A count of the sample's, scaled up to all keys'.
    pub fn scaled_up(self, count: u64) -> f64 {
        count as f64 / self.share()
    }
}

/// As `all`, `1/8` or a decimal fraction.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rate::ALL => f.write_str("all"),
            Rate(bits) if WHOLE.is_multiple_of(bits) => write!(f, "1/{}", WHOLE / bits),
            rate => write!(f, "{}", (rate.share() * 1e6).round() / 1e6),
        }
    }
}

/// `0.125` or `1/8`.
impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let share = match text.split_once('/') {
            Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
            None => number(text),
        };
        share.and_then(Rate::new).ok_or_else(|| {
            format!("{text}: expected a share of the keys above 0 and at most 1, such as 0.1 or 1/8")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;

    #[test]
    fn shares_are_read_and_shown() {
        for (text, shown) in [
            ("1/8", "1/8"),
            ("0.125", "1/8"),
            ("1", "all"),
            ("0.3", "0.3"),
            ("3/4", "0.75"),
        ] {
            assert_eq!(
                text.parse::<Rate>().map(|rate| rate.to_string()),
                Ok(shown.to_string())
            );
        }
        for bad in ["0", "-1", "1.01", "nan", "inf", "1/0", "0/0", "x", "", "1e-30"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_is_scaled_until_it_fits() {
        assert_eq!(Rate::fitting(64 << 20, 64 << 20), Rate::ALL);
        assert_eq!(Rate::fitting(65 << 20, 64 << 20).share(), 0.5);
        assert_eq!(Rate::fitting(1 << 50, 256 << 20).of(1 << 50), 256 << 20);
        assert!(Rate::fitting(u64::MAX, 1).share() > 0.0);
    }

    #[test]
    fn the_sample_has_its_share_of_the_keys() {
        let (seed, rate) = (HashSeed::new(1, 2), Rate::new(0.25).expect("a share"));
        let taken = (0..40_000u32)
            .filter(|key| rate.takes(seed.hash(&key.to_le_bytes())))
            .count();
        assert!((9_500..10_500).contains(&taken), "{taken}");
        assert!((0..1000u32).all(|key| Rate::ALL.takes(seed.hash(&key.to_le_bytes()))));
    }
}
