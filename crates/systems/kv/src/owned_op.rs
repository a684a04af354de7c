//! [`OwnedOp`]: an operation with its own copy of key and value.

use crate::{Op, OpKind};

/// An [`Op`] that owns its key and value, so that it can wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedOp {
    kind: OpKind,
    key: Vec<u8>,
    value: Vec<u8>,
    ttl_s: u32,
}

impl OwnedOp {
    /// Copies `op`.
    pub fn new(op: &Op<'_>) -> OwnedOp {
        let mut owned = OwnedOp {
            kind: op.kind(),
            key: Vec::new(),
            value: Vec::new(),
            ttl_s: 0,
        };
        owned.replace(op);
        owned
    }

    /// Replaces this operation by a copy of `op`, in the same memory if that is large enough.
    pub fn replace(&mut self, op: &Op<'_>) {
        let (value, ttl_s) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            Op::Get { .. } | Op::Delete { .. } => (&[][..], 0),
        };
        self.kind = op.kind();
        self.key.clear();
        self.key.extend_from_slice(op.key());
        self.value.clear();
        self.value.extend_from_slice(value);
        self.ttl_s = ttl_s;
    }

    /// Borrows it as an [`Op`].
    pub fn as_op(&self) -> Op<'_> {
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

    /// The kind of the operation.
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of a PUT; empty for other operations.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Time to live of a PUT, seconds; 0: unlimited, and for other operations.
    pub fn ttl_s(&self) -> u32 {
        self.ttl_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_operation_and_leaves_nothing_of_an_earlier_one() {
        let ops = [
            Op::Put {
                key: b"a longer key",
                value: b"a value",
                ttl_s: 7,
            },
            Op::Get { key: b"key" },
            Op::Delete { key: b"k" },
            Op::Put {
                key: b"key",
                value: b"",
                ttl_s: 0,
            },
        ];
        let mut owned = OwnedOp::new(&ops[0]);
        for op in ops {
            owned.replace(&op);
            assert_eq!(owned.as_op(), op);
            assert_eq!(OwnedOp::new(&op), owned);
            assert_eq!((owned.kind(), owned.key()), (op.kind(), op.key()));
        }
        assert_eq!((owned.value(), owned.ttl_s()), (&b""[..], 0));
    }
}
