//! [`Pipe`]: a server of bytes in the order of arrival. Its service times are known on arrival, so it needs no
//! events of its own: it remembers only until when it is busy.

use crate::{Ps, Usage};

/// Time per byte as a fixed-point number, so that no rounding depends on how a sum is grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteTime {
    /// Picoseconds per byte, times 2^20.
    scaled: u64,
}

impl ByteTime {
    const SHIFT: u32 = 20;

    /// Of a pipe that carries `bytes_per_ns`; infinitely fast at infinity.
    ///
    /// # Panics
    /// If the rate is not positive.
    pub fn per_ns(bytes_per_ns: f64) -> ByteTime {
        assert!(bytes_per_ns > 0.0, "{bytes_per_ns} bytes per ns");
        ByteTime {
            scaled: (1e3 / bytes_per_ns * (1u64 << ByteTime::SHIFT) as f64).round() as u64,
        }
    }

    /// How long `bytes` take.
    #[inline]
    pub fn of(self, bytes: u64) -> Ps {
        Ps((bytes * self.scaled) >> ByteTime::SHIFT)
    }
}

/// A link, or one direction of a bus.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    rate: ByteTime,
    free_at: Ps,
    bytes: u64,
    usage: Usage,
}

impl Pipe {
    /// A pipe of that rate.
    pub fn new(rate: ByteTime) -> Pipe {
        Pipe {
            rate,
            free_at: Ps::ZERO,
            bytes: 0,
            usage: Usage::default(),
        }
    }

    /// Carries `bytes` that are there at `now`, after all that came before. Returns when the first of them
    /// enters and when the last one is through. Calls come in the order of `now`.
    #[inline]
    pub fn carry(&mut self, now: Ps, bytes: u64) -> (Ps, Ps) {
        let start = now.max(self.free_at);
        let time = self.rate.of(bytes);
        self.free_at = start + time;
        self.bytes += bytes;
        self.usage.busy += time;
        self.usage.served += 1;
        (start, self.free_at)
    }

    /// When `bytes` that are there at `now` would be through.
    #[inline]
    pub fn through_at(&self, now: Ps, bytes: u64) -> Ps {
        now.max(self.free_at) + self.rate.of(bytes)
    }

    /// Bytes carried.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long somebody who came at `now` would wait.
    pub fn backlog(&self, now: Ps) -> Ps {
        self.free_at.since(now)
    }

    /// How much it was used up to `now`: what it has yet to carry does not count. It keeps no high-water mark.
    pub fn usage(&self, now: Ps) -> Usage {
        Usage {
            busy: self.usage.busy - self.backlog(now),
            ..self.usage
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_queue_behind_bytes() {
        let mut pipe = Pipe::new(ByteTime::per_ns(4.0));
        assert_eq!(pipe.carry(Ps(0), 400), (Ps(0), Ps(100_000)));
        assert_eq!(pipe.carry(Ps(50_000), 40), (Ps(100_000), Ps(110_000)));
        assert_eq!(pipe.carry(Ps(200_000), 4), (Ps(200_000), Ps(201_000)));
        assert_eq!(pipe.bytes(), 444);
        assert_eq!(pipe.usage(Ps(201_000)).busy, Ps(111_000));
        assert_eq!(pipe.usage(Ps(200_500)).busy, Ps(110_500));
    }
}
