//! Time that a SEND may wait for a RECV: the requester counts tries, the responder sets the time between them.
//!
//! So each end asks for a wait that fits its own timeout, sends it to the other in its export, and counts tries by the
//! wait that the other asks for. 7 tries mean no limit. `[IBTA 9.7.5.2.8]`
//!
//! Six equal waits cannot be both short, so that a late RECV costs little, and long in total. A timeout that needs
//! waits beyond [`WAIT_MAX`] becomes an infinite one with short waits: failing a connection too early is worse than
//! waiting, and callers have deadlines of their own. Otherwise the default of half a second would stall 123 ms for a
//! RECV that is a microsecond late.

use drover_base::Ns;

/// Wait times by code, in units of 10 us.
const WAITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];
/// Count of tries that means no limit.
const FOR_EVER: u8 = 7;
/// Largest finite count of tries.
const TRIES_MAX: u64 = 6;
/// Longest wait for a late RECV. *(our choice: a scheduler's slice, within which a live peer posts again)*
const WAIT_MAX: Ns = Ns::from_us(10_240);
/// Code of 0.64 ms, for infinite timeouts: short compared with a program's delays, long compared with a round trip.
/// *(our choice)*
const PATIENT: u8 = 12;

fn wait(code: u8) -> Ns {
    Ns::from_us(10) * u64::from(WAITS[usize::from(code & 31)])
}

/// Code of the wait to ask for: the shortest with which all tries together last `timeout`.
pub(crate) fn timer_for(timeout: Ns) -> u8 {
    let fits = |code: &u8| wait(*code) * TRIES_MAX >= timeout && wait(*code) <= WAIT_MAX;
    (1..32).find(fits).unwrap_or(PATIENT)
}

/// Number of tries that last `timeout` with a peer that asks for waits of `peer_timer`.
pub(crate) fn tries_for(timeout: Ns, peer_timer: u8) -> u8 {
    match timeout.0.div_ceil(wait(peer_timer).0) {
        tries @ 0..=TRIES_MAX => tries as u8,
        _ => FOR_EVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_waits_make_the_timeout() {
        for us in [60, 100, 5_000, 20_000, 61_440] {
            let timeout = Ns::from_us(us);
            let timer = timer_for(timeout);
            let lasts = wait(timer) * u64::from(tries_for(timeout, timer));
            assert!(
                lasts >= timeout && lasts.0 <= 2 * timeout.0,
                "{timeout} became {lasts}"
            );
        }
    }

    #[test]
    fn longer_patience_has_no_end_and_short_waits() {
        for timeout in [Ns::from_us(61_441), Ns::from_ms(500), Ns::from_s(100), Ns::MAX] {
            let timer = timer_for(timeout);
            assert_eq!(
                (timer, tries_for(timeout, timer)),
                (PATIENT, FOR_EVER),
                "{timeout}"
            );
        }
    }

    #[test]
    fn a_peers_waits_never_make_it_shorter() {
        let timeout = Ns::from_ms(5);
        assert_eq!(tries_for(timeout, PATIENT), FOR_EVER, "7.8 waits of 0.64 ms");
        assert_eq!(tries_for(timeout, 13), 6);
        assert_eq!(tries_for(timeout, 31), 1);
        assert_eq!(tries_for(Ns::ZERO, PATIENT), 0);
    }
}
