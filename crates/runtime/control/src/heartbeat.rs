//! [`Heartbeat`]: decides when to send a ping and when a peer is dead.

use drover_base::Ns;

/// Minimum time between two checks by which one end of a channel finds out whether its peer lives. In each check it
/// also sends a ping if it has sent nothing since the check before.
pub const BEAT_EVERY: Ns = Ns::from_s(1);
/// Number of consecutive checks without a frame from the peer, at least [`BEAT_EVERY`] apart, after which an end
/// considers the peer dead.
pub const MISSED_MAX: u32 = 3;

/// Result of a liveness check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beat {
    /// Nothing to do.
    Fine,
    /// This end has sent nothing since the last check: send a ping.
    SendPing,
    /// The peer has sent nothing for [`MISSED_MAX`] checks.
    Dead,
}

/// Decides when an end sends a ping and when its peer is dead. It counts checks, not time: at most one per
/// [`BEAT_EVERY`], even if it is late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heartbeat {
    next_look: Option<Ns>,
    heard: bool,
    missed: u32,
    sent_before: u64,
}

impl Heartbeat {
    /// Records that a frame of the peer has arrived.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// Whether a check is due at `now`. The first one is due at once.
    pub(crate) fn is_due(&self, now: Ns) -> bool {
        self.next_look.is_none_or(|at| now >= at)
    }

    /// Time of the next check; zero before the first.
    pub(crate) fn next_look(&self) -> Ns {
        self.next_look.unwrap_or(Ns::ZERO)
    }

    /// Makes the check that is due at `now`, or returns `Fine` if none is. The first call only starts the clock. `sent`
    /// is the number of frames that this end has sent so far. Call [`heard`](Heartbeat::heard) first if a frame has
    /// arrived.
    pub(crate) fn poll(&mut self, now: Ns, sent: u64) -> Beat {
        let Some(at) = self.next_look else {
            self.next_look = Some(now + BEAT_EVERY);
            return Beat::Fine;
        };
        if now < at {
            return Beat::Fine;
        }
        self.next_look = Some(now + BEAT_EVERY);
        self.missed = if std::mem::take(&mut self.heard) {
            0
        } else {
            self.missed + 1
        };
        if self.missed >= MISSED_MAX {
            return Beat::Dead;
        }
        let silent = sent == self.sent_before;
        // `sent` will include a ping sent now, which must not count as traffic in the next check.
        self.sent_before = sent + u64::from(silent);
        if silent { Beat::SendPing } else { Beat::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = Ns::from_ms(1);

    #[test]
    fn a_silent_peer_dies_after_three_looks_and_not_before() {
        let mut beat = Heartbeat::default();
        // Every ping counts as a frame sent.
        let mut sent = 0;
        let mut look = |s| {
            let beat = beat.poll(Ns::from_s(s), sent);
            sent += u64::from(beat == Beat::SendPing);
            beat
        };
        let looks: Vec<Beat> = (0..=3).map(&mut look).collect();
        assert_eq!(looks, [Beat::Fine, Beat::SendPing, Beat::SendPing, Beat::Dead]);
    }

    #[test]
    fn a_heard_peer_lives() {
        let mut beat = Heartbeat::default();
        for s in 0..100 {
            beat.heard();
            assert_ne!(beat.poll(Ns::from_s(s), 0), Beat::Dead);
        }
    }

    #[test]
    fn looks_more_often_than_a_second_decide_nothing() {
        let mut beat = Heartbeat::default();
        beat.poll(Ns::ZERO, 0);
        for ms in 0..1000 {
            assert_eq!(beat.poll(MS * ms, 0), Beat::Fine);
        }
        assert_eq!(beat.poll(Ns::from_s(1), 0), Beat::SendPing);
    }

    #[test]
    fn a_long_pause_of_ours_counts_as_one_look() {
        let mut beat = Heartbeat::default();
        beat.poll(Ns::ZERO, 0);
        assert_ne!(beat.poll(Ns::from_s(3600), 0), Beat::Dead);
        beat.heard();
        assert_ne!(beat.poll(Ns::from_s(3601), 0), Beat::Dead);
    }

    #[test]
    fn traffic_replaces_pings() {
        let mut beat = Heartbeat::default();
        beat.poll(Ns::ZERO, 0);
        for s in 1..50 {
            beat.heard();
            assert_eq!(beat.poll(Ns::from_s(s), s), Beat::Fine);
        }
    }

    /// Two ends with clocks of different phase and rate keep each other alive.
    #[test]
    fn drifting_ends_never_give_each_other_up() {
        let (mut a, mut b) = (Heartbeat::default(), Heartbeat::default());
        let (mut sent_a, mut sent_b) = (0, 0);
        for tick in 0..200_000u64 {
            let (now_a, now_b) = (MS * tick, Ns(tick * 1_003_000 + 400_000_000));
            match a.poll(now_a, sent_a) {
                Beat::SendPing => (sent_a, _) = (sent_a + 1, b.heard()),
                beat => assert_eq!(beat, Beat::Fine),
            }
            match b.poll(now_b, sent_b) {
                Beat::SendPing => (sent_b, _) = (sent_b + 1, a.heard()),
                beat => assert_eq!(beat, Beat::Fine),
            }
        }
    }
}
