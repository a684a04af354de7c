//! [`Clock`]: what time it is in a step. It is read once per step.

use drover_base::Ns;

/// The time at the start of a step.
pub(super) struct Clock {
    /// When the server started, on the clock of the provider's cores.
    started: Ns,
    /// What [`now_s`](Clock::now_s) was then.
    start_s: u32,
    now: Ns,
    now_s: u32,
}

impl Clock {
    pub(super) fn new(started: Ns, start_s: u32) -> Clock {
        Clock {
            started,
            start_s,
            now: started,
            now_s: start_s,
        }
    }

    /// A step starts.
    #[inline(always)]
    pub(super) fn set(&mut self, now: Ns) {
        self.now = now;
        self.now_s = self.start_s + now.since(self.started).as_s() as u32;
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Ns {
        self.now
    }

    /// The same in whole seconds, by which items expire.
    #[inline(always)]
    pub(super) fn now_s(&self) -> u32 {
        self.now_s
    }

    pub(super) fn started(&self) -> Ns {
        self.started
    }

    /// When something stored now with `ttl_s` expires; 0: never.
    pub(super) fn expire_s(&self, ttl_s: u32) -> u32 {
        match ttl_s {
            0 => 0,
            _ => self.now_s.saturating_add(ttl_s),
        }
    }
}
