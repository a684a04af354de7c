//! [`Item`], [`PutOptions`] and [`Effect`]: what there is beside a value, for the systems that offer it.

use drover_kv::{CallError, Condition, Op, Outcome};

/// A value, and what belongs to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// Changes with every PUT: see [`Condition::IfVersion`]. 0 if the system has no versions.
    pub version: u64,
    /// The caller's own bits that were stored with the value.
    pub flags: u32,
}

/// How a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PutOptions {
    /// Seconds until the value expires; 0: never.
    pub ttl_s: u32,
    /// The caller's own bits, stored with the value.
    pub flags: u32,
    /// When it is stored.
    pub condition: Condition,
    /// Whether a key that exists keeps its expiry and flags, so that those above are ignored.
    pub keep: bool,
}

/// What came of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It was done.
    Done,
    /// Nothing happened: the key does not exist, or has expired.
    NotFound,
    /// Nothing happened: the key exists, and must not, or has another version.
    Exists,
}

impl PutOptions {
    pub(crate) fn op<'a>(self, key: &'a [u8], value: &'a [u8]) -> Op<'a> {
        Op::Put {
            key,
            value,
            ttl_s: self.ttl_s,
            flags: self.flags,
            condition: self.condition,
            keep: self.keep,
        }
    }
}

impl Effect {
    pub(crate) fn of(outcome: Outcome<'_>) -> Result<Effect, CallError> {
        Ok(match (outcome, outcome.found()?) {
            (Outcome::Exists, _) => Effect::Exists,
            (_, true) => Effect::Done,
            (_, false) => Effect::NotFound,
        })
    }
}

/// Result of an operation, for its future.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Value(Vec<u8>),
    Item(Item),
    Effect(Effect),
}

impl Answer {
    pub(crate) fn of(outcome: Outcome<'_>) -> Result<Answer, CallError> {
        match outcome {
            Outcome::Value(value) => Ok(Answer::Value(value.to_vec())),
            Outcome::Found {
                value,
                version,
                flags,
            } => Ok(Answer::Item(Item {
                value: value.to_vec(),
                version,
                flags,
            })),
            other => Effect::of(other).map(Answer::Effect),
        }
    }

    pub(crate) fn value(self) -> Option<Vec<u8>> {
        match self {
            Answer::Value(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn item(self) -> Option<Item> {
        match self {
            Answer::Item(item) => Some(item),
            _ => None,
        }
    }

    /// What came of an update.
    pub(crate) fn effect(self) -> Effect {
        match self {
            Answer::Effect(effect) => effect,
            Answer::Value(_) | Answer::Item(_) => Effect::Done,
        }
    }
}
