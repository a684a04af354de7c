//! [`NativeCpu`]: the clock, randomness and prefetch of a real core.

use crate::arch;
use drover_base::{Cpu, Line, Ns, Rng};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

/// Clock, random numbers and prefetch of the core that a thread runs on; create one per thread. Does not pin the
/// thread.
///
/// The clock is the time-stamp counter scaled by a rate measured once per process against the monotonic clock. Time
/// starts when the rate is measured, for all cores of the process.
#[derive(Debug)]
pub struct NativeCpu {
    now: Cell<Ns>,
    rng: RefCell<Rng>,
    scale: Scale,
}

impl NativeCpu {
    /// Creates the handle of the calling thread's core, with a random stream that starts from `seed`: equal seeds give
    /// equal streams. The first use of the clock in a process, mostly this call, measures its rate on x86-64, which
    /// takes 6 ms.
    pub fn new(seed: u64) -> NativeCpu {
        NativeCpu::nth(seed, 0)
    }

    /// As [`new`](NativeCpu::new), for one of several cores that share a seed: each `index` has a stream of its own,
    /// and that of index 0 is the stream of `new`.
    pub fn nth(seed: u64, index: u64) -> NativeCpu {
        let cpu = NativeCpu {
            now: Cell::new(Ns::ZERO),
            rng: RefCell::new(Rng::new(seed, index, 0)),
            scale: *scale(),
        };
        cpu.refresh();
        cpu
    }

    /// Converts a difference of two [`timestamp`](crate::timestamp)s to nanoseconds, rounded down. Measures the clock
    /// rate first if nothing in the process has yet, which takes 6 ms.
    #[inline]
    pub fn ticks_to_ns(ticks: u64) -> u64 {
        scale().ticks_to_ns(ticks)
    }
}

impl Cpu for NativeCpu {
    #[inline(always)]
    fn now(&self) -> Ns {
        self.now.get()
    }

    #[inline(always)]
    fn refresh(&self) -> Ns {
        let now = Ns(self
            .scale
            .ticks_to_ns(arch::timestamp().wrapping_sub(self.scale.start)));
        self.now.set(now);
        now
    }

    #[inline(always)]
    fn prefetch(&self, line: Line) {
        arch::prefetch(line.0);
    }

    #[inline(always)]
    fn prefetch_write(&self, line: Line) {
        arch::prefetch_write(line.0);
    }

    fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    fn secret(&self) -> u64 {
        entropy()
    }
}

/// 64 unpredictable bits from the system's random source, for secrets and fresh seeds. Costs one system call.
///
/// # Panics
/// If the system has no random source; every Linux since 3.17 has one.
pub fn entropy() -> u64 {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; 8];
    // Reads of up to 256 bytes are never cut short.
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("the system's randomness");
    u64::from_le_bytes(bytes)
}

/// ns = ticks * multiplier / 2^32.
#[derive(Clone, Copy, Debug)]
struct Scale {
    start: u64,
    multiplier: u64,
}

impl Scale {
    #[inline(always)]
    fn ticks_to_ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.multiplier)) >> 32) as u64
    }
}

fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        if !cfg!(target_arch = "x86_64") || cfg!(miri) {
            return Scale {
                start: arch::timestamp(),
                multiplier: 1 << 32,
            };
        }
        // 2 ms against the monotonic clock (both read in a row, the steadiest of 3) fix the rate to 0.01 %.
        let mut best: Option<(u64, u64)> = None;
        for _ in 0..3 {
            let (t0, n0) = (arch::timestamp(), monotonic_ns());
            while monotonic_ns() - n0 < 2_000_000 {
                arch::pause();
            }
            let (n1, t1) = (monotonic_ns(), arch::timestamp());
            let (ticks, ns) = (t1 - t0, n1 - n0);
            if best.is_none_or(|(t, n)| u128::from(ticks) * u128::from(n) < u128::from(t) * u128::from(ns)) {
                best = Some((ticks, ns));
            }
        }
        let (ticks, ns) = best.expect("three rounds ran");
        Scale {
            start: arch::timestamp(),
            multiplier: ((u128::from(ns) << 32) / u128::from(ticks)) as u64,
        }
    })
}

/// The monotonic clock, in nanoseconds.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where native time is read"
)]
pub(crate) fn monotonic_ns() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers draw the seeds of their hashes from cores that may have equal seeds.
    #[test]
    fn secrets_do_not_follow_from_the_seed() {
        let secret = || NativeCpu::new(0).secret();
        assert!((0..8).any(|_| secret() != secret()));
        assert_eq!(NativeCpu::new(0).random(), NativeCpu::new(0).random());
    }

    #[test]
    fn time_passes_between_refreshes_only() {
        let cpu = NativeCpu::new(1);
        let first = cpu.now();
        assert_eq!(first, cpu.now());
        while cpu.refresh() == first {}
        assert!(cpu.now() > first);
    }
}
