//! [`Timers`]: when the rare paths have something to do.

use drover_base::Ns;
use drover_slots::client::Rto;

/// Timers are looked at this often: a quarter of the shortest retransmission timeout.
pub(super) const TICK: Ns = Ns::from_us(250);

/// One tick for all timers, so that no operation pays for one of its own.
pub(super) struct Timers {
    /// The rare paths have something to do before the next tick.
    urgent: bool,
    next_tick: Ns,
    rto: Rto,
}

impl Timers {
    /// The first look is due at once.
    pub(super) fn new() -> Timers {
        Timers {
            urgent: true,
            next_tick: Ns::ZERO,
            rto: Rto::new(),
        }
    }

    /// There is something to do before the next tick.
    #[inline(always)]
    pub(super) fn hurry(&mut self) {
        self.urgent = true;
    }

    #[inline(always)]
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    #[inline(always)]
    pub(super) fn next_tick(&self) -> Ns {
        self.next_tick
    }

    /// The rare paths begin: returns whether it is time for a tick, and sets the next one.
    pub(super) fn begin(&mut self, now: Ns) -> bool {
        self.urgent = false;
        let tick = now >= self.next_tick;
        if tick {
            self.next_tick = now + TICK;
        }
        tick
    }

    /// How long to wait for replies.
    #[inline(always)]
    pub(super) fn rto(&self) -> &Rto {
        &self.rto
    }

    #[inline(always)]
    pub(super) fn rto_mut(&mut self) -> &mut Rto {
        &mut self.rto
    }
}
