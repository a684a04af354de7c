//! [`Ns`]: time in nanoseconds, as a point (since an arbitrary start) or as a distance.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Nanoseconds, as a point in time or a distance. Points count from an arbitrary start that all cores of a process
/// share. `+`, `-`, `*` and conversions to nanoseconds saturate: they never overflow or panic.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ns(pub u64);

impl Ns {
    /// As a point, the start of the clock; as a distance, no time.
    pub const ZERO: Ns = Ns(0);
    /// As a point, later than any event: a timer at this time never fires.
    pub const MAX: Ns = Ns(u64::MAX);

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Ns {
        Ns(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Ns {
        Ns(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    pub const fn from_s(s: u64) -> Ns {
        Ns(s.saturating_mul(1_000_000_000))
    }

    /// The number of whole seconds, rounded down.
    pub const fn as_s(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The distance from `earlier` to `self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Ns) -> Ns {
        Ns(self.0.saturating_sub(earlier.0))
    }

    /// Converts a distance to a standard duration, for system calls.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Add for Ns {
    type Output = Ns;
    fn add(self, rhs: Ns) -> Ns {
        Ns(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, rhs: Ns) {
        *self = *self + rhs;
    }
}

impl Sub for Ns {
    type Output = Ns;
    fn sub(self, rhs: Ns) -> Ns {
        self.since(rhs)
    }
}

impl Mul<u64> for Ns {
    type Output = Ns;
    fn mul(self, rhs: u64) -> Ns {
        Ns(self.0.saturating_mul(rhs))
    }
}

impl fmt::Debug for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("never"),
            ns if ns >= 1_000_000 => write!(f, "{:.3} ms", ns as f64 / 1e6),
            ns if ns >= 1_000 => write!(f, "{:.3} us", ns as f64 / 1e3),
            ns => write!(f, "{ns} ns"),
        }
    }
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_arithmetic_overflows() {
        let far = [Ns::from_us, Ns::from_ms, Ns::from_s].map(|from| from(u64::MAX / 2));
        assert_eq!(far, [Ns::MAX; 3]);
        assert_eq!(
            Ns::from_s(u64::MAX / 1_000_000_000),
            Ns(18_446_744_073_000_000_000)
        );
        assert_eq!(
            (Ns::MAX + Ns(1), Ns::MAX * 2, Ns(1) - Ns(2)),
            (Ns::MAX, Ns::MAX, Ns::ZERO)
        );
    }
}
