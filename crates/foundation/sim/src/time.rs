//! [`Ps`]: virtual time in whole picoseconds, so that sums of fractions of nanoseconds stay exact.

use drover_base::Ns;
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Picoseconds, since the start of a simulation or between two points. 64 bits last for 213 days; arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ps(pub u64);

impl Ps {
    /// As a point, the start of the simulation; as a distance, none.
    pub const ZERO: Ps = Ps(0);
    /// Later than any event: never.
    pub const MAX: Ps = Ps(u64::MAX);

    /// `ns` nanoseconds, rounded to picoseconds; negative values become zero.
    pub fn from_ns(ns: f64) -> Ps {
        Ps((ns * 1e3).round().max(0.0) as u64)
    }

    /// Whole nanoseconds, rounded down, as a clock shows them.
    pub const fn floor(self) -> Ns {
        Ns(self.0 / 1_000)
    }

    /// The time in nanoseconds, with its fraction.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The distance from `earlier` to `self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }
}

impl From<Ns> for Ps {
    fn from(ns: Ns) -> Ps {
        Ps(ns.0.saturating_mul(1_000))
    }
}

impl Add for Ps {
    type Output = Ps;
    fn add(self, rhs: Ps) -> Ps {
        Ps(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, rhs: Ps) {
        *self = *self + rhs;
    }
}

impl Sub for Ps {
    type Output = Ps;
    fn sub(self, rhs: Ps) -> Ps {
        self.since(rhs)
    }
}

impl Mul<u64> for Ps {
    type Output = Ps;
    fn mul(self, rhs: u64) -> Ps {
        Ps(self.0.saturating_mul(rhs))
    }
}

impl fmt::Debug for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.as_ns())
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_come_back_and_fractions_add_up() {
        assert_eq!(Ps::from(Ns(17)).floor(), Ns(17));
        assert_eq!(Ps::from_ns(28.6) * 10, Ps::from_ns(286.0));
        assert_eq!(Ps::from_ns(-1.0), Ps::ZERO);
        assert_eq!(Ps(1_999).floor(), Ns(1));
    }
}
