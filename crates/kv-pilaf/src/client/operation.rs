//! [`Operation`]: one operation from `submit` to its outcome.

use crate::logic::Lookup;
use drover_base::{KeyHash, Ns};
use drover_kv::{OpKind, Token};

/// What it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// Nothing: the place is free.
    #[default]
    Free,
    /// A session, or an earlier operation on its key, or a buffer for its large value.
    Waiting,
    /// An entry, by READ.
    Entry,
    /// A record, by READ; into a large buffer, if one is named. `told`: the server named it, so the key is not in doubt.
    Record { large: Option<u8>, told: bool },
    /// Time: what was read was torn.
    Resting { until: Ns },
    /// A reply; a large buffer holds the value meanwhile.
    Reply { large: Option<u8> },
    /// Its outcome is known; the completion of its SEND is missing.
    Sending,
}

/// A place for an operation. Its index is its slot in messages and buffers.
#[derive(Default)]
pub(super) struct Operation {
    pub(super) state: State,
    pub(super) token: Token,
    pub(super) kind: Option<OpKind>,
    pub(super) hash: KeyHash,
    pub(super) shard: usize,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) ttl_s: u32,
    /// Of submission: earlier operations on a key go first.
    pub(super) order: u64,
    /// Of its request, so that a reply to an older one of this place is not taken for its own.
    pub(super) sequence: u64,
    pub(super) deadline: Ns,
    pub(super) lookup: Option<Lookup>,
    /// Its SEND has not completed.
    pub(super) sending: bool,
}

impl Operation {
    pub(super) fn is_update(&self) -> bool {
        self.kind != Some(OpKind::Get)
    }

    /// It has no outcome yet.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Free | State::Sending)
    }
}
