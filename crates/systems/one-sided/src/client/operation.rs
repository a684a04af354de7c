//! [`Operation`]: one operation from `submit` to its outcome.

use drover_base::{KeyHash, Ns};
use drover_kv::{OpKind, Token};

/// What an operation waits for. `W` is what only its system knows: READs.
///
/// ```text
/// Free -> Waiting -> Reading -> ... -> Sending, if its request has not completed -> Free
///            |        | ^  ^ '-> Backoff (torn) -> Reading
///            |        | |  '---> WaitBuffer (long) -> Reading
///            |        v '- the server said where
///            |      Asking -> Reply
///            '-> Reply (updates)
/// ```
/// Whatever it waits for, a lost session leads back to Waiting, or to the outcome of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State<W> {
    /// Nothing: the place is free.
    #[default]
    Free,
    /// A session, an earlier operation on its key, space for its request, or a buffer for its long value.
    Waiting,
    /// Something by READ.
    Reading(W),
    /// A buffer for something long, whose place is known, to READ it.
    WaitBuffer(W),
    /// Time: what was read was torn.
    Backoff {
        /// Then it begins again.
        until: Ns,
    },
    /// To ask: for space for the question; and, because the value is long, for a buffer.
    Asking {
        /// The server has said so.
        is_long: bool,
    },
    /// A reply.
    Reply,
    /// Its outcome is known; the completion of its request is missing.
    Sending,
}

/// A place for an operation. Its index is its slot in messages and buffers. [`Operations`](super::Operations) alone changes it.
pub(super) struct Operation<W, O> {
    pub(super) state: State<W>,
    /// What the operation is to its submitter.
    pub(super) token: Token,
    pub(super) kind: OpKind,
    /// Of its key.
    pub(super) hash: KeyHash,
    /// Where its key is.
    pub(super) shard: usize,
    pub(super) key: Vec<u8>,
    /// What is to be stored.
    pub(super) value: Vec<u8>,
    /// Seconds; 0 = for ever.
    pub(super) ttl_s: u32,
    /// Of its request, so that a reply to an older one of this place is not taken for its own.
    pub(super) sequence: u64,
    /// When its time is over.
    pub(super) deadline: Ns,
    /// Its request has not completed.
    pub(super) sending: bool,
    /// The buffer for a long value that it holds.
    pub(super) large: Option<u8>,
    /// What is the system's own.
    pub(super) own: O,
}

impl<W, O: Default> Default for Operation<W, O> {
    fn default() -> Operation<W, O> {
        Operation {
            state: State::Free,
            token: 0,
            kind: OpKind::Get,
            hash: KeyHash::default(),
            shard: 0,
            key: Vec::new(),
            value: Vec::new(),
            ttl_s: 0,
            sequence: 0,
            deadline: Ns::ZERO,
            sending: false,
            large: None,
            own: O::default(),
        }
    }
}

impl<W, O> Operation<W, O> {
    /// PUT or DELETE.
    pub(super) fn is_update(&self) -> bool {
        self.kind != OpKind::Get
    }

    /// It has no outcome yet.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Free | State::Sending)
    }

    /// It has nothing under way that may still arrive.
    pub(super) fn is_idle(&self) -> bool {
        matches!(
            self.state,
            State::Waiting | State::WaitBuffer(_) | State::Backoff { .. } | State::Asking { .. }
        )
    }
}
