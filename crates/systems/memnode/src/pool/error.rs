//! Why a pool cannot be opened, and why an operation on its memory fails.

use crate::addr::Addr;
use crate::control::Verdict;
use crate::header::{HeaderError, PoolKind};
use drover_control::{ControlError, DecodeError, DialError};
use drover_rt::{ResourceError, StageError, TaskError, WcError};
use drover_verbs::{ConnectError, CreateError, ImportError, OpenError};

/// Why a pool cannot be opened or joined. Every variant names the server, as the caller named it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No address was given.
    #[error("a pool has at least one node")]
    NoNodes,
    /// The node cannot be reached.
    #[error("{server}: {error}")]
    Dial {
        /// The node.
        server: String,
        /// Why not.
        error: DialError,
    },
    /// The node did not answer in time.
    #[error("{server} did not answer in time")]
    Timeout {
        /// The node.
        server: String,
    },
    /// The node requires another secret.
    #[error("{server} requires another secret")]
    WrongSecret {
        /// The node.
        server: String,
    },
    /// The node speaks another version of the protocol.
    #[error("{server}: {reason}")]
    WrongVersion {
        /// The node.
        server: String,
        /// What it said.
        reason: String,
    },
    /// The channel to the node ended, or it refused.
    #[error("{server}: {error}")]
    Control {
        /// The node.
        server: String,
        /// Why.
        error: ControlError,
    },
    /// The node sent a malformed message.
    #[error("malformed message from {server}: {error}")]
    Message {
        /// The node.
        server: String,
        /// What is wrong.
        error: DecodeError,
    },
    /// The node's memory does not begin with a usable header.
    #[error("{server}: {error}")]
    Header {
        /// The node.
        server: String,
        /// What is wrong.
        error: HeaderError,
    },
    /// The node is part of no pool yet.
    #[error("{server} is part of no pool: create one first")]
    NoPool {
        /// The node.
        server: String,
    },
    /// The node is part of a pool already.
    #[error("{server} is part of a pool already")]
    InPool {
        /// The node.
        server: String,
    },
    /// The pool holds something else.
    #[error("{server} belongs to a pool of kind {found}, not {wanted}")]
    WrongKind {
        /// The node.
        server: String,
        /// What the pool holds.
        found: PoolKind,
        /// What was expected.
        wanted: PoolKind,
    },
    /// Two of the nodes belong to different pools.
    #[error("{server} and {other} belong to different pools")]
    OtherPool {
        /// One node.
        server: String,
        /// Another.
        other: String,
    },
    /// Two addresses lead to the same node of the pool.
    #[error("{server} and {other} are both node {index} of the pool")]
    Duplicate {
        /// One address.
        server: String,
        /// The other.
        other: String,
        /// Index of the node.
        index: u32,
    },
    /// A node of the pool is not among the addresses.
    #[error("node {index} of the pool's {count} is missing")]
    Missing {
        /// Index of the node.
        index: u32,
        /// Number of nodes of the pool.
        count: u32,
    },
    /// The node refused what it was asked.
    #[error("{server} refused: {}", text(*verdict))]
    Refused {
        /// The node.
        server: String,
        /// Why.
        verdict: Verdict,
    },
    /// The fabric cannot be opened.
    #[error("{error}")]
    Fabric {
        /// Why not.
        error: OpenError,
    },
    /// A queue or a buffer cannot be set up.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

fn text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "unexpected answer",
        Verdict::ClientsMax => "all its places for clients are in use, or wait for recovery",
        Verdict::ClientBusy => "another client has our number there",
        Verdict::NoQueuePair => "it has no queue pairs left",
        Verdict::OtherPool => "it is part of another pool",
        Verdict::NoSuchClient => "it has no such client",
    }
}

impl From<ImportError> for PoolError {
    fn from(error: ImportError) -> PoolError {
        ResourceError::from(error).into()
    }
}

impl From<ConnectError> for PoolError {
    fn from(error: ConnectError) -> PoolError {
        ResourceError::from(error).into()
    }
}

impl From<CreateError> for PoolError {
    fn from(error: CreateError) -> PoolError {
        ResourceError::from(error).into()
    }
}

/// Why an operation on a pool's memory failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The pointer leads out of the pool's memory, or to a node's tables. It was read from the pool, so a structure there
    /// is broken.
    #[error("{bytes} bytes at {addr} are not in the pool")]
    BadPointer {
        /// The pointer.
        addr: Addr,
        /// Bytes that it should lead to.
        bytes: u64,
    },
    /// The node has no memory for this, apart from the reserve.
    #[error("node {node} is full")]
    Full {
        /// Index of the node.
        node: usize,
    },
    /// This process owns as much memory of the node as it may.
    #[error("the quota of this client at node {node} is used up")]
    Quota {
        /// Index of the node.
        node: usize,
    },
    /// This process could not renew its lease at the node in time, and must not write there any more.
    #[error("the lease at node {node} has run out")]
    LeaseOver {
        /// Index of the node.
        node: usize,
    },
    /// The node is gone, or has shut this process out.
    #[error("node {node} is lost")]
    NodeLost {
        /// Index of the node.
        node: usize,
    },
    /// Several structures in a row were broken: not an accident of timing.
    #[error("the pool is corrupt: broken structures at {}, {} and {}", addrs[0], addrs[1], addrs[2])]
    Corrupt {
        /// Where they were.
        addrs: [Addr; 3],
    },
    /// A table of the node contradicts itself.
    #[error("the tables of node {node} contradict themselves: {what}")]
    Tables {
        /// Index of the node.
        node: usize,
        /// What does.
        what: &'static str,
    },
    /// A request was refused or failed.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl From<StageError> for MemoryError {
    fn from(error: StageError) -> MemoryError {
        TaskError::from(error).into()
    }
}

impl From<WcError> for MemoryError {
    fn from(error: WcError) -> MemoryError {
        TaskError::from(error).into()
    }
}

/// Counts broken structures that were found in a row: one may be torn or reused, three are corruption.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BadRun {
    addrs: [Addr; 3],
    count: usize,
}

impl BadRun {
    /// The structure at `addr` was broken.
    ///
    /// # Errors
    /// [`MemoryError::Corrupt`] if it was the third in a row.
    pub fn bad(&mut self, addr: Addr) -> Result<(), MemoryError> {
        self.addrs[self.count] = addr;
        self.count += 1;
        if self.count < self.addrs.len() {
            return Ok(());
        }
        self.count = 0;
        let addrs = self.addrs;
        let [first, second, third] = addrs;
        tracing::warn!("three broken structures of a pool in a row: {first}, {second}, {third}");
        Err(MemoryError::Corrupt { addrs })
    }

    /// A structure was whole.
    #[inline]
    pub fn good(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_are_corruption() {
        let addr = |offset| Addr::new(1, offset);
        let mut run = BadRun::default();
        assert!(run.bad(addr(1)).is_ok() && run.bad(addr(2)).is_ok());
        run.good();
        assert!(run.bad(addr(3)).is_ok() && run.bad(addr(4)).is_ok());
        let error = run.bad(addr(5)).expect_err("the third");
        assert_eq!(
            error.to_string(),
            "the pool is corrupt: broken structures at 1:0:0x3, 1:0:0x4 and 1:0:0x5"
        );
        assert!(run.bad(addr(6)).is_ok(), "it begins again");
    }
}
