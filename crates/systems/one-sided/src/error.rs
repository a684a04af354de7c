//! Errors of setting up a session, of starting a server, and of serving a client.

use drover_mem::AllocError;
use drover_rt::Loss;
use drover_rt::control::{ControlError, DecodeError, DialError};
use drover_verbs::{ConnectError, CreateError, ImportError, OpenError, PostError, RegisterError, WcStatus};

/// Why a client has no session with a shard. The client keeps trying.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The shard's address cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The control channel ended.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The server sent a malformed message.
    #[error("malformed message from server: {0}")]
    Message(#[from] DecodeError),
    /// The server's parameters are inconsistent or out of range.
    #[error("unusable parameters from server: {what}")]
    Unusable {
        /// Name of the unusable part.
        what: &'static str,
    },
    /// No answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The queue pair failed.
    #[error("the session ended")]
    Ended,
    /// Memory could not be allocated.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A queue could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The server's memory could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The queue pair could not be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// RECVs could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
}

impl From<Loss> for SetupError {
    fn from(loss: Loss) -> SetupError {
        match loss {
            Loss::Timeout => SetupError::Timeout,
            Loss::Broken => SetupError::Ended,
            Loss::Unexpected => SetupError::Unusable { what: "message" },
        }
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The fabric could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Memory could not be allocated.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

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
    /// A request could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The queue pair could not be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client's memory could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
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
