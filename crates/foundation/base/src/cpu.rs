//! [`Cpu`]: the core that code runs on, real or simulated.

use crate::Ns;

/// A kind of work that has a price in the simulator. On hardware, the work itself takes the time.
///
/// Costs are named where they are charged, as constants: `const POLL: Cost = Cost::new("herd.poll");`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cost {
    /// Id in cost tables and reports: `system.step`.
    pub name: &'static str,
}

impl Cost {
    /// A cost named `name`.
    pub const fn new(name: &'static str) -> Cost {
        Cost { name }
    }
}

/// A memory address as a number: enough to model caches and to prefetch, not enough to dereference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Line(pub usize);

/// The core that code runs on. Only implementations of this trait read a clock or a random source; all other code asks
/// the handle it was given, so that it also runs in virtual time.
///
/// On hardware [`charge`](Cpu::charge) and [`touch`](Cpu::touch) are empty and inlined away.
pub trait Cpu {
    /// The time as of the last [`refresh`](Cpu::refresh): the start of the current step. Costs nothing.
    fn now(&self) -> Ns;

    /// Reads the clock (about 10 ns on hardware) and returns the new [`now`](Cpu::now). Run loops call it
    /// once per step; nothing on a hot path calls it per operation.
    fn refresh(&self) -> Ns;

    /// Accounts for `count` units of work named `cost`.
    #[inline(always)]
    fn charge(&self, cost: Cost, count: u32) {
        let _ = (cost, count);
    }

    /// Reports that the next loads and stores touch `line` and wait for it.
    #[inline(always)]
    fn touch(&self, line: Line) {
        let _ = line;
    }

    /// Prefetches `line` without waiting.
    fn prefetch(&self, line: Line);

    /// The next number of this core's seeded stream.
    fn random(&self) -> u64;
}
