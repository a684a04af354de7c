//! [`CallError`]: why a call of a client returned no result.

use crate::{Outcome, Refusal, SubmitError};

/// Why a client's call, which waits for one operation, returned no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The client did not accept the operation.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The operation was refused and certainly had no effect.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The operation may or may not have had an effect.
    #[error("the server or the network failed: the operation may or may not have happened")]
    Indeterminate,
    /// The thread that runs the client has ended.
    #[error("the client has ended")]
    Gone,
}

impl Outcome<'_> {
    /// Whether the operation found what it asked for: a key (GET, DELETE, touch), or what its condition required.
    ///
    /// # Errors
    /// [`CallError::Refused`], or [`CallError::Indeterminate`] if the effect is unknown.
    pub fn found(self) -> Result<bool, CallError> {
        match self {
            Outcome::Value(_)
            | Outcome::Found { .. }
            | Outcome::Stored
            | Outcome::Deleted
            | Outcome::Touched => Ok(true),
            Outcome::NotFound | Outcome::Exists => Ok(false),
            Outcome::Refused(refusal) => Err(CallError::Refused(refusal)),
            Outcome::Indeterminate => Err(CallError::Indeterminate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_an_answer_or_an_error() {
        for (outcome, found) in [
            (Outcome::Value(b"v"), Ok(true)),
            (Outcome::Stored, Ok(true)),
            (Outcome::Deleted, Ok(true)),
            (Outcome::Touched, Ok(true)),
            (Outcome::Exists, Ok(false)),
            (Outcome::NotFound, Ok(false)),
            (
                Outcome::Refused(Refusal::Full),
                Err(CallError::Refused(Refusal::Full)),
            ),
            (Outcome::Indeterminate, Err(CallError::Indeterminate)),
        ] {
            assert_eq!(outcome.found(), found);
        }
    }
}
