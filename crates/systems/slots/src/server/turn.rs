//! [`Turn`]: the slot in which the server expects a client's next request.
//!
//! Request r is in slot `r mod window` with `seq = r / window + 1`. The server polls only the slot whose turn it is,
//! one cache line per client and poll `[HERD §4.2]`. It skips positions that are done already: executed out of turn
//! while an earlier request was lost, or ruled out.

use super::slot::SlotState;

/// A position in the sequence of a client's requests to one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Index of the slot within the partition's window.
    pub slot: u32,
    /// Seq of the request expected in that slot.
    pub seq: u32,
}

impl Turn {
    /// Position of a session's first request.
    pub const FIRST: Turn = Turn { slot: 0, seq: 1 };

    /// Position of request number `r`, counted from 0, with a window of `2^window_log2` slots.
    pub fn of(r: u64, window_log2: u32) -> Turn {
        Turn {
            slot: (r & ((1 << window_log2) - 1)) as u32,
            seq: ((r >> window_log2) as u32).wrapping_add(1),
        }
    }

    /// Number of this position, `seq * window + slot` modulo 2^32; a session's first request has number `window`.
    #[inline]
    pub fn position(self, window: u32) -> u32 {
        self.seq.wrapping_mul(window).wrapping_add(self.slot)
    }

    /// The next position, with a window of `window` slots, a power of two.
    #[inline(always)]
    pub fn next(self, window: u32) -> Turn {
        let slot = (self.slot + 1) & (window - 1);
        Turn {
            slot,
            seq: self.seq.wrapping_add(u32::from(slot == 0)),
        }
    }

    /// The position `count` after this one, with a window of `window` slots, a power of two; `count` leads at most to the
    /// first slot again.
    #[inline(always)]
    pub fn after(self, count: u32, window: u32) -> Turn {
        let slot = self.slot + count;
        Turn {
            slot: slot & (window - 1),
            seq: self.seq.wrapping_add(u32::from(slot == window)),
        }
    }

    /// Whether the request at this position was taken or ruled out; `states` are the records of the partition's slots.
    #[inline(always)]
    pub fn is_done(self, states: &[SlotState]) -> bool {
        states[self.slot as usize].is_done(self.seq)
    }

    /// The first position from this one on that is not done. If a whole window is done, the position one window later,
    /// done or not. `states` are the records of the partition's slots; their number is the window.
    #[inline(always)]
    pub fn skip_done(self, states: &[SlotState]) -> Turn {
        match self.is_done(states) {
            true => self.skip_several(states),
            false => self,
        }
    }

    #[cold]
    #[inline(never)]
    fn skip_several(mut self, states: &[SlotState]) -> Turn {
        let window = states.len() as u32;
        for _ in 0..window {
            if !self.is_done(states) {
                break;
            }
            self = self.next(window);
        }
        self
    }

    /// Seq of the last position in `slot` before this one; 0 if there was none in the session.
    pub fn last_before(self, slot: u32) -> u32 {
        if slot < self.slot {
            self.seq
        } else {
            self.seq.wrapping_sub(1)
        }
    }
}
