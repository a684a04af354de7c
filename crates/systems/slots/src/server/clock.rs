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
}

impl Clock {
    /// A clock for a server that started at `started` on the clock of its cores; it shows `start_s` seconds then.
    pub fn new(started: Ns, start_s: u32) -> Clock {
        Clock {
            started,
            start_s,
            now: started,
            now_s: start_s,
        }
    }

    /// Sets the time to `now`, the start of a step.
    #[inline(always)]
    pub fn set(&mut self, now: Ns) {
        self.now = now;
        self.now_s = self.start_s + now.since(self.started).as_s() as u32;
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
