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
    /// A session, an earlier operation on its key, room in the ring, or a buffer for its large value.
    Waiting,
    /// Slots, by READ.
    Slots,
    /// The count of moves, by READ.
    Moves,
    /// An object, by READ; into a large buffer, if one is named.
    Object { large: Option<u8> },
    /// Time: what was read was torn.
    Resting { until: Ns },
    /// To ask: for room in the ring; and, because the value is long, for a large buffer.
    Asking { is_long: bool },
    /// A reply; a large buffer holds the value meanwhile, or waits for it.
    Reply { large: Option<u8> },
    /// Its outcome is known; the completion of its WRITE is missing.
    Sending,
}

/// A place for an operation. Its index is its slot in the mailbox and in buffers.
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
    /// When its READ was staged.
    pub(super) read_at: Ns,
    /// Its WRITE into the ring has not completed; the ring's tail behind it.
    pub(super) sending: bool,
    pub(super) tail: u64,
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
