//! [`PerfError`]: why a measurement did not come to its end.

use drover_base::Ns;
use drover_mem::AllocError;
use drover_rt::control::ControlError;
use drover_rt::exchange::ExchangeError;
use drover_verbs::{
    ConnectError, CreateError, ImportError, Opcode, OpenError, PostError, RegisterError, WcStatus,
};

/// Why a measurement did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfError {
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// The other end does not want what we want.
    #[error("refused by the other end: {0}")]
    Refused(String),
    /// The other end is gone.
    #[error("the other end has gone: {0}")]
    PeerGone(ControlError),
    /// A request failed.
    #[error("a {opcode:?} request failed: {status:?}{}", advice(*.status))]
    Completion {
        /// What it was, as far as the completion tells.
        opcode: Opcode,
        /// How it ended.
        status: WcStatus,
    },
    /// A request was not taken.
    #[error("posting failed: {0}")]
    Post(#[from] PostError),
    /// Nothing has happened for too long.
    #[error(
        "nothing has arrived for {patience}: a message was lost (over UC and UD they may be), or the other end hangs"
    )]
    Silent {
        /// How long.
        patience: Ns,
    },
    /// Anything else about the control channel.
    #[error(transparent)]
    Control(ControlError),
    /// Connecting the two ends.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Connecting queue pairs.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end's memory or address.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The context.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A queue.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Memory for the device.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A thread.
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
