//! [`PerfError`]: why a measurement failed.

use drover_base::Ns;
use drover_control::ControlError;
use drover_control::exchange::ExchangeError;
use drover_mem::AllocError;
use drover_verbs::{
    ConnectError, CreateError, ImportError, Opcode, OpenError, PostError, RegisterError, WcStatus,
};

/// Reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfError {
    /// The plan is invalid or this end does not support it.
    #[error("{0}")]
    Plan(String),
    /// The other end refused the plan, or could not connect; the text is its reason.
    #[error("refused by the other end: {0}")]
    Refused(String),
    /// The other end has disconnected, or sent neither a message nor a heartbeat for too long.
    #[error("the other end has gone: {0}")]
    PeerGone(ControlError),
    /// A request completed with an error.
    #[error("a {opcode:?} request failed: {status:?}{}", advice(*.status))]
    Completion {
        /// Opcode of the request, from its completion.
        opcode: Opcode,
        /// Status of the completion.
        status: WcStatus,
    },
    /// A request could not be posted.
    #[error("posting failed: {0}")]
    Post(#[from] PostError),
    /// The measurement made no progress for longer than its time limit.
    #[error(
        "nothing has arrived for {patience}: a message was lost (over UC and UD they may be), or the other end hangs"
    )]
    Silent {
        /// The time limit: in a session [`Options::patience`](crate::Options::patience) plus 4 us per byte of a
        /// message.
        patience: Ns,
    },
    /// The control channel failed in another way than by disconnection, silence or refusal.
    #[error(transparent)]
    Control(ControlError),
    /// The ends could not exchange what they need to connect, or a message was not the expected one.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The queue pairs could not be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end's memory or address could not be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The device's context could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A queue pair or completion queue could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be allocated.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The operating system could not start a thread.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<ControlError> for PerfError {
    fn from(error: ControlError) -> PerfError {
        match error {
            ControlError::Closed | ControlError::ClosedMidFrame | ControlError::Silent => {
                PerfError::PeerGone(error)
            }
            ControlError::Refused { reason, .. } => PerfError::Refused(reason),
            other => PerfError::Control(other),
        }
    }
}

fn advice(status: WcStatus) -> &'static str {
    match status {
        WcStatus::RetryExceeded => " (the other end does not answer: it died, or there is no route to it)",
        WcStatus::RnrRetryExceeded => " (the other end posts no RECVs)",
        _ => "",
    }
}
