//! [`OwnedOp`]: an operation with its own copy of key and value.

use crate::{Extension, Op, OpKind};

/// An [`Op`] that owns its key and value, so that it can wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedOp {
    kind: OpKind,
    is_detailed: bool,
    ttl_s: u32,
    extension: Extension,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OwnedOp {
    /// Copies `op`.
    pub fn new(op: &Op<'_>) -> OwnedOp {
        let mut owned = OwnedOp {
            kind: op.kind(),
            is_detailed: false,
            ttl_s: 0,
            extension: Extension::default(),
            key: Vec::new(),
            value: Vec::new(),
        };
        owned.replace(op);
        owned
    }

    /// Replaces this operation by a copy of `op`, in the same memory if that is large enough.
    #[inline]
    pub fn replace(&mut self, op: &Op<'_>) {
        self.kind = op.kind();
        self.is_detailed = op.is_detailed();
        self.ttl_s = op.ttl_s();
        self.extension = op.extension().unwrap_or_default();
        self.key.clear();
        self.key.extend_from_slice(op.key());
        self.value.clear();
        self.value.extend_from_slice(op.value());
    }

    /// Borrows it as an [`Op`].
    pub fn as_op(&self) -> Op<'_> {
        let (key, ttl_s) = (&*self.key, self.ttl_s);
        let Extension {
            flags,
            condition,
            keep,
        } = self.extension;
        match self.kind {
            OpKind::Get if self.is_detailed => Op::GetItem { key },
            OpKind::Get => Op::Get { key },
            OpKind::Put => Op::Put {
                key,
                value: &self.value,
                ttl_s,
                flags,
                condition,
                keep,
            },
            OpKind::Delete => Op::Delete { key, condition },
            OpKind::Touch => Op::Touch { key, ttl_s },
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

    /// Time to live of a PUT or touch, seconds; 0: unlimited, and for other operations.
    pub fn ttl_s(&self) -> u32 {
        self.ttl_s
    }

    /// Whether it is a GET that asks for version and flags.
    pub fn is_detailed(&self) -> bool {
        self.is_detailed
    }

    /// What an update says beyond key, value and time to live.
    pub fn extension(&self) -> Extension {
        self.extension
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Condition;

    #[test]
    fn a_copy_is_the_operation_and_leaves_nothing_of_an_earlier_one() {
        let ops = [
            Op::Put {
                key: b"a longer key",
                value: b"a value",
                ttl_s: 7,
                flags: 8,
                condition: Condition::IfVersion(9),
                keep: true,
            },
            Op::Get { key: b"key" },
            Op::GetItem { key: b"key" },
            Op::delete(b"k"),
            Op::Delete {
                key: b"k",
                condition: Condition::IfVersion(3),
            },
            Op::Touch {
                key: b"key",
                ttl_s: 9,
            },
            Op::put(b"key", b""),
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
