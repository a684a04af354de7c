//! [`History`]: operations with the times of their calls and returns, per key.

use crate::linear::{Model, Strict};
use std::collections::BTreeMap;

/// An operation and its result. Values are represented by an identity (a number); every PUT of a history should write a
/// different one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// PUT of the value with this identity.
    Put(u64),
    /// DELETE: whether it reported that the key existed; `None` if it did not report that, or never returned.
    Delete(Option<bool>),
    /// GET: the value that it returned; `None` for a miss, or if it never returned.
    Get(Option<u64>),
    /// Compare-and-swap: writes `to` if the value is `from`. If no value is written twice, memcached's `cas` behaves
    /// so.
    Swap {
        /// The expected value, which the caller has read before.
        from: u64,
        /// The new value.
        to: u64,
        /// The reply; ignored if [`Event::returned_at`] is `None`.
        said: Swapped,
    },
    /// PUT of the value `to` if the key has none.
    Insert {
        /// The new value.
        to: u64,
        /// Whether it was written. Ignored if [`Event::returned_at`] is `None`.
        done: bool,
    },
    /// PUT of the value `to` if the key has one.
    Replace {
        /// The new value.
        to: u64,
        /// Whether it was written. Ignored if [`Event::returned_at`] is `None`.
        done: bool,
    },
    /// DELETE if the value is `from`.
    Remove {
        /// The expected value, which the caller has read before.
        from: u64,
        /// The reply; ignored if [`Event::returned_at`] is `None`.
        said: Swapped,
    },
    /// Adds `by` to the value, which is a number (wrapping). Changes nothing if the key has no value.
    Add {
        /// The number to add, which may be negative.
        by: i64,
        /// The sum in the reply; `None`: the key had no value. Ignored if [`Event::returned_at`] is `None`.
        sum: Option<u64>,
    },
}

/// Reply to a [`Call::Swap`] or [`Call::Remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swapped {
    /// The new value was written, or the value removed.
    Done,
    /// The key had a value other than the expected one; nothing changed.
    Other,
    /// The key had no value; nothing changed.
    Missing,
}

/// One operation with its result and its times. The key is not part of it: a [`History`] keeps the events of each key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Number of the client that called it.
    pub client: u32,
    /// The operation and its result.
    pub call: Call,
    /// Time of the call, in any unit, on a clock that all clients share.
    pub called_at: u64,
    /// Time of the return on the same clock; `None` if it is unknown whether the operation took effect: it may have, at
    /// any time after the call, or not at all.
    pub returned_at: Option<u64>,
}

/// All operations of a run, by key.
#[derive(Clone, Debug, Default)]
pub struct History {
    keys: BTreeMap<Vec<u8>, Vec<Event>>,
}

impl History {
    /// Adds an operation on `key`.
    pub fn push(&mut self, key: &[u8], event: Event) {
        match self.keys.get_mut(key) {
            Some(events) => events.push(event),
            None => {
                self.keys.insert(key.to_vec(), vec![event]);
            }
        }
    }

    /// Adds all operations of `other`, after those already recorded.
    pub fn merge(&mut self, other: History) {
        for (key, events) in other.keys {
            self.keys.entry(key).or_default().extend(events);
        }
    }

    /// Iterates over the keys in byte order, each with its operations in the order of recording.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], &[Event])> {
        self.keys
            .iter()
            .map(|(key, events)| (key.as_slice(), events.as_slice()))
    }

    /// Number of operations of all keys.
    pub fn len(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks that the operations of every key are linearizable, as [`is_linearizable`](crate::linear::is_linearizable)
    /// defines it.
    ///
    /// # Errors
    /// Text that names the first key whose operations are not linearizable, and lists them.
    ///
    /// # Panics
    /// If so many operations of a key overlap that the search needs more than 2^20 configurations.
    pub fn check(&self, model: Model) -> Result<(), String> {
        self.check_by(|events| crate::linear::is_linearizable(events, model))
    }

    /// As [`check`](History::check), but also requires that the operations of one client take effect in the order of
    /// recording although several are outstanding (see [`Strict::is_linearizable`]).
    ///
    /// # Errors
    /// As for [`check`](History::check).
    ///
    /// # Panics
    /// If the search needs more configurations than `strict` allows.
    pub fn check_in_order(&self, strict: Strict, model: Model) -> Result<(), String> {
        self.check_by(|events| {
            strict
                .is_linearizable(events, model)
                .unwrap_or_else(|| panic!("more overlap than can be searched: {events:?}"))
        })
    }

    fn check_by(&self, is_linearizable: impl Fn(&[Event]) -> bool) -> Result<(), String> {
        for (key, events) in self.keys() {
            if !is_linearizable(events) {
                let mut sorted = events.to_vec();
                sorted.sort_by_key(|e| e.called_at);
                let lines: Vec<String> = sorted.iter().map(|e| format!("  {e:?}")).collect();
                return Err(format!(
                    "key {} is not linearizable:\n{}",
                    key.escape_ascii(),
                    lines.join("\n")
                ));
            }
        }
        Ok(())
    }
}
