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

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(window: usize) -> Vec<SlotState> {
        vec![SlotState::UNUSED; window]
    }

    #[test]
    fn turns_go_round() {
        let mut turn = Turn::FIRST;
        for r in 0..20u64 {
            assert_eq!(turn, Turn::of(r, 2));
            turn = turn.next(4);
        }
        assert_eq!(
            Turn {
                slot: 3,
                seq: u32::MAX
            }
            .next(4),
            Turn { slot: 0, seq: 0 }
        );
        assert_eq!(Turn::FIRST.next(1), Turn { slot: 0, seq: 2 });
    }

    #[test]
    fn done_positions_are_passed_over() {
        let mut states = fresh(4);
        states[1].rule_out(1);
        states[2].rule_out(1);
        let turn = Turn::FIRST.skip_done(&states);
        assert_eq!(turn, Turn::FIRST, "slot 0 is still awaited");
        states[0].rule_out(1);
        assert_eq!(turn.skip_done(&states), Turn { slot: 3, seq: 1 });
    }

    #[test]
    fn a_wild_seq_does_not_make_it_run_for_ever() {
        let mut states = fresh(4);
        for state in &mut states {
            state.rule_out(1 << 30);
        }
        Turn::FIRST.skip_done(&states);
    }
}
