//! [`Cpu`]: the core that code runs on, real or simulated.

use crate::Ns;

/// Name of a kind of work that has a price in the simulator. On hardware, the work itself takes the time.
///
/// Costs are named where they are charged, as constants: `const POLL: Cost = Cost::new("herd.poll");`
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cost {
    /// Id in cost tables and reports, in the form `system.step`.
    pub name: &'static str,
}

impl Cost {
    /// Creates the cost with id `name`; its price is in the simulator's cost table.
    pub const fn new(name: &'static str) -> Cost {
        Cost { name }
    }
}

/// A kind of work of a system's own code: the cost to charge for it, and the instructions per unit from which
/// simulations derive the price.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// The cost to pass to [`Cpu::charge`], with the number of units as `count`.
    pub cost: Cost,
    /// Instructions per unit of work. Divided by a core's instructions per nanosecond, they give the price in
    /// nanoseconds.
    pub instructions: f64,
    /// Description of one unit in words, for tables of costs: for example "step of a worker".
    pub unit: &'static str,
}

impl Work {
    /// Creates work that is charged as the cost `name` and takes `instructions` instructions per `unit`.
    pub const fn new(name: &'static str, instructions: f64, unit: &'static str) -> Work {
        Work {
            cost: Cost::new(name),
            instructions,
            unit,
        }
    }
}

/// The cache line that contains a memory address, given by any address in it as a number: enough to model caches and to
/// prefetch, not enough to dereference. `==` compares the addresses, so two values for one line may differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Line(pub usize);

/// Names a lock that several cores take: no other lock of the process has the same number, before or after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockId(pub u64);

/// Handle of the core that code runs on: time, random numbers, prefetch, and in simulations the price of work. Only
/// implementations of this trait read a clock or a random source; all other code asks the handle it was given, so that
/// it also runs in virtual time.
///
/// On hardware [`charge`](Cpu::charge) and [`touch`](Cpu::touch) are empty and inlined away.
pub trait Cpu {
    /// The time read by the last [`refresh`](Cpu::refresh), usually at the start of the current step. Costs nothing.
    fn now(&self) -> Ns;

    /// Reads the clock (about 10 ns on hardware) and returns the new [`now`](Cpu::now). Run loops call it
    /// once per round of steps; nothing on a hot path calls it per operation.
    fn refresh(&self) -> Ns;

    /// Adds the price of `count` units of `cost` to the core's virtual time; [`now`](Cpu::now) stays the same until the
    /// next [`refresh`](Cpu::refresh). Does nothing on hardware.
    #[inline(always)]
    fn charge(&self, cost: Cost, count: u32) {
        let _ = (cost, count);
    }

    /// Reports that the following loads and stores need `line`: a simulated core is charged for a cache hit or miss.
    /// Does nothing on hardware.
    #[inline(always)]
    fn touch(&self, line: Line) {
        let _ = line;
    }

    /// Reports that `lock`, which other cores take, too, is about to be taken: a simulated core waits while another one
    /// holds it, and for the transfer of its line. Does nothing on hardware.
    #[inline(always)]
    fn contend(&self, lock: LockId) {
        let _ = lock;
    }

    /// Reports that `lock`, which the core holds, is about to be released. Does nothing on hardware.
    #[inline(always)]
    fn release(&self, lock: LockId) {
        let _ = lock;
    }

    /// Starts to load `line` into the cache and does not wait for it. A simulated core waits if too many lines are in
    /// flight.
    fn prefetch(&self, line: Line);

    /// As [`prefetch`](Cpu::prefetch), in order to store to `line` soon: other cores lose their copies of it. A simulated
    /// core is not charged for stores, nor for this.
    #[inline(always)]
    fn prefetch_write(&self, line: Line) {
        let _ = line;
    }

    /// 64 random bits, the next of this core's seeded stream.
    fn random(&self) -> u64;

    /// 64 bits of a secret, which nobody can compute from others: on hardware from the system's randomness, one system
    /// call; in simulations the next of the seeded stream.
    fn secret(&self) -> u64 {
        self.random()
    }
}

/// A `Cpu` on which work takes no time, for filling servers before they run. Its clock always shows 0, and every random
/// number is 0.
#[derive(Clone, Copy, Debug)]
pub struct TimelessCpu;

impl Cpu for TimelessCpu {
    fn now(&self) -> Ns {
        Ns::ZERO
    }

    fn refresh(&self) -> Ns {
        Ns::ZERO
    }

    fn prefetch(&self, _: Line) {}

    fn random(&self) -> u64 {
        0
    }
}
