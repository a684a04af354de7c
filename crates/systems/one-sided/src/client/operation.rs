//! [`Operation`]: one operation from `submit` to its outcome.

use super::execution::Execution;
use drover_base::{KeyHash, Ns};
use drover_kv::{Op, OpKind, Token};

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
    /// Time at which the operation fails.
    pub(super) deadline: Ns,
}

impl Submitted {
    /// Replaces the last operation of this place by `op`.
    #[inline]
    pub(super) fn replace(&mut self, op: &Op<'_>, token: Token, deadline: Ns) {
        let (value, ttl_s): (&[u8], u32) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            _ => (&[], 0),
        };
        self.key.clear();
        self.key.extend_from_slice(op.key());
        self.value.clear();
        self.value.extend_from_slice(value);
        (self.kind, self.token, self.ttl_s) = (op.kind(), token, ttl_s);
        self.deadline = deadline;
    }

    /// Whether the operation is a PUT or DELETE.
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
            deadline: Ns::ZERO,
        };
        Operation {
            submitted,
            execution: Execution::default(),
            own: O::default(),
        }
    }
}
