//! Errors of the verbs API: one enum per family of operations, named after what failed.

use crate::QpKind;
use drover_mem::AllocError;

/// A device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The fabric does not exist on this machine.
    #[error("{fabric} is not available: {reason}")]
    Unavailable {
        /// The provider's name.
        fabric: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// A region could not be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Remote write or atomics asked without local write.
    #[error("remote write and atomics need local write")]
    InconsistentAccess,
    /// This memory cannot be registered with this fabric (private memory on shared memory, say).
    #[error("this memory cannot be registered: {reason}")]
    Unsuitable {
        /// Why.
        reason: &'static str,
    },
    /// The device's table of regions is full.
    #[error("no more than {limit} regions can be registered")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The system refused.
    #[error("registering {bytes} bytes failed: {source}")]
    System {
        /// Length of the region.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A queue pair, completion queue or the like could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Not in [`Caps`](crate::Caps).
    #[error("{what} is not supported by {fabric}")]
    NotSupported {
        /// What was asked for.
        what: &'static str,
        /// The provider's name.
        fabric: &'static str,
    },
    /// Deeper, longer or more than the device offers.
    #[error("{what} of {asked} asked, at most {limit} offered")]
    Limit {
        /// Which number.
        what: &'static str,
        /// The number asked for.
        asked: usize,
        /// The limit.
        limit: usize,
    },
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// An export could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Not an export of this provider, or damaged, or of another version.
    #[error("malformed export: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The two ends do not fit: packets of one are too long for the other, say.
    #[error("the two ends do not fit: {reason}")]
    Incompatible {
        /// What differs, what would come of it, and what to do.
        reason: String,
    },
    /// The peer has gone.
    #[error("the peer that exported this is gone")]
    PeerGone,
    /// Mapping failed.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A queue pair could not be connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// UD queue pairs have address handles, not connections; a connected one stays connected.
    #[error("a {kind:?} queue pair in state {state:?} cannot be connected")]
    WrongState {
        /// Its kind.
        kind: QpKind,
        /// Its state.
        state: crate::QpState,
    },
    /// The two ends are of different kinds.
    #[error("this end is {ours:?}, the other {theirs:?}")]
    KindMismatch {
        /// Our kind.
        ours: QpKind,
        /// The peer's.
        theirs: QpKind,
    },
    /// The export cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Why a list was not (wholly) posted. The first `accepted` requests are posted; the rest are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {accepted} of the list was refused: {kind}")]
pub struct PostError {
    /// How many requests at the front of the list were accepted.
    pub accepted: usize,
    /// Why the next one was not.
    pub kind: PostErrorKind,
}

/// Why a request was refused at posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostErrorKind {
    /// The queue is full: poll completions first.
    #[error("queue full")]
    QueueFull,
    /// The queue pair is not connected (or, for RECVs, was reset).
    #[error("the queue pair is not ready to send")]
    NotReady,
    /// Inline payload longer than the queue pair allows.
    #[error("inline payload too long")]
    InlineTooLong,
    /// Longer than a message, or than a datagram, may be.
    #[error("message too long")]
    MessageTooLong,
    /// This kind of queue pair has no such verb (READ over UC, say), or the fabric lacks it.
    #[error("verb not supported by this queue pair")]
    NotSupported,
    /// A local key, address or length that names no registered memory, or without the right needed.
    #[error("local memory not registered for this")]
    LocalProtection,
    /// No such address handle.
    #[error("no such address handle")]
    BadAddress,
}
