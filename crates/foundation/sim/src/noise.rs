//! [`Noise`]: what a real machine does to a core now and then. Off unless asked for.

use crate::{Ps, Stream};
use drover_base::Ns;

/// How unsteady cores are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// A stall comes this often on average; [`Ns::MAX`]: never.
    pub stall_every: Ns,
    /// The shortest stall.
    pub stall_min: Ns,
    /// The longest; lengths between are log-uniform.
    pub stall_max: Ns,
    /// Clocks differ by up to this at the start, and keep differing.
    pub skew_max: Ns,
}

impl Noise {
    /// None at all.
    pub const OFF: Noise = Noise {
        stall_every: Ns::MAX,
        stall_min: Ns::ZERO,
        stall_max: Ns::ZERO,
        skew_max: Ns::ZERO,
    };

    /// A server with an ordinary operating system: 5 to 50 us lost every 4 ms, clocks 2 us apart (estimates).
    pub const ORDINARY: Noise = Noise {
        stall_every: Ns::from_ms(4),
        stall_min: Ns::from_us(5),
        stall_max: Ns::from_us(50),
        skew_max: Ns::from_us(2),
    };
}

/// The stalls of one core, drawn one ahead.
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

    /// How long a step that would begin at `now` has to wait.
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
