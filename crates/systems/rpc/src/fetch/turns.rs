//! [`Turns`]: in which order calls READ their results, where a READ that comes too early does harm and one that comes late
//! does not.
//!
//! Over a network a READ takes longer than most calls, so each call READs as soon as its request has been carried. Where a
//! READ is a copy by this core, it nearly always comes too early: it costs this core its time, and the server's core the
//! line that it is about to write. There, one call READs for all of them, the *scout*. When its result is there, so are
//! mostly those of the calls behind it, because a server publishes what it has found in one step: all of them READ at
//! once. *(our choice)*
//!
//! ```text
//! waiting: 4 5 6 7      scout: 3, again and again      its result is there: 4 5 6 7 READ at once, and 8 is the next scout
//! ```

use std::collections::VecDeque;

/// The calls of a connection that have not READ yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Turns {
    is_on: bool,
    scout: Option<u32>,
    /// Places in the order in which they READ.
    waiting: VecDeque<u32>,
    /// So many of them READ now.
    due: usize,
}

impl Turns {
    /// For `place_count` places. Nobody takes turns at first.
    pub(super) fn new(place_count: usize) -> Turns {
        Turns {
            is_on: false,
            scout: None,
            waiting: VecDeque::with_capacity(place_count),
            due: 0,
        }
    }

    /// From now on, calls take turns. Those that have begun do not.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Whether calls take turns.
    #[inline]
    pub(super) fn are_taken(&self) -> bool {
        self.is_on
    }

    /// The call in `place` has begun, or was not the scout and found nothing, or gives up being the scout.
    #[inline]
    pub(super) fn wait(&mut self, place: usize) {
        self.waiting.push_back(place as u32);
    }

    /// The place that is to READ now, if there is one. Call it until there is none.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.due > 0 {
            self.due -= 1;
        } else if self.scout.is_none() {
            self.scout = self.waiting.front().copied();
        } else {
            return None;
        }
        self.waiting.pop_front().map(|place| place as usize)
    }

    /// Whether there is a place that is to READ now.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        !self.waiting.is_empty() && (self.due > 0 || self.scout.is_none())
    }

    #[inline]
    pub(super) fn is_scout(&self, place: usize) -> bool {
        self.scout == Some(place as u32)
    }

    /// Whether others wait for the scout.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The READ of `place` found its result.
    #[inline]
    pub(super) fn found(&mut self, place: usize) {
        if self.is_scout(place) {
            self.scout = None;
            self.due = self.waiting.len();
        }
    }

    /// The call in `place` goes on without READs, or later: if it was the scout, another one is.
    #[inline]
    pub(super) fn leave(&mut self, place: usize) {
        if self.is_scout(place) {
            self.scout = None;
        }
    }

    /// No call is under way any more.
    pub(super) fn clear(&mut self) {
        (self.scout, self.due) = (None, 0);
        self.waiting.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn next(turns: &mut Turns) -> Vec<usize> {
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn one_reads_for_all_until_it_finds_its_result() {
        let mut turns = Turns::new(8);
        turns.begin();
        (0..4).for_each(|place| turns.wait(place));
        assert_eq!(next(&mut turns), [0]);
        assert!(!turns.has_next() && turns.has_waiting());
        turns.found(0);
        turns.wait(4);
        assert!(turns.has_next());
        assert_eq!(
            next(&mut turns),
            [1, 2, 3, 4],
            "three for the scout, and the next scout"
        );
        turns.found(2);
        turns.wait(3);
        assert_eq!(next(&mut turns), [], "the result of another one says nothing");
        turns.leave(4);
        assert_eq!(next(&mut turns), [3]);
        turns.clear();
        assert!(next(&mut turns).is_empty() && !turns.has_next());
    }
}
