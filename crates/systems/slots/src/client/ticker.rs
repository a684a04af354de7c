//! [`Ticker`]: the one timer of a client, which tells when to look at whatever waits.

use super::Rto;
use drover_base::Ns;

/// Period of the ticker: a quarter of the shortest retransmission timeout.
pub const TICK: Ns = Ns::from_us(250);
/// Ticks are further apart only while the client's thread does not run, or nothing is in flight: a client that sleeps
/// until a reply comes has one every millisecond. *(our choice)*
const ABSENT: Ns = Ns::from_us(1500);

/// The one timer of a client, so that no operation pays for its own; it also holds the retransmission timeout. The
/// client checks it in every poll, and has work to do when a tick is due (once per [`TICK`]) or after
/// [`hurry`](Ticker::hurry).
pub struct Ticker {
    /// There is work before the next tick.
    urgent: bool,
    next_tick: Ns,
    /// How long the client was away before the last tick.
    absence: Ns,
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
            absence: Ns::ZERO,
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
            let late = now.since(self.next_tick);
            self.absence = if late < ABSENT { Ns::ZERO } else { late };
            self.next_tick = now + TICK;
        }
        tick
    }

    /// How long the client was away before the last tick: nobody polled, because its thread did not run, or there was
    /// nothing to poll for. Zero if it was not. In such a time replies arrive and are not seen, so it does not count as
    /// time without a reply.
    pub fn absence(&self) -> Ns {
        self.absence
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ticks_are_absence_and_those_of_a_sleeping_client_are_not() {
        let mut ticker = Ticker::new();
        assert!(ticker.begin(Ns::from_ms(1)));
        assert!(ticker.begin(Ns::from_ms(2)));
        assert_eq!(ticker.absence(), Ns::ZERO);
        assert!(ticker.begin(Ns::from_ms(20)));
        assert_eq!(ticker.absence(), Ns::from_ms(18) - TICK);
        assert!(ticker.begin(Ns::from_ms(21)));
        assert_eq!(ticker.absence(), Ns::ZERO);
    }
}
