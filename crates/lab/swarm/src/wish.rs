//! [`Wish`]: an operation that a client is to submit, and what it demands of the key's item.

use crate::load::Conditions;
use crate::record::Entry;
use drover_base::Condition;
use drover_kv::OpKind;
use drover_sim::Stream;
use drover_testkit::history::{Call, Swapped};
use std::collections::BTreeMap;

/// An operation to submit.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub kind: OpKind,
    /// Number of the key.
    pub key: u64,
    /// PUT: length of the value, bytes.
    pub value_len: usize,
    /// PUT: time to live, seconds; 0: none.
    pub ttl_s: u32,
    pub demand: Demand,
}

/// Condition under which an update is to happen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Demand {
    /// None.
    #[default]
    Nothing,
    /// The key has no item; PUTs only.
    Absent,
    /// The key has an item; PUTs only.
    Present,
    /// The key's item is the one that the client has read last.
    Unchanged(Seen),
}

/// An item that a client has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its version.
    pub version: u64,
    /// Identity of its value: the token of the operation that wrote it.
    pub value: u64,
}

impl Demand {
    /// Draws the demand of an update of the kind `kind`; `seen`: the item that the client has read last.
    pub fn draw(conditions: Conditions, dice: &Stream, kind: OpKind, seen: Option<Seen>) -> Demand {
        if conditions.percent == 0 || dice.below(100) >= conditions.percent {
            return Demand::Nothing;
        }
        let seen = seen.filter(|_| conditions.versions).map(Demand::Unchanged);
        match (kind, dice.below(4)) {
            (OpKind::Put, 0) => Demand::Absent,
            (OpKind::Put, 1) => Demand::Present,
            (OpKind::Put, _) => seen.unwrap_or(Demand::Present),
            (OpKind::Delete, _) => seen.unwrap_or_default(),
            _ => Demand::Nothing,
        }
    }

    /// The condition of the operation.
    pub fn condition(self) -> Condition {
        match self {
            Demand::Nothing => Condition::Always,
            Demand::Absent => Condition::IfAbsent,
            Demand::Present => Condition::IfPresent,
            Demand::Unchanged(seen) => Condition::IfVersion(seen.version),
        }
    }

    /// The PUT that writes the value `token`, as the checks see it. Its reply is filled in later.
    pub fn put(self, token: u64) -> Call {
        let (to, done) = (token, false);
        match self {
            Demand::Nothing => Call::Put(token),
            Demand::Absent => Call::Insert { to, done },
            Demand::Present => Call::Replace { to, done },
            Demand::Unchanged(seen) => Call::Swap {
                from: seen.value,
                to,
                said: Swapped::Missing,
            },
        }
    }

    /// The DELETE, as the checks see it.
    pub fn delete(self) -> Call {
        match self {
            Demand::Unchanged(seen) => Call::Remove {
                from: seen.value,
                said: Swapped::Missing,
            },
            _ => Call::Delete(None),
        }
    }
}

/// The items that a client has read last, by key.
#[derive(Debug, Default)]
pub struct SeenItems(BTreeMap<u64, Seen>);

impl SeenItems {
    /// The item that the client has read last at this key.
    pub fn at(&self, key: u64) -> Option<Seen> {
        self.0.get(&key).copied()
    }

    /// Takes notice of a GET that has ended as `entry` says, and returned an item of this version.
    pub fn learn(&mut self, entry: &Entry, version: u64) {
        if let Call::Get(Some(value)) = entry.call {
            self.0.insert(entry.key, Seen { version, value });
        }
    }
}
