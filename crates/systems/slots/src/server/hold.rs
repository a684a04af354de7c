//! [`Hold`]: decides which conditional requests are refused.
//!
//! If a client posts a write after a GET of the same key that may still be in flight, the write's commit word is
//! conditional. If the GET is answered `Bulk`, the client fetches the value afterwards and must not find the newer one.
//! So the server answers the write `Retry`, and conditional requests posted after that write likewise. The same holds
//! for a GET that is answered `Retry`. *(our choice: keeping the older value would cost memory that no client pays
//! for)*
//!
//! The server remembers one position per client, and not its key. It refuses every conditional request that the client
//! may have sent before it received that answer, that is, those of one window. With long values it refuses a few more
//! than necessary, with short values none.

/// The later of two positions among a client's requests to one partition: that of the last GET that must be asked again
/// (answered `Bulk` or `Retry`), and that of the last conditional request refused for being behind such a GET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Its [position](super::Turn::position), modulo 2^32.
    last: u32,
}

impl Hold {
    /// No such request yet: the first requests of a session are not within a window of this position.
    pub const NONE: Hold = Hold { last: 0 };

    /// Records that the request at `position` must be asked again or was refused. Positions older than the recorded one
    /// change nothing.
    #[inline]
    pub fn note(&mut self, position: u32) {
        if position.wrapping_sub(self.last) as i32 > 0 {
            self.last = position;
        }
    }

    /// Whether the conditional request at `position` must be refused: it is less than `window` after the recorded
    /// position, or at it. Positions wrap around: once in 2^32 requests one is refused without need, which costs a
    /// round trip.
    #[inline]
    pub fn holds(&self, position: u32, window: u32) -> bool {
        position.wrapping_sub(self.last) < window
    }
}
