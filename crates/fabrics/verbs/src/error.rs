//! Errors of the verbs API: one enum per family of operations, named after what failed.

use crate::QpKind;
use drover_mem::AllocError;

/// A device, or a context of it, could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The fabric cannot be used on this machine, or not as the options ask.
    #[error("{fabric} is not available: {reason}")]
    Unavailable {
        /// Name of the provider.
        fabric: &'static str,
        /// Cause and remedy.
        reason: String,
    },
    /// A call to the system or to the device's library failed.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call that failed.
        what: &'static str,
        /// Error that the call returned.
        source: std::io::Error,
    },
    /// The system does not provide the memory that a context needs.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// A region could not be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Remote write or atomics were requested without local write.
    #[error("remote write and atomics need local write")]
    InconsistentAccess,
    /// This fabric cannot register such memory: for example a read-only mapping for writing, or private memory that
    /// peers should access over shared memory.
    #[error("this memory cannot be registered: {reason}")]
    Unsuitable {
        /// Why the memory is unsuitable.
        reason: &'static str,
    },
    /// The table of registered regions is full.
    #[error("no more than {limit} regions can be registered")]
    TooMany {
        /// Most regions that can be registered at once.
        limit: usize,
    },
    /// Memory on the card was asked for, of which this fabric has none.
    #[error("{fabric} offers no memory on the card (device_memory_bytes is 0)")]
    NoDeviceMemory {
        /// Name of the provider.
        fabric: &'static str,
    },
    /// More memory on the card was asked for than is free.
    #[error("{asked} bytes of memory on the card requested, {free} are free")]
    DeviceMemoryTaken {
        /// Requested length in bytes.
        asked: usize,
        /// Bytes that could be had, as far as known.
        free: usize,
    },
    /// The system or the device refused the registration.
    #[error("registering {bytes} bytes failed: {source}")]
    System {
        /// Length of the region in bytes.
        bytes: usize,
        /// Error that the registration returned.
        source: std::io::Error,
    },
}

/// A queue pair, completion queue or similar object could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The fabric lacks this feature, see [`Caps`](crate::Caps).
    #[error("{what} is not supported by {fabric}")]
    NotSupported {
        /// Name of the missing feature.
        what: &'static str,
        /// Name of the provider.
        fabric: &'static str,
    },
    /// A requested depth or length exceeds a limit of the device.
    #[error("{what} of {asked} requested, at most {limit} supported")]
    Limit {
        /// Name of the queue or payload that is too large.
        what: &'static str,
        /// Requested depth or length.
        asked: usize,
        /// Largest depth or length supported.
        limit: usize,
    },
    /// A call to the system or to the device's library failed.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call that failed.
        what: &'static str,
        /// Error that the call returned.
        source: std::io::Error,
    },
    /// The system does not provide the memory that the object needs.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// An export could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The export is of another provider or version, names another kind of object, is damaged, or is already in use
    /// where an export serves only one peer.
    #[error("malformed export: {reason}")]
    Malformed {
        /// What is wrong with the export.
        reason: &'static str,
    },
    /// The settings of the two ends do not fit: for example, packets of one are too long for the other.
    #[error("the two ends are incompatible: {reason}")]
    Incompatible {
        /// Difference, consequence and remedy.
        reason: String,
    },
    /// The object that the export names no longer exists, or its process is gone.
    #[error("the peer that exported this is gone")]
    PeerGone,
    /// The exported memory cannot be mapped.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A call to the system or to the device's library failed, or the context's table of imports is full.
    #[error("{what} failed: {source}")]
    System {
        /// Name of the call that failed, or `import` for a full table.
        what: &'static str,
        /// Error that the call returned, or a description of the full table.
        source: std::io::Error,
    },
}

/// A queue pair could not be connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The queue pair is already connected or has failed, or is a UD one, which uses address handles instead of
    /// connections.
    #[error("a {kind:?} queue pair in state {state:?} cannot be connected")]
    WrongState {
        /// Kind of the queue pair.
        kind: QpKind,
        /// State of the queue pair at the call.
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
    /// The peer's export cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// A list was not posted completely. The first `accepted` requests are posted; the rest are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {accepted} of the list was refused: {kind}")]
pub struct PostError {
    /// Number of requests posted, from the front of the list.
    pub accepted: usize,
    /// Reason for refusing the request with index `accepted`.
    pub kind: PostErrorKind,
}

/// Reason for refusing a request at posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostErrorKind {
    /// The send or receive queue is full: poll completions first. Unsignaled requests keep their places until the
    /// completion of a later request is polled.
    #[error("queue full")]
    QueueFull,
    /// The queue pair is not connected yet. (A failed one accepts requests and flushes them.)
    #[error("the queue pair is not ready to send")]
    NotReady,
    /// The inline payload is longer than the queue pair's [`inline_bytes`](crate::QpOptions::inline_bytes).
    #[error("inline payload too long")]
    InlineTooLong,
    /// The payload is longer than a message, or a datagram, may be, or has too many pieces.
    #[error("message too long")]
    MessageTooLong,
    /// This kind of queue pair has no such verb (for example READ over UC), or the fabric or device lacks it; or the
    /// payload of a READ or atomic is inline; or a RECV was posted to a queue pair with a shared receive queue.
    #[error("verb not supported by this queue pair")]
    NotSupported,
    /// The fabric has no masked CAS: [`Support::masked_atomics`](crate::Support::masked_atomics).
    #[error("masked atomics are not supported by this fabric")]
    NoMaskedAtomics,
    /// A local key, offset or length refers to no registered memory, or the right is missing; or the result of an
    /// atomic is not 8 bytes long. Some fabrics report it only in the completion.
    #[error("local memory not registered for this")]
    LocalProtection,
    /// A SEND over UD has no address handle or an unknown one, or a SEND over RC or UC has one.
    #[error("no such address handle")]
    BadAddress,
}
