//! [`Pipe`]: a server of bytes in the order of arrival. Service times are known on arrival, so it needs no events: its
//! state is the time until which it is busy.

use crate::{Ps, Usage};

/// Time per byte (not bytes per time) as a fixed-point number, so that rounding does not depend on how a sum is
/// grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteTime {
    /// Picoseconds per byte, times 2^20.
    scaled: u64,
}

impl ByteTime {
    const SHIFT: u32 = 20;

    /// The time per byte of a link that carries `bytes_per_ns`; zero if that is infinite.
    ///
    /// # Panics
    /// If `bytes_per_ns` is not positive.
    pub fn per_ns(bytes_per_ns: f64) -> ByteTime {
        assert!(bytes_per_ns > 0.0, "{bytes_per_ns} bytes per ns");
        ByteTime {
            scaled: (1e3 / bytes_per_ns * (1u64 << ByteTime::SHIFT) as f64).round() as u64,
        }
    }

    /// Time that `bytes` take, rounded down to picoseconds. The product must fit in 64 bits: at 1 byte per ns up to 17
    /// GB.
    #[inline]
    pub fn of(self, bytes: u64) -> Ps {
        Ps((bytes * self.scaled) >> ByteTime::SHIFT)
    }
}

/// A resource that carries bytes at a constant rate, first come, first served: a link, or one direction of a bus.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    rate: ByteTime,
    free_at: Ps,
    bytes: u64,
    usage: Usage,
}

impl Pipe {
    /// Creates an idle pipe that needs the time `rate` for each byte.
    pub fn new(rate: ByteTime) -> Pipe {
        Pipe {
            rate,
            free_at: Ps::ZERO,
            bytes: 0,
            usage: Usage::default(),
        }
    }

    /// Carries `bytes` that arrive at `now`, after all earlier ones. Returns when the first byte enters and when the
    /// last byte leaves. Service follows the order of the calls, so call it in ascending order of `now`.
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

    /// Time at which `bytes` that arrive at `now` would have left. Does not carry them.
    #[inline]
    pub fn through_at(&self, now: Ps, bytes: u64) -> Ps {
        now.max(self.free_at) + self.rate.of(bytes)
    }

    /// Bytes of all calls of [`carry`](Pipe::carry), including those still on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time that bytes arriving at `now` would wait before the first of them enters; zero if the pipe is free.
    pub fn backlog(&self, now: Ps) -> Ps {
        self.free_at.since(now)
    }

    /// Usage since creation. `busy` is the busy time up to `now`, which is not before the last call of
    /// [`carry`](Pipe::carry). `served` counts all calls of `carry`, including those whose bytes are still on their
    /// way. `high_water` is always zero.
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
