//! [`Ticker`]: the one timer of a client, which tells when to look at whatever waits.

use super::Rto;
use drover_base::Ns;

/// Period of the ticker: a quarter of the shortest retransmission timeout.
pub const TICK: Ns = Ns::from_us(250);

/// The one timer of a client, so that no operation pays for its own; it also holds the retransmission timeout. The
/// client checks it in every poll, and has work to do when a tick is due (once per [`TICK`]) or after
/// [`hurry`](Ticker::hurry).
pub struct Ticker {
    /// There is work before the next tick.
    urgent: bool,
    next_tick: Ns,
    rto: Rto,
}

impl Ticker {
    /// A ticker that is urgent, and whose first tick is due at once.
    #[expect(
        clippy::new_without_default,
        reason = "there is one way to make it, with a name"
    )]
    pub fn new() -> Ticker {
        Ticker {
            urgent: true,
            next_tick: Ns::ZERO,
            rto: Rto::new(),
        }
    }

    /// Makes the ticker urgent: there is work to do before the next tick, whose time stays as it is.
    #[inline(always)]
    pub fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Whether [`hurry`](Ticker::hurry) was called since the last [`begin`](Ticker::begin), or `begin` was never
    /// called.
    #[inline(always)]
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Time of the next tick, on the clock of [`begin`](Ticker::begin); zero before the first one.
    #[inline(always)]
    pub fn next_tick(&self) -> Ns {
        self.next_tick
    }

    /// Starts the work that was due: the ticker is no longer urgent. Returns whether a tick was due, and if so
    /// schedules the next one, [`TICK`] after `now`.
    pub fn begin(&mut self, now: Ns) -> bool {
        self.urgent = false;
        let tick = now >= self.next_tick;
        if tick {
            self.next_tick = now + TICK;
        }
        tick
    }

    /// The retransmission timeout.
    #[inline(always)]
    pub fn rto(&self) -> &Rto {
        &self.rto
    }

    /// The retransmission timeout, to be given samples.
    #[inline(always)]
    pub fn rto_mut(&mut self) -> &mut Rto {
        &mut self.rto
    }
}
