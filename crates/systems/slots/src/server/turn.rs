//! [`Turn`]: which slot of a client the server waits for.
//!
//! Request r is in slot `r mod window` with `seq = r / window + 1`. The server looks only at the slot whose turn
//! it is, one line per client and poll `[HERD §4.2]`; a position that is done already (executed ahead of its
//! turn while another was lost, or ruled out) is passed over.

use super::slot::SlotState;

/// A position: the slot, and the seq expected there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Slot within the window.
    pub slot: u32,
    /// The seq of the request waited for.
    pub seq: u32,
}

impl Turn {
    /// The position of a client that has sent nothing yet.
    pub const FIRST: Turn = Turn { slot: 0, seq: 1 };

    /// The position of request `r` of a window of `2^window_log2` slots.
    pub fn of(r: u64, window_log2: u32) -> Turn {
        Turn {
            slot: (r & ((1 << window_log2) - 1)) as u32,
            seq: ((r >> window_log2) as u32).wrapping_add(1),
        }
    }

    /// Its number modulo 2^32; the first of a session has `window`.
    #[inline]
    pub fn position(self, window: u32) -> u32 {
        self.seq.wrapping_mul(window).wrapping_add(self.slot)
    }

    /// The position after this one.
    #[inline(always)]
    pub fn next(self, window: u32) -> Turn {
        let slot = (self.slot + 1) & (window - 1);
        Turn {
            slot,
            seq: self.seq.wrapping_add(u32::from(slot == 0)),
        }
    }

    /// Whether the request of this position was executed or ruled out.
    #[inline(always)]
    pub fn is_done(self, states: &[SlotState]) -> bool {
        states[self.slot as usize].is_done(self.seq)
    }

    /// The first position from here on that is not done. Ends within a window: the seqs of a slot's own turns
    /// are consecutive, and further ones are bounded by what a client may have sent.
    #[inline(always)]
    pub fn skip_done(mut self, states: &[SlotState]) -> Turn {
        let window = states.len() as u32;
        for _ in 0..window {
            if !self.is_done(states) {
                break;
            }
            self = self.next(window);
        }
        self
    }

    /// The seq of the last position before this one in `slot`.
    pub fn last_before(self, slot: u32) -> u32 {
        if slot < self.slot {
            self.seq
        } else {
            self.seq.wrapping_sub(1)
        }
    }
}
