//! [`Rto`]: time to wait for a reply before the request is sent again.

use drover_base::Ns;

/// Number of times a request is sent again before the client gives it up; its deadline may end it earlier. *(our
/// choice, like the numbers below)*
pub const RETRIES_MAX: u8 = 5;
/// No retransmission earlier than this: a reply takes microseconds, a descheduled server milliseconds.
const BASE_MIN: Ns = Ns::from_ms(1);
/// No longer first wait than this: with [`RETRIES_MAX`] doublings it bounds giving up to 6.3 s.
const BASE_MAX: Ns = Ns::from_ms(100);
/// The wait is this many times the 99th percentile.
const SAFETY: u64 = 20;

/// The retransmission timeout: 20 times an estimate of the 99th percentile of the round trip, at least 1 ms and at most
/// 100 ms, then doubled with every further attempt.
///
/// The estimate moves up by 99 units when a sample is above it and down by one when it is not (a unit is about a
/// thousandth of the estimate), so it settles where one sample in a hundred is above it. A sample costs a few
/// additions; clients sample every 64th request of each slot.
#[derive(Clone, Copy, Debug)]
pub struct Rto {
    p99_ns: u64,
}

impl Rto {
    /// Before the first sample: the estimate is 20 µs, so the wait after the first attempt is 1 ms.
    #[expect(
        clippy::new_without_default,
        reason = "there is one way to make it, with a name"
    )]
    pub fn new() -> Rto {
        Rto { p99_ns: 20_000 }
    }

    /// Takes the round trip of a request that was sent once. (A request that was sent again is no sample: its reply may
    /// be to any attempt.)
    pub fn sample(&mut self, rtt: Ns) {
        if rtt.0 > self.p99_ns {
            return self.up();
        }
        self.p99_ns = (self.p99_ns - self.unit()).max(100);
    }

    /// Raises the estimate by about a tenth, after a reply to a request that was sent again although it had not been
    /// lost. Without this, round trips longer than the wait would never be sampled, and every request would be sent
    /// several times, for ever.
    pub fn was_early(&mut self) {
        self.up();
    }

    /// Doubles [`base`](Rto::base), up to 100 ms, because a request was given up. If the control channel is faster than
    /// the data path, requests can be given up before they arrive: then no reply ever comes, and nothing else would
    /// make the wait longer.
    pub fn gave_up(&mut self) {
        self.p99_ns = (2 * self.base().0 / SAFETY).min(BASE_MAX.0);
    }

    fn up(&mut self) {
        self.p99_ns = (self.p99_ns + 99 * self.unit()).min(BASE_MAX.0);
    }

    fn unit(&self) -> u64 {
        self.p99_ns / 1024 + 1
    }

    /// The wait after the first attempt: 1 to 100 ms.
    pub fn base(&self) -> Ns {
        Ns(self.p99_ns * SAFETY).clamp(BASE_MIN, BASE_MAX)
    }

    /// The wait after attempt number `tries` (from 0): [`base`](Rto::base), doubled `tries` times, at most
    /// [`RETRIES_MAX`] times.
    pub fn after(&self, tries: u8) -> Ns {
        self.base() * (1 << tries.min(RETRIES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Rng;

    #[test]
    fn rests_near_the_99th_percentile() {
        let mut rng = Rng::new(5, 0, 0);
        let mut rto = Rto::new();
        let mut above = 0;
        for i in 0..60_000 {
            // Uniform in 100..200 us: the 99th percentile is 199 us.
            let rtt = Ns(100_000 + rng.below(100_000));
            above += u32::from(i >= 30_000 && rtt.0 > rto.p99_ns);
            rto.sample(rtt);
        }
        assert!(
            (150..600).contains(&above),
            "{above} of 30000 samples above the estimate"
        );
        assert!(
            (Ns::from_us(3_400)..Ns::from_us(4_600)).contains(&rto.base()),
            "{:?}",
            rto.base()
        );
    }

    /// A round trip that takes longer than the wait: each request is sent again, and each reply to that is early.
    #[test]
    fn slow_servers_are_waited_for_in_the_end() {
        let mut rto = Rto::new();
        let slow = Ns::from_ms(30);
        let mut repeated = 0;
        while rto.base() < slow {
            repeated += 1;
            rto.was_early();
            assert!(repeated < 100, "{:?} after {repeated}", rto.base());
        }
    }

    /// One way takes longer than all attempts together: without replies, only giving up can teach how long to wait.
    #[test]
    fn attempts_that_never_arrive_in_time_are_spread_in_the_end() {
        let mut rto = Rto::new();
        let attempts = |rto: &Rto| (0..RETRIES_MAX).fold(Ns::ZERO, |sum, tries| sum + rto.after(tries));
        assert!(attempts(&rto) < Ns::from_ms(100));
        for _ in 0..7 {
            rto.gave_up();
        }
        assert_eq!(rto.base(), BASE_MAX);
        assert!(attempts(&rto) > Ns::from_s(3));
        rto.gave_up();
        assert_eq!(rto.base(), BASE_MAX);
    }

    #[test]
    fn is_bounded_and_doubles() {
        let mut rto = Rto::new();
        for _ in 0..100_000 {
            rto.sample(Ns(1));
        }
        assert_eq!(rto.base(), BASE_MIN);
        assert_eq!(rto.after(3), BASE_MIN * 8);
        for _ in 0..100_000 {
            rto.sample(Ns::MAX);
        }
        assert_eq!(rto.base(), BASE_MAX);
        assert_eq!(rto.after(u8::MAX), BASE_MAX * 32);
    }
}
