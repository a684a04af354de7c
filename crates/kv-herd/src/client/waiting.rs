//! [`Waiting`]: operations that are accepted and not on their way: there is no session yet, an earlier
//! operation on the same key is under way, or the server asked to see them again.

use drover_base::{KeyHash, Ns};
use drover_kv::{Op, OpKind, Token};

/// An operation with its own copy of key and value.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    pub(super) hash: KeyHash,
    pub(super) kind: OpKind,
    pub(super) key: Box<[u8]>,
    pub(super) value: Vec<u8>,
    pub(super) ttl_s: u32,
    pub(super) submitted: Ns,
    /// Not to be sent earlier.
    pub(super) not_before: Ns,
}

impl Waiting {
    pub(super) fn new(op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Waiting {
        let (value, ttl_s) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            Op::Get { .. } | Op::Delete { .. } => (&[][..], 0),
        };
        Waiting {
            token,
            hash,
            kind: op.kind(),
            key: op.key().into(),
            value: value.to_vec(),
            ttl_s,
            submitted: now,
            not_before: now,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        self.kind != OpKind::Get
    }

    /// Whether it has to wait for an operation on `hash` that is a `write` or not.
    pub(super) fn conflicts_with(&self, hash: KeyHash, write: bool) -> bool {
        self.hash == hash && (write || self.is_write())
    }

    pub(super) fn as_op(&self) -> Op<'_> {
        let key = &*self.key;
        match self.kind {
            OpKind::Get => Op::Get { key },
            OpKind::Put => Op::Put {
                key,
                value: &self.value,
                ttl_s: self.ttl_s,
            },
            OpKind::Delete => Op::Delete { key },
        }
    }
}
