//! [`Clock`]: the time of a server's step, which is read once per step.

use drover_base::Ns;

/// The time at the start of a server's current step: on the clock of the cores, and in the seconds by which items
/// expire.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// When the server started, on the clock of the provider's cores.
    started: Ns,
    /// What [`now_s`](Clock::now_s) was then.
    start_s: u32,
    now: Ns,
    now_s: u32,
    /// Begin of the second `now_s`.
    second: Ns,
}

impl Clock {
    /// A clock for a server that started at `started` on the clock of its cores; it shows `start_s` seconds then.
    pub fn new(started: Ns, start_s: u32) -> Clock {
        Clock {
            started,
            start_s,
            now: started,
            now_s: start_s,
            second: started,
        }
    }

    /// Sets the time to `now`, the start of a step.
    #[inline(always)]
    pub fn set(&mut self, now: Ns) {
        self.now = now;
        if now.0.wrapping_sub(self.second.0) >= Ns::from_s(1).0 {
            self.set_second(now);
        }
    }

    #[cold]
    fn set_second(&mut self, now: Ns) {
        let since = now.since(self.started).as_s();
        self.now_s = self.start_s + since as u32;
        self.second = self.started + Ns::from_s(since);
    }

    /// Start of the step, on the clock of the cores.
    #[inline(always)]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Start of the step on the clock by which items expire: the seconds at the server's start plus the whole seconds
    /// since.
    #[inline(always)]
    pub fn now_s(&self) -> u32 {
        self.now_s
    }

    /// The server's start, on the clock of the cores.
    pub fn started(&self) -> Ns {
        self.started
    }

    /// Second in which an item expires that is stored in this step with a time to live of `ttl_s` seconds. 0, for a
    /// `ttl_s` of 0, means never.
    pub fn expire_s(&self, ttl_s: u32) -> u32 {
        match ttl_s {
            0 => 0,
            _ => self.now_s.saturating_add(ttl_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds are those of a division of the time since the start, in whatever steps the time goes on.
    #[test]
    fn seconds_are_counted_from_the_start() {
        let started = Ns(123_456_789);
        let mut clock = Clock::new(started, 7);
        let mut now = started;
        for step in [
            0,
            1,
            999_999_998,
            1,
            1,
            5_000_000_000,
            999_999_999,
            1,
            400_000_000,
            600_000_000,
        ] {
            now += Ns(step);
            clock.set(now);
            assert_eq!(clock.now_s(), 7 + now.since(started).as_s() as u32, "{now:?}");
        }
        clock.set(started);
        assert_eq!(clock.now_s(), 7, "an earlier time, too");
    }
}
