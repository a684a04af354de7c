//! [`Hold`]: which conditional requests are not executed.
//!
//! A client that posts a write behind a GET of the same key says so in the write's commit word. Should the GET be
//! answered `Bulk`, the client fetches the value afterwards, and must not find the newer one: so the write is answered
//! `Retry`, and so is whatever was posted behind that in turn. *(our choice: to hold the older value would cost memory
//! that no client pays for)*
//!
//! What is remembered is one position, and not which key it was about: refused is every conditional request that the
//! client may have sent before it knew of the answer, which are those of one window. That is a few too many where
//! values are long, and none where they are short.

/// The last request of a client that was answered `Bulk`, or refused for the sake of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Its [position](super::Turn::position), modulo 2^32.
    last: u32,
}

impl Hold {
    /// There was none: no first request of a session is within a window of this.
    pub const NONE: Hold = Hold { last: 0 };

    /// The request at `position` was answered `Bulk`, or refused. Those answered again are older, and change nothing.
    #[inline]
    pub fn note(&mut self, position: u32) {
        if position.wrapping_sub(self.last) as i32 > 0 {
            self.last = position;
        }
    }

    /// Whether the conditional request at `position` must be refused. 2^32 requests later it may be for no reason,
    /// which costs a round trip.
    #[inline]
    pub fn holds(&self, position: u32, window: u32) -> bool {
        position.wrapping_sub(self.last) < window
    }
}
