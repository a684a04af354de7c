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

#[cfg(test)]
mod tests {
    use super::super::Turn;
    use super::*;
    use proptest::prelude::*;

    const WINDOW: u32 = 8;

    fn position(r: u32) -> u32 {
        Turn::of(u64::from(r), WINDOW.trailing_zeros()).position(WINDOW)
    }

    #[test]
    fn at_first_nothing_is_held() {
        assert!((0..3 * WINDOW).all(|r| !Hold::NONE.holds(position(r), WINDOW)));
    }

    #[test]
    fn a_window_is_held() {
        let mut hold = Hold::NONE;
        hold.note(position(5));
        assert!((5..5 + WINDOW).all(|r| hold.holds(position(r), WINDOW)));
        assert!(!hold.holds(position(5 + WINDOW), WINDOW));
        hold.note(position(3));
        assert!(
            hold.holds(position(4 + WINDOW), WINDOW),
            "an older one changes nothing"
        );
    }

    #[test]
    fn numbers_wrap() {
        let mut hold = Hold { last: u32::MAX - 2 };
        assert!(hold.holds(1, WINDOW) && !hold.holds(6, WINDOW));
        hold.note(3);
        assert!(hold.holds(3 + WINDOW - 1, WINDOW));
    }

    proptest! {
        /// A client that knows the answers up to some position, and posts within a window of that: whatever it posts
        /// behind a request that is held is held, too.
        #[test]
        fn what_stands_behind_a_held_one_is_held(bulk in 0u32..40, steps in prop::collection::vec(1u32..WINDOW, 1..20)) {
            let mut hold = Hold::NONE;
            hold.note(position(bulk));
            let mut r = bulk;
            for step in steps {
                r += step;
                prop_assert!(hold.holds(position(r), WINDOW));
                hold.note(position(r));
            }
        }
    }
}
