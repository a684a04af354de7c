//! [`LookAround`]: a check of every slot of a client, not only of the one whose turn it is.

use super::{SlotState, Turn};
use crate::layout::Commit;

/// Finds slots with a new commit word, in the order of turns. It returns a slot out of turn only if the slot whose turn
/// it is has no new word *at that time* (until [`go_on`](LookAround::go_on) is called): its request may have arrived
/// since it was checked, and comes first. So where no WRITE is lost or overtaken, no request is taken out of turn, and
/// clients there may post several operations on one key.
#[derive(Clone, Copy, Debug)]
pub struct LookAround {
    at: Turn,
    looked: u32,
    returns: u32,
}

impl LookAround {
    /// Starts a check with the slot whose `turn` it is.
    pub fn from(turn: Turn) -> LookAround {
        LookAround {
            at: turn,
            looked: 0,
            returns: 0,
        }
    }

    /// The next slot whose commit word differs from the last one taken or noted, and the word; `None` after all slots.
    /// `turn` and `states` are the client's current ones; `load` reads a slot's commit word. Before the next call the
    /// caller takes or notes the word, or calls [`go_on`](LookAround::go_on).
    #[inline]
    pub fn next(
        &mut self,
        turn: Turn,
        states: &[SlotState],
        load: impl Fn(u32) -> u64,
    ) -> Option<(u32, Commit)> {
        let window = states.len() as u32;
        let is_news = |slot: u32, word: u64| word != states[slot as usize].last_commit();
        while self.looked < window {
            let slot = self.at.slot;
            let word = load(slot);
            let news = is_news(slot, word);
            // Each return finds at least one more request, of which there are no more than slots.
            if news && slot != turn.slot && self.returns < window && is_news(turn.slot, load(turn.slot)) {
                (self.at, self.looked) = (turn, 0);
                self.returns += 1;
                continue;
            }
            self.at = self.at.next(window);
            self.looked += 1;
            if news {
                return Some((slot, Commit(word)));
            }
        }
        None
    }

    /// Leaves the slot found last as it is: its request cannot be taken now, and its word stays new. From now on the
    /// check passes each remaining slot once, and does not return to the slot whose turn it is.
    pub fn go_on(&mut self) {
        self.returns = u32::MAX;
    }
}
