//! [`ResourceError`]: why queues and memory for a connection could not be set up.

use drover_mem::AllocError;
use drover_verbs::{ConnectError, CreateError, ImportError, OpenError, PostError, RegisterError};

/// Errors of setting up queues and memory for a connection.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// Memory cannot be allocated, or there is no descriptor for it.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The device has no protection domain left for the connection.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Memory cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A queue cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A region or queue pair that the peer exported cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A queue pair cannot be connected to the peer's.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// RECVs cannot be posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The sizes that the peer announced contradict each other, or its memory is too small or not accessible.
    #[error("unusable parameters from peer: {what}")]
    Unusable {
        /// The parameters that are unusable, for the message.
        what: &'static str,
    },
}
