//! [`Activity`] and [`Unanswered`]: when a connection did something, and what its peer waits for.

use drover_base::Ns;

/// A long request without input for this time may lose its memory to others that wait, seconds.
const STALL_S: u32 = 2;
/// A long request that takes this time in total may lose its memory to others that wait, seconds.
const SLOW_S: u32 = 10;

/// When a connection did something, in seconds since the server's start.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The connection has had a whole request.
    has_been_served: bool,
    /// Time of the last input or output.
    last_s: u32,
    /// Time when a long request began to take memory.
    long_since_s: u32,
}

impl Activity {
    pub(super) fn new(now_s: u32) -> Activity {
        Activity {
            has_been_served: false,
            last_s: now_s,
            long_since_s: now_s,
        }
    }

    /// Whether the connection has had a whole request.
    pub(crate) fn has_been_served(&self) -> bool {
        self.has_been_served
    }

    /// Time of the last input or output.
    #[inline]
    pub(crate) fn last_s(&self) -> u32 {
        self.last_s
    }

    /// Time when a long request began to take memory.
    pub(crate) fn long_since_s(&self) -> u32 {
        self.long_since_s
    }

    /// Whether a long request makes no progress, or too little.
    pub(crate) fn is_stalled(&self, now_s: u32) -> bool {
        now_s - self.last_s >= STALL_S || now_s - self.long_since_s >= SLOW_S
    }

    /// Takes note of input or output.
    #[inline]
    pub(super) fn moved(&mut self, now_s: u32) {
        self.last_s = now_s;
    }

    /// Takes note of a whole request.
    #[inline]
    pub(super) fn served(&mut self) {
        self.has_been_served = true;
    }

    /// Takes note that a long request begins to take memory.
    pub(super) fn begin_long(&mut self, now_s: u32) {
        self.long_since_s = now_s;
    }
}

/// Requests whose replies have not all been written.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    count: u64,
    /// Start of the round that read the first of them.
    since: Ns,
}

impl Unanswered {
    /// Adds `count` requests of the round that began at `round`.
    #[inline]
    pub(crate) fn add(&mut self, count: u64, round: Ns) {
        if self.count == 0 {
            self.since = round;
        }
        self.count += count;
    }

    /// Ends all of them. Returns since when they waited, and their number.
    #[inline]
    pub(crate) fn take(&mut self) -> (Ns, u64) {
        (self.since, std::mem::take(&mut self.count))
    }
}
