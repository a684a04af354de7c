//! `incr`, `decr`, and the numeric part of `ma`.

use super::{Action, Step, Turn};
use drover_kv::Outcome;
use drover_memcached::decide::{
    NO_MEMORY_FOR_NUMBER, NON_NUMERIC, NUMBER_BYTES_MAX, NumberText, number_in, sum,
};
use drover_store::ExtraOutcome;

/// The next text of an item that holds a number.
pub(super) enum Next {
    /// The new number, whose text has been written.
    Number(u64),
    NonNumeric,
}

/// Writes the text after `by` is added to, or subtracted from, the number in `old`: as long as that, padded by spaces, unless it is longer.
pub(super) fn next_text(old: &[u8], (by, up): (u64, bool), text: &mut Vec<u8>) -> Next {
    let start = &old[..old.len().min(NUMBER_BYTES_MAX)];
    let Some(number) = number_in(start, old.len()).filter(|_| !old.is_empty()) else {
        return Next::NonNumeric;
    };
    let next = sum(number, by, up);
    text.clear();
    text.extend_from_slice(NumberText::new(next).digits());
    if text.len() < old.len() {
        text.resize(old.len(), b' ');
    }
    Next::Number(next)
}

impl<'a> Turn<'a, '_> {
    pub(super) fn proceed_number(
        &mut self,
        (by, up, noreply): (u64, bool, bool),
        step: Step,
        outcome: &Outcome<'_>,
        text: &'a mut Vec<u8>,
    ) -> Action<'a> {
        match (step, outcome) {
            (Step::Read, &Outcome::Found { value, version, .. }) => match next_text(value, (by, up), text) {
                Next::Number(number) => {
                    self.memo.number = number;
                    self.overwrite(text, version, None)
                }
                Next::NonNumeric => self.refuse(noreply, NON_NUMERIC),
            },
            (Step::Read, Outcome::NotFound) => {
                self.count_number(up, false);
                self.refuse(noreply, b"NOT_FOUND\r\n")
            }
            (Step::Write, Outcome::Stored) => {
                self.count_number(up, true);
                self.reply
                    .push(noreply, NumberText::new(self.memo.number).digits());
                self.refuse(noreply, b"\r\n")
            }
            (Step::Write, Outcome::Exists | Outcome::NotFound) => Action::Again,
            (_, outcome) => self.fail_number(noreply, outcome),
        }
    }

    pub(super) fn count_number(&mut self, up: bool, is_hit: bool) {
        let counters = &mut *self.counters;
        *match (up, is_hit) {
            (true, true) => &mut counters.incr_hits,
            (true, false) => &mut counters.incr_misses,
            (false, true) => &mut counters.decr_hits,
            (false, false) => &mut counters.decr_misses,
        } += 1;
    }

    pub(super) fn fail_number(&mut self, noreply: bool, outcome: &Outcome<'_>) -> Action<'a> {
        match super::stored(outcome) {
            Some(ExtraOutcome::Full) => self.refuse(noreply, NO_MEMORY_FOR_NUMBER),
            _ => self.fail(noreply, outcome),
        }
    }
}
