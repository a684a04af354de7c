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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{SlotOp, Status};
    use proptest::prelude::*;
    use std::cell::Cell;

    const WINDOW: u32 = 8;

    /// Requests 0, 1, 2 ... arrive in order, so many before each look at a slot as `arrivals` says; those taken.
    fn taken(arrivals: &[u8], mut around: LookAround) -> Vec<u64> {
        let mut states = vec![SlotState::UNUSED; WINDOW as usize];
        let mut turn = Turn::FIRST;
        let (looks, here) = (Cell::new(0), Cell::new(0u64));
        let load = |slot: u32| {
            let more = arrivals.get(looks.get()).copied().unwrap_or(0);
            looks.set(looks.get() + 1);
            here.set((here.get() + u64::from(more)).min(u64::from(WINDOW)));
            let turn = Turn::of(u64::from(slot), WINDOW.trailing_zeros());
            match u64::from(slot) < here.get() {
                true => Commit::new(SlotOp::Put, turn.seq, 3, 0, false).0,
                false => 0,
            }
        };
        let mut found = Vec::new();
        while let Some((slot, commit)) = around.next(turn, &states, load) {
            let state = &mut states[slot as usize];
            state.take(commit);
            state.finish(Status::Ok);
            turn = turn.skip_done(&states);
            found.push(u64::from(slot));
        }
        found
    }

    /// The first is not there yet, then both come, then the second is there.
    const RACE: &[u8] = &[0, 2];

    #[test]
    fn one_that_came_meanwhile_is_not_overtaken() {
        assert_eq!(taken(RACE, LookAround::from(Turn::FIRST)), [0, 1]);
    }

    #[test]
    fn without_a_second_look_it_would_be() {
        let mut hasty = LookAround::from(Turn::FIRST);
        hasty.go_on();
        assert_eq!(taken(RACE, hasty), [1]);
    }

    #[test]
    fn what_is_behind_a_lost_one_is_found() {
        let states = vec![SlotState::UNUSED; WINDOW as usize];
        let load = |slot: u32| Commit::new(SlotOp::Put, 1, 3, 0, false).0 * u64::from(slot == 5);
        let mut around = LookAround::from(Turn::FIRST);
        let found = around.next(Turn::FIRST, &states, load).expect("there");
        assert_eq!(found.0, 5);
        assert!(around.next(Turn::FIRST, &states, |_| 0).is_none());
    }

    proptest! {
        #[test]
        fn nothing_is_taken_out_of_turn_where_nothing_is_lost(arrivals in prop::collection::vec(0u8..3, 0..40)) {
            let found = taken(&arrivals, LookAround::from(Turn::FIRST));
            prop_assert!(found.iter().copied().eq(0..found.len() as u64), "{found:?}");
        }
    }
}
