//! [`Operation`]: one operation from `submit` to its outcome.

use drover_base::{KeyHash, Ns};
use drover_kv::{OpKind, Token};

/// What an operation waits for. `W` is a READ of the system.
///
/// ```text
/// Free -> Waiting -> Reading -> ... -> Sending, if its request has not completed -> Free
///            |        | ^  ^ '-> Backoff (torn) -> Reading
///            |        | |  '---> WaitBuffer (long) -> Reading
///            |        v '- the server named the record
///            |      Asking -> Reply
///            '-> Reply (updates)
/// ```
/// When its session is lost, an operation in any state returns to Waiting; an update that was sent ends as
/// indeterminate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State<W> {
    /// The place is free.
    #[default]
    Free,
    /// A session, an earlier operation on its key, space for its request, or a buffer for its long value.
    Waiting,
    /// A READ.
    Reading(W),
    /// A buffer for a long record or object, whose remote address is known.
    WaitBuffer(W),
    /// A pause after a torn READ.
    Backoff {
        /// End of the pause.
        until: Ns,
    },
    /// The request to the server is not sent yet: it waits for space, and for a buffer if the value is long.
    Asking {
        /// Whether the value needs a buffer for long values.
        is_long: bool,
    },
    /// The server's reply.
    Reply,
    /// The outcome was reported; the request has not completed yet.
    Sending,
}

/// A place for one operation. Its index is its slot in messages and buffers. Only [`Operations`](super::Operations)
/// changes it.
pub(super) struct Operation<W, O> {
    pub(super) state: State<W>,
    /// The submitter's number for the operation.
    pub(super) token: Token,
    pub(super) kind: OpKind,
    /// Hash of the key.
    pub(super) hash: KeyHash,
    /// Index of the shard that owns the key.
    pub(super) shard: usize,
    pub(super) key: Vec<u8>,
    /// The value to store (PUT).
    pub(super) value: Vec<u8>,
    /// Time to live in seconds; 0 = for ever.
    pub(super) ttl_s: u32,
    /// Sequence number of the request, which distinguishes its reply from replies to earlier requests of this place.
    pub(super) sequence: u64,
    /// Time at which the operation fails.
    pub(super) deadline: Ns,
    /// Whether the request has been posted and not completed.
    pub(super) sending: bool,
    /// The borrowed buffer for a long value.
    pub(super) large: Option<u8>,
    /// The system's state of the operation.
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
    /// Whether the operation is a PUT or DELETE.
    pub(super) fn is_update(&self) -> bool {
        self.kind != OpKind::Get
    }

    /// Whether the operation has no outcome yet.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Free | State::Sending)
    }

    /// Whether nothing is in flight whose result may still arrive.
    pub(super) fn is_idle(&self) -> bool {
        matches!(
            self.state,
            State::Waiting | State::WaitBuffer(_) | State::Backoff { .. } | State::Asking { .. }
        )
    }
}
