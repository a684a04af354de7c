//! How long a SEND may find no RECV: the requester counts tries, the responder says how long to wait between them.
//!
//! So each end asks for waits that fit its own patience, tells the other in its export, and counts tries by what the
//! other asks for. 7 tries mean no limit. `[IBTA 9.7.5.2.8]`

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
/// 0.64 ms, for those who wait for ever: short beside a program's delays, long beside a round trip. Our choice.
const PATIENT: u8 = 12;

fn wait(code: u8) -> Ns {
    Ns::from_us(10) * u64::from(WAITS[usize::from(code & 31)])
}

/// The code of the wait to ask for: the shortest that makes all tries together last `timeout`.
pub(crate) fn timer_for(timeout: Ns) -> u8 {
    if timeout == Ns::MAX {
        return PATIENT;
    }
    let enough = |code: &u8| wait(*code) * TRIES_MAX >= timeout;
    (1..32).find(enough).unwrap_or(0) // 0 is the longest
}

/// How many tries last `timeout` at a peer that asks for waits of `peer_timer`.
pub(crate) fn tries_for(timeout: Ns, peer_timer: u8) -> u8 {
    if timeout == Ns::MAX {
        return FOR_EVER;
    }
    timeout.0.div_ceil(wait(peer_timer).0).min(TRIES_MAX) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_waits_make_the_timeout() {
        for us in [60, 100, 5_000, 500_000, 2_900_000] {
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
    fn ends_of_the_scale() {
        assert_eq!(tries_for(Ns::MAX, 31), 7);
        assert_eq!(tries_for(Ns::ZERO, 12), 0);
        assert_eq!(tries_for(Ns::from_s(100), 1), 6, "7 would be for ever");
        assert_eq!(timer_for(Ns::from_s(100)), 0);
        assert_eq!(wait(0), Ns::from_us(655_360));
    }
}
