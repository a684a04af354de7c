//! Why a server has no session with a client.

use drover_control::DecodeError;
use drover_mem::AllocError;
use drover_rt::ResourceError;
use drover_verbs::{ConnectError, CreateError, ImportError, PostError, RegisterError, WcStatus};

/// Why a server refuses a client or ends its session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Memory could not be allocated.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A queue could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Work requests could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The queue pair could not be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client's memory could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Buffers or queues of a connection could not be set up.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The client sent a malformed message.
    #[error(transparent)]
    Message(#[from] DecodeError),
    /// The client sent a message that is not allowed in this state.
    #[error("message out of order")]
    OutOfOrder,
    /// The client sent a request that no correct client sends.
    #[error("malformed request")]
    Nonsense,
    /// The client's queue pair failed.
    #[error("the queue pair failed: {status:?}")]
    Failed {
        /// Status of the failed work request.
        status: WcStatus,
    },
}
