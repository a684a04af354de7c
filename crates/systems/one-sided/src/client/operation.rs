//! [`Operation`]: one operation from `submit` to its outcome.

use super::execution::Execution;
use drover_base::{KeyHash, Ns};
use drover_kv::{Extension, Op, OpKind, Token};

/// A place for one operation. Its index is its slot in messages and buffers. Only [`Operations`](super::Operations)
/// changes it.
pub(super) struct Operation<W, O> {
    pub(super) submitted: Submitted,
    pub(super) execution: Execution<W>,
    /// The system's state of the operation.
    pub(super) own: O,
}

/// What was submitted, and which shard it concerns.
pub(super) struct Submitted {
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
    /// Whether it is a GET that asks for version and flags.
    pub(super) is_detailed: bool,
    /// Flags and condition of an update, if it has some.
    pub(super) extension: Option<Extension>,
    /// Time at which the operation fails.
    pub(super) deadline: Ns,
}

impl Submitted {
    /// Replaces the last operation of this place by `op`.
    #[inline(always)]
    pub(super) fn replace(&mut self, op: &Op<'_>, token: Token, deadline: Ns) {
        self.value.clear();
        let (key, ttl_s, extension) = match *op {
            Op::Get { key } | Op::GetItem { key } => (key, 0, None),
            Op::Put {
                key, value, ttl_s, ..
            } => {
                self.value.extend_from_slice(value);
                (key, ttl_s, op.extension())
            }
            Op::Delete { key, .. } => (key, 0, op.extension()),
            Op::Touch { key, ttl_s } => (key, ttl_s, None),
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.kind, self.token, self.ttl_s) = (op.kind(), token, ttl_s);
        (self.is_detailed, self.extension) = (op.is_detailed(), extension);
        self.deadline = deadline;
    }

    /// Whether the operation is an update.
    #[inline]
    pub(super) fn is_update(&self) -> bool {
        self.kind != OpKind::Get
    }
}

impl<W, O: Default> Default for Operation<W, O> {
    fn default() -> Operation<W, O> {
        let submitted = Submitted {
            token: 0,
            kind: OpKind::Get,
            hash: KeyHash::default(),
            shard: 0,
            key: Vec::new(),
            value: Vec::new(),
            ttl_s: 0,
            is_detailed: false,
            extension: None,
            deadline: Ns::ZERO,
        };
        Operation {
            submitted,
            execution: Execution::default(),
            own: O::default(),
        }
    }
}
