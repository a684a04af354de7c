//! What the outcome of an operation says of its call, and what calls write and have read.

use drover_kv::Outcome;
use drover_testkit::history::{Call, Swapped};

/// `call` with the reply that `outcome` means; `None`: the operation cannot end so. Values that GETs return are not looked at here.
pub fn replied(call: Call, outcome: Outcome<'_>) -> Option<Call> {
    Some(match (call, outcome) {
        (Call::Get(_), Outcome::NotFound) => Call::Get(None),
        (Call::Put(_), Outcome::Stored) => call,
        (Call::Delete(_), Outcome::Deleted) => Call::Delete(Some(true)),
        (Call::Delete(_), Outcome::NotFound) => Call::Delete(Some(false)),
        (Call::Insert { to, .. }, Outcome::Stored) => Call::Insert { to, done: true },
        (Call::Insert { to, .. }, Outcome::Exists) => Call::Insert { to, done: false },
        (Call::Replace { to, .. }, Outcome::Stored) => Call::Replace { to, done: true },
        (Call::Replace { to, .. }, Outcome::NotFound) => Call::Replace { to, done: false },
        (Call::Swap { from, to, .. }, outcome) => {
            let said = swapped(outcome, Outcome::Stored)?;
            Call::Swap { from, to, said }
        }
        (Call::Remove { from, .. }, outcome) => {
            let said = swapped(outcome, Outcome::Deleted)?;
            Call::Remove { from, said }
        }
        _ => return None,
    })
}

fn swapped(outcome: Outcome<'_>, done: Outcome<'_>) -> Option<Swapped> {
    match outcome {
        Outcome::Exists => Some(Swapped::Other),
        Outcome::NotFound => Some(Swapped::Missing),
        outcome => (outcome == done).then_some(Swapped::Done),
    }
}

/// The value that `call` writes, if it happens.
pub fn written(call: Call) -> Option<u64> {
    match call {
        Call::Put(to) | Call::Swap { to, .. } | Call::Insert { to, .. } | Call::Replace { to, .. } => {
            Some(to)
        }
        Call::Delete(_) | Call::Get(_) | Call::Remove { .. } | Call::Add { .. } => None,
    }
}

/// The value that the key had, by the reply of `call`.
pub fn found(call: Call) -> Option<u64> {
    match call {
        Call::Get(value) => value,
        Call::Swap { from, said, .. } | Call::Remove { from, said } => {
            (said == Swapped::Done).then_some(from)
        }
        Call::Put(_) | Call::Delete(_) | Call::Insert { .. } | Call::Replace { .. } | Call::Add { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_fits_the_call_or_is_nonsense() {
        let swap = |said| Call::Swap { from: 1, to: 2, said };
        for (outcome, said) in [
            (Outcome::Stored, Some(Swapped::Done)),
            (Outcome::Exists, Some(Swapped::Other)),
            (Outcome::NotFound, Some(Swapped::Missing)),
            (Outcome::Deleted, None),
        ] {
            assert_eq!(
                replied(swap(Swapped::Missing), outcome),
                said.map(swap),
                "{outcome:?}"
            );
        }
        let insert = |done| Call::Insert { to: 2, done };
        assert_eq!(replied(insert(false), Outcome::Stored), Some(insert(true)));
        assert_eq!(replied(insert(true), Outcome::Exists), Some(insert(false)));
        assert_eq!(replied(insert(true), Outcome::NotFound), None);
        assert_eq!(replied(Call::Put(2), Outcome::Exists), None);
    }

    #[test]
    fn a_swap_that_was_done_has_found_a_value() {
        let swap = |said| Call::Swap { from: 1, to: 2, said };
        assert_eq!(found(swap(Swapped::Done)), Some(1));
        assert_eq!(found(swap(Swapped::Other)), None);
        assert_eq!(written(swap(Swapped::Other)), Some(2));
    }
}
