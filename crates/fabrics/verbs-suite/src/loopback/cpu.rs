//! [`LoopbackCpu`]: a core whose clock moves by a tick per refresh, or by hand.

use drover_base::{Cpu, Line, Ns, Rng};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock of a device, shared by its cores. Relaxed everywhere: it publishes no other data.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    ns: Arc<AtomicU64>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            ns: Arc::new(AtomicU64::new(0)),
        }
    }

    pub(super) fn now(&self) -> Ns {
        Ns(self.ns.load(Ordering::Relaxed))
    }

    /// Moves the clock on by `by` and returns the new time.
    pub(super) fn advance(&self, by: Ns) -> Ns {
        Ns(self.ns.fetch_add(by.0, Ordering::Relaxed).saturating_add(by.0))
    }

    /// Moves the clock to `to` unless it is later already.
    pub(super) fn advance_to(&self, to: Ns) {
        self.ns.fetch_max(to.0, Ordering::Relaxed);
    }
}

/// The core of a [`LoopbackContext`](super::LoopbackContext). Its clock is that of the device.
#[derive(Debug)]
pub struct LoopbackCpu {
    clock: Clock,
    tick: Ns,
    now: Cell<Ns>,
    rng: RefCell<Rng>,
}

impl LoopbackCpu {
    /// The same core, for another context of its thread.
    pub(super) fn again(&self) -> LoopbackCpu {
        let rng = Rng::new(self.rng.borrow_mut().next_u64(), 0, 0);
        LoopbackCpu::new(self.clock.clone(), self.tick, rng)
    }

    pub(super) fn new(clock: Clock, tick: Ns, rng: Rng) -> LoopbackCpu {
        let now = Cell::new(clock.now());
        LoopbackCpu {
            clock,
            tick,
            now,
            rng: RefCell::new(rng),
        }
    }

    /// Moves the device's clock forward by `by`. All cores of the device, this one too, see it at their next refresh.
    pub fn advance(&self, by: Ns) {
        self.clock.advance(by);
    }
}

impl Cpu for LoopbackCpu {
    fn now(&self) -> Ns {
        self.now.get()
    }

    fn refresh(&self) -> Ns {
        self.now.set(self.clock.advance(self.tick));
        self.now.get()
    }

    fn prefetch(&self, line: Line) {
        let _ = line;
    }

    fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }
}
