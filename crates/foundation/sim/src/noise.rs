//! [`Noise`]: disturbances of a core by a real machine. Off by default.

use crate::{Ps, Stream};
use drover_base::Ns;

/// Random stalls and the clock skew of a core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// Mean time from the end of a stall until the next one is due (exponentially distributed); [`Ns::MAX`]: never. A
    /// stall delays the core's first step after it is due, even if the core was parked at that time.
    pub stall_every: Ns,
    /// Length of the shortest stall; at least 1 ns is used.
    pub stall_min: Ns,
    /// Length of the longest stall; lengths in between are log-uniform.
    pub stall_max: Ns,
    /// Most that a core's clock may be ahead of virtual time; each core draws a constant between zero and this.
    pub skew_max: Ns,
}

impl Noise {
    /// No stalls and no skew.
    pub const OFF: Noise = Noise {
        stall_every: Ns::MAX,
        stall_min: Ns::ZERO,
        stall_max: Ns::ZERO,
        skew_max: Ns::ZERO,
    };

    /// A server with an ordinary operating system: 5 to 50 us lost every 4 ms on average, clocks up to 2 us apart
    /// (estimates).
    pub const ORDINARY: Noise = Noise {
        stall_every: Ns::from_ms(4),
        stall_min: Ns::from_us(5),
        stall_max: Ns::from_us(50),
        skew_max: Ns::from_us(2),
    };
}

/// The stalls of one core; the next one is drawn in advance.
#[derive(Debug)]
pub(crate) struct Stalls {
    noise: Noise,
    stream: Stream,
    next: Ps,
}

impl Stalls {
    pub(crate) fn new(noise: Noise, stream: Stream, now: Ps) -> Stalls {
        let mut stalls = Stalls {
            noise,
            stream,
            next: Ps::MAX,
        };
        stalls.draw(now);
        stalls
    }

    fn draw(&mut self, now: Ps) {
        if self.noise.stall_every != Ns::MAX {
            let mean = self.noise.stall_every.0 as f64;
            self.next = now + Ps::from_ns(self.stream.exponential(mean));
        }
    }

    /// Waiting time of a step that would begin at `now`.
    #[inline]
    pub(crate) fn at(&mut self, now: Ps) -> Ps {
        if now < self.next {
            return Ps::ZERO;
        }
        let (low, high) = (self.noise.stall_min.0 as f64, self.noise.stall_max.0 as f64);
        let stall = Ps::from_ns(self.stream.log_uniform(low.max(1.0), high.max(1.0)));
        self.draw(now + stall);
        stall
    }
}
