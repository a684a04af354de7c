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

/// Methods of clients whose method `begin` returns the future of an operation's answer.
macro_rules! item_operations {
    () => {
        /// The value of `key` with its version and flags, or `None` if the key does not exist.
        ///
        /// # Errors
        /// As [`get`](Self::get); also if the system does not offer it.
        pub async fn get_item(&self, key: &[u8]) -> Result<Option<Item>, CallError> {
            self.begin(&Op::GetItem { key }).await.map(Answer::item)
        }

        /// Stores `value` under `key` as `options` say, if their condition holds.
        ///
        /// # Errors
        /// As [`put`](Self::put); also if the system does not offer what they ask for.
        pub async fn put_with(
            &self,
            key: &[u8],
            value: &[u8],
            options: &PutOptions,
        ) -> Result<Effect, CallError> {
            self.begin(&options.op(key, value))
                .await
                .map(Answer::effect)
        }

        /// Removes `key` if `condition` holds.
        ///
        /// # Errors
        /// As [`delete`](Self::delete); also if the system does not offer it.
        pub async fn delete_if(&self, key: &[u8], condition: Condition) -> Result<Effect, CallError> {
            self.begin(&Op::Delete { key, condition })
                .await
                .map(Answer::effect)
        }

        /// Has `key` expire in `ttl_s` seconds (0: never). Returns whether it exists.
        ///
        /// # Errors
        /// As [`put`](Self::put); also if the system does not offer it.
        pub async fn touch(&self, key: &[u8], ttl_s: u32) -> Result<bool, CallError> {
            let touched = self.begin(&Op::Touch { key, ttl_s }).await?;
            Ok(touched.effect() == Effect::Done)
        }
    };
}

pub(crate) use item_operations;
