//! [`Guess`]: whether the value of the next GET is long.

/// Guesses from the latest GETs whether the next value is long. *(our choice: a wrong guess costs a round trip for a long
/// value, and some hundred instructions for a short one)*
#[derive(Default)]
pub(super) struct Guess {
    /// Rises with long values and falls with short ones, from 0 to [`Guess::MOST`].
    score: u8,
    /// Number of operations completed when the last GET was answered `Bulk`.
    last: usize,
}

impl Guess {
    const MOST: u8 = 8;

    /// Notes a GET that was answered `Bulk` when `completed` operations were complete. GETs of short values are not
    /// noted, so it counts only if at most one operation came in between.
    pub(super) fn was_long_after(&mut self, completed: usize) {
        match completed - self.last <= 1 {
            true => self.note(true),
            false => self.score = 0,
        }
        self.last = completed;
    }

    /// Notes the length of a value whose GET began with a chunk.
    pub(super) fn note(&mut self, is_long: bool) {
        self.score = match is_long {
            true => (self.score + 1).min(Guess::MOST),
            false => self.score.saturating_sub(1),
        };
    }

    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.score >= Guess::MOST / 2
    }
}
