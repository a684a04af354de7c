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
        /// Name of the provider.
        fabric: &'static str,
        /// Cause and remedy.
        reason: String,
    },
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call.
        what: &'static str,
        /// Error of the system call.
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
    /// Remote write or atomics requested without local write.
    #[error("remote write and atomics need local write")]
    InconsistentAccess,
    /// This fabric cannot register such memory (for example private memory over shared memory).
    #[error("this memory cannot be registered: {reason}")]
    Unsuitable {
        /// Cause.
        reason: &'static str,
    },
    /// The device's table of regions is full.
    #[error("no more than {limit} regions can be registered")]
    TooMany {
        /// Most regions of a device.
        limit: usize,
    },
    /// The system refused the registration.
    #[error("registering {bytes} bytes failed: {source}")]
    System {
        /// Length of the region.
        bytes: usize,
        /// Error of the system call.
        source: std::io::Error,
    },
}

/// A queue pair, completion queue or similar object could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The fabric lacks this, see [`Caps`](crate::Caps).
    #[error("{what} is not supported by {fabric}")]
    NotSupported {
        /// Requested feature.
        what: &'static str,
        /// Name of the provider.
        fabric: &'static str,
    },
    /// A number exceeds the limit of the device.
    #[error("{what} of {asked} requested, at most {limit} supported")]
    Limit {
        /// Name of the number.
        what: &'static str,
        /// Requested number.
        asked: usize,
        /// Limit of the device.
        limit: usize,
    },
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call.
        what: &'static str,
        /// Error of the system call.
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
    /// The bytes are not an export of this provider, or damaged, or of another version.
    #[error("malformed export: {reason}")]
    Malformed {
        /// Fault found.
        reason: &'static str,
    },
    /// The two ends are incompatible: for example, packets of one are too long for the other.
    #[error("the two ends are incompatible: {reason}")]
    Incompatible {
        /// Difference, consequence and remedy.
        reason: String,
    },
    /// The peer is gone.
    #[error("the peer that exported this is gone")]
    PeerGone,
    /// Mapping failed.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call.
        what: &'static str,
        /// Error of the system call.
        source: std::io::Error,
    },
}

/// A queue pair could not be connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// UD queue pairs use address handles instead of connections; a queue pair can be connected only once.
    #[error("a {kind:?} queue pair in state {state:?} cannot be connected")]
    WrongState {
        /// Kind of the queue pair.
        kind: QpKind,
        /// State of the queue pair.
        state: crate::QpState,
    },
    /// The two ends are of different kinds.
    #[error("this end is {ours:?}, the other {theirs:?}")]
    KindMismatch {
        /// Kind of our queue pair.
        ours: QpKind,
        /// Kind of the peer's queue pair.
        theirs: QpKind,
    },
    /// The export cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// A list was not posted completely. The first `accepted` requests are posted; the rest are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {accepted} of the list was refused: {kind}")]
pub struct PostError {
    /// Number of requests posted, from the front of the list.
    pub accepted: usize,
    /// Reason for refusing the next request.
    pub kind: PostErrorKind,
}

/// Reason for refusing a request at posting.
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
    /// The payload is longer than a message, or a datagram, may be.
    #[error("message too long")]
    MessageTooLong,
    /// This kind of queue pair has no such verb (for example READ over UC), or the fabric lacks it.
    #[error("verb not supported by this queue pair")]
    NotSupported,
    /// A local key, offset or length refers to no registered memory, or the right is missing.
    #[error("local memory not registered for this")]
    LocalProtection,
    /// Unknown address handle.
    #[error("no such address handle")]
    BadAddress,
}
