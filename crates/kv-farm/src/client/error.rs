//! [`SetupError`]: why there is no session.

use drover_mem::AllocError;
use drover_rt::control::{ControlError, DecodeError, DialError};
use drover_verbs::{ConnectError, CreateError, ImportError, RegisterError};

/// Why there is no session with a shard. The client goes on trying.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Nobody there.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The control channel ended.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The server said what it cannot say.
    #[error("the server sent nonsense: {0}")]
    Message(#[from] DecodeError),
    /// The server's numbers do not fit together.
    #[error("unusable answer of the server: {what}")]
    Unusable {
        /// Which.
        what: &'static str,
    },
    /// No answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The queue pair failed.
    #[error("the session ended")]
    Ended,
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// No queue.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The server's memory could not be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The queue pairs do not match.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}
