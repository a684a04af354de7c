//! Why a server has no session with a client.

use drover_mem::AllocError;
use drover_rt::control::DecodeError;
use drover_verbs::{ConnectError, CreateError, ImportError, PostError, RegisterError, WcStatus};

/// Why a server does not let a client in, or keep it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// No queue.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A request of ours was not taken.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The queue pairs do not match.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Its memory could not be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A message that is none.
    #[error(transparent)]
    Message(#[from] DecodeError),
    /// A message that has no place here.
    #[error("not now")]
    OutOfOrder,
    /// It asks for what no client of ours does.
    #[error("it sends what no client sends")]
    Nonsense,
    /// Its queue pair failed.
    #[error("its queue pair failed: {status:?}")]
    Failed {
        /// Of the request that did not succeed.
        status: WcStatus,
    },
}
