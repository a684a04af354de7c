//! Why a client has no session ([`SetupError`]), and why a service did not start ([`StartError`]): the same for every
//! system.

use crate::BadMap;
use drover_control::Loss;
use drover_control::{ControlError, DecodeError, DialError, refusal};
use drover_mem::AllocError;
use drover_rt::ResourceError;
use drover_verbs::{ConnectError, CreateError, ImportError, OpenError, PostError, RegisterError};
use std::io;

/// Refusals that every system's servers send, as the code of [`ControlError::Refused`].
pub mod refused {
    use drover_control::refusal::APPLICATION;

    /// The client expects another shard at this channel, or another number of shards, than the server has.
    pub const WRONG_SHARD: u16 = APPLICATION;
    /// The client speaks another version of the system's protocol.
    pub const WRONG_VERSION: u16 = APPLICATION + 1;
    /// The server has no memory or queue pairs for another client.
    pub const NO_RESOURCES: u16 = APPLICATION + 2;
    /// The client does not have the secret that the server's operator requires.
    pub const WRONG_SECRET: u16 = APPLICATION + 3;
}

/// Why a client has no session. A client that is polled keeps trying, whatever the error; only
/// [`connect`](fn@crate::connect) and [`wait_for_sessions`](crate::wait_for_sessions) give up if the error [is
/// final](SetupError::is_final).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No control channel to the server could be opened.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The control channel ended, or the server refused over it.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A message of the server cannot be decoded.
    #[error("malformed message from server: {0}")]
    Message(#[from] DecodeError),
    /// The server refused, in a message of the system's own protocol.
    #[error("refused by the server: {text}")]
    Refused {
        /// Code, defined by the system's protocol.
        code: u16,
        /// The server's reason.
        text: String,
        /// Whether another attempt would be refused, too.
        is_final: bool,
    },
    /// The server's numbers contradict each other, or do not suit this fabric.
    #[error("unusable parameters from server: {what}")]
    Unusable {
        /// Part of the server's answer that is unusable.
        what: &'static str,
    },
    /// The server's map of partitions cannot be used.
    #[error("unusable map of partitions from server: {0}")]
    Map(#[from] BadMap),
    /// The server did not answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The server closed the session, or the session's queue pair failed.
    #[error("the session ended")]
    Ended,
    /// Memory cannot be allocated.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A queue cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The server's memory or queue pair cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The client's queue pair cannot be connected with the server's.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The fabric cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
    /// Work requests cannot be posted.
    #[error(transparent)]
    Post(#[from] PostError),
}

impl From<ResourceError> for SetupError {
    fn from(error: ResourceError) -> SetupError {
        match error {
            ResourceError::Alloc(error) => error.into(),
            ResourceError::Open(error) => error.into(),
            ResourceError::Register(error) => error.into(),
            ResourceError::Create(error) => error.into(),
            ResourceError::Import(error) => error.into(),
            ResourceError::Connect(error) => error.into(),
            ResourceError::Post(error) => error.into(),
            ResourceError::Unusable { what } => SetupError::Unusable { what },
        }
    }
}

impl SetupError {
    /// Whether another attempt would almost certainly fail, too: versions, secrets or formats do not match, the
    /// server's parameters are unusable here, or this device cannot create the queues.
    pub fn is_final(&self) -> bool {
        match self {
            SetupError::Refused { is_final, .. } => *is_final,
            SetupError::Control(ControlError::Refused { code, .. }) => {
                matches!(
                    *code,
                    refusal::BAD_FRAME
                        | refusal::AUTH
                        | refusal::TLS
                        | refused::WRONG_VERSION
                        | refused::WRONG_SECRET
                )
            }
            SetupError::Control(error) => matches!(
                error,
                ControlError::Frame(_)
                    | ControlError::FdsOverTcp
                    | ControlError::Unproven { .. }
                    | ControlError::Tls { .. }
            ),
            SetupError::Unusable { .. }
            | SetupError::Map(_)
            | SetupError::Message(_)
            | SetupError::Create(_) => true,
            _ => false,
        }
    }
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

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option has an impossible value.
    #[error("{what}: {why}")]
    Options {
        /// Name of the option.
        what: &'static str,
        /// What is wrong with its value.
        why: &'static str,
    },
    /// The fabric lacks something that the system needs.
    #[error("{system} needs {what}, which {fabric} does not have")]
    Fabric {
        /// Name of the system.
        system: &'static str,
        /// What is missing.
        what: &'static str,
        /// Name of the provider.
        fabric: &'static str,
    },
    /// The fabric cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The memory of a shard cannot be allocated.
    #[error("memory for a shard: {0}")]
    Alloc(#[from] AllocError),
    /// A queue cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// RECVs for requests that arrive as datagrams cannot be posted.
    #[error("receiving request datagrams: {reason}")]
    Datagrams {
        /// What failed.
        reason: String,
    },
    /// The [co-actor](crate::CoActor) of a worker cannot be created.
    #[error("{reason}")]
    CoActor {
        /// What failed.
        reason: String,
    },
    /// A thread cannot be started, or ended before it was ready.
    #[error("starting thread {name}: {reason}")]
    Thread {
        /// Name of the thread.
        name: String,
        /// Why the thread could not be started, or that it ended early.
        reason: String,
    },
    /// A shard cannot be opened.
    #[error("shard {index}: {error}")]
    Shard {
        /// Index of the shard, from 0.
        index: usize,
        /// Why the shard cannot be opened.
        error: Box<StartError>,
    },
    /// A listener cannot be used, or a system call of the start failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}
