//! Histories: calls and returns, per key.

use crate::linear::{Model, Strict};
use std::collections::BTreeMap;

/// What was called, with the identity of values in place of their bytes: every PUT of a history writes a
/// value nobody else writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// PUT of value `id`.
    Put(u64),
    /// DELETE; what it said it found, if it said so.
    Delete(Option<bool>),
    /// GET; the value it returned.
    Get(Option<u64>),
    /// Write of value `to` if the value was still `from`. While no value comes twice, memcached's `cas` is this.
    Swap {
        /// What the caller had read.
        from: u64,
        /// What it writes.
        to: u64,
        /// What was answered; of no meaning if nobody can know whether it happened.
        said: Swapped,
    },
    /// Addition to a value, which is a number; the sum, if there was one. Without a value it changes nothing.
    Add {
        /// What is added.
        by: i64,
        /// What was answered; of no meaning if nobody can know whether it happened.
        sum: Option<u64>,
    },
}

/// What came of a [`Call::Swap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swapped {
    /// It was written.
    Done,
    /// There was another value.
    Other,
    /// There was none.
    Missing,
}

/// One operation on one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Who.
    pub client: u32,
    /// What.
    pub call: Call,
    /// When it was called. Any clock that all clients share.
    pub called_at: u64,
    /// When it returned; `None` if nobody can know whether it happened.
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

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: History) {
        for (key, events) in other.keys {
            self.keys.entry(key).or_default().extend(events);
        }
    }

    /// The operations of each key.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], &[Event])> {
        self.keys
            .iter()
            .map(|(key, events)| (key.as_slice(), events.as_slice()))
    }

    /// How many operations.
    pub fn len(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// No operations.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks every key. `Err` names the first key that no order of operations explains, with its events.
    pub fn check(&self, model: Model) -> Result<(), String> {
        self.check_by(|events| crate::linear::is_linearizable(events, model))
    }

    /// The same for clients whose operations happen in the order in which they were recorded, though several of them are
    /// under way. Panics if that takes more than `strict` allows.
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
