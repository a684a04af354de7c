//! How long a SEND may find no RECV: the requester counts tries, the responder says how long to wait between them.
//!
//! So each end asks for waits that fit its own patience, tells the other in its export, and counts tries by what the
//! other asks for. 7 tries mean no limit. `[IBTA 9.7.5.2.8]`
//!
//! Six waits of one length cannot be both: short, so that a RECV that comes late costs little, and long together. A
//! patience beyond [`WAIT_MAX`] each becomes one without end, in short waits: breaking a connection early is worse than
//! waiting, and whoever waits has a deadline of his own. The default of half a second would else stall 123 ms for a RECV
//! that comes a microsecond late.

use drover_base::Ns;

/// Waits in units of 10 us, by their code.
const WAITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];
/// The count that means for ever.
const FOR_EVER: u8 = 7;
/// The largest count that is a count.
const TRIES_MAX: u64 = 6;
/// No RECV that comes late costs more. Our choice: a scheduler's slice, within which a live peer posts again.
const WAIT_MAX: Ns = Ns::from_us(10_240);
/// 0.64 ms, for those who wait for ever: short beside a program's delays, long beside a round trip. Our choice.
const PATIENT: u8 = 12;

fn wait(code: u8) -> Ns {
    Ns::from_us(10) * u64::from(WAITS[usize::from(code & 31)])
}

/// The code of the wait to ask for: the shortest that makes all tries together last `timeout`.
pub(crate) fn timer_for(timeout: Ns) -> u8 {
    let fits = |code: &u8| wait(*code) * TRIES_MAX >= timeout && wait(*code) <= WAIT_MAX;
    (1..32).find(fits).unwrap_or(PATIENT)
}

/// How many tries last `timeout` at a peer that asks for waits of `peer_timer`.
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
