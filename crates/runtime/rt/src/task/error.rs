//! Errors of tasks: why a request was not staged, and why it failed later.

use super::requests::Ticket;
use drover_verbs::{PostErrorKind, WcStatus};

/// A request was refused at the call; nothing was staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// All buffers that are long enough are in use.
    #[error("all buffers of {bytes} bytes or more are in use")]
    NoBuffer {
        /// Length asked for.
        bytes: usize,
    },
    /// The bytes fit in no buffer, or in no message of the fabric.
    #[error("{bytes} bytes are too long: at most {limit}")]
    TooLong {
        /// Length asked for.
        bytes: usize,
        /// Longest length possible.
        limit: usize,
    },
    /// [`TaskOptions::atomic_count_max`](super::TaskOptions::atomic_count_max) results of atomics are in use.
    #[error("all words for results of atomics are in use")]
    NoWord,
    /// A request of zero bytes.
    #[error("a request of zero bytes")]
    ZeroLength,
    /// An atomic whose word is not aligned to 8 bytes.
    #[error("an atomic at offset {offset}, which is not a multiple of 8")]
    Unaligned {
        /// Offset asked for.
        offset: u64,
    },
    /// The bytes leave a region that the pool [knows](super::TaskPool::add_region).
    #[error("{bytes} bytes at offset {offset} leave a region of {region_bytes}")]
    OutOfRange {
        /// Offset asked for.
        offset: u64,
        /// Length asked for.
        bytes: u64,
        /// Length of the region.
        region_bytes: u64,
    },
    /// The destination's kind of queue pair, or the fabric, has no such operation.
    #[error("{what} is not supported by this destination")]
    NotSupported {
        /// The operation.
        what: &'static str,
    },
}

/// Reason for the failure of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The request was posted and completed with this status. [`WcStatus::Flushed`] also if its queue pair was
    /// [replaced](super::TaskPool::replace_peer).
    #[error("completed with {0:?}")]
    Completed(WcStatus),
    /// The queue pair refused to post the request.
    #[error("not posted: {0}")]
    Refused(PostErrorKind),
    /// The request did not end within [`TaskOptions::patience`](super::TaskOptions::patience). It may still be
    /// executed.
    #[error("did not end in time")]
    TimedOut,
}

/// The first failed request of a task's sync, in the order of staging. The other requests have ended, too, except when
/// one timed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {} failed: {failure}", .ticket.slot)]
pub struct WcError {
    /// Ticket of the failed request.
    pub ticket: Ticket,
    /// Reason for the failure.
    pub failure: Failure,
}

/// Either error, for operations that use `?` on both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A request was refused at the call.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] WcError),
    /// No message can arrive any more.
    #[error(transparent)]
    Receive(#[from] Failure),
}
