//! [`LookAround`]: a look at every slot of a client, not only at the one whose turn it is.

use super::{SlotState, Turn};
use crate::layout::Commit;

/// Finds what has news, in the order of turns. A request is passed out of turn only if the one whose turn it is has not
/// come *by then*: it may have come since we looked at it, and belongs before. So where no WRITE is lost or overtaken
/// nothing is taken out of turn, and clients there post operations on one key behind one another.
#[derive(Clone, Copy, Debug)]
pub struct LookAround {
    at: Turn,
    looked: u32,
    returns: u32,
}

impl LookAround {
    /// A look that begins with the slot whose `turn` it is.
    pub fn from(turn: Turn) -> LookAround {
        LookAround {
            at: turn,
            looked: 0,
            returns: 0,
        }
    }

    /// The next slot with news, and the word in it. `turn` and `states` are as they are by now, `load` reads a slot's word.
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

    /// What was found cannot be taken now, and stays news: no return to it.
    pub fn go_on(&mut self) {
        self.returns = u32::MAX;
    }
}
