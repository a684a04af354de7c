//! Why there is no session, and why there is no server.

use drover_mem::AllocError;
use drover_rt::Loss;
use drover_rt::control::{ControlError, DecodeError, DialError};
use drover_verbs::{ConnectError, CreateError, ImportError, OpenError, PostError, RegisterError, WcStatus};

/// Why a client has no session with a shard. It goes on trying.
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
        /// Part of the answer that is unusable.
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
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

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
