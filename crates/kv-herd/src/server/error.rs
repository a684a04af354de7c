//! [`StartError`].

use drover_mem::AllocError;
use drover_verbs::{CreateError, OpenError};

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option that cannot be.
    #[error("{what}: {why}")]
    Options {
        /// Which.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The fabric lacks something that HERD needs.
    #[error("HERD needs {what}, which {fabric} does not have")]
    Fabric {
        /// What.
        what: &'static str,
        /// The provider.
        fabric: &'static str,
    },
    /// The fabric could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No memory for a partition.
    #[error("memory for a partition: {0}")]
    Partition(#[from] AllocError),
    /// A queue could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The RECVs of the datagram front end.
    #[error("receiving request datagrams: {reason}")]
    Datagrams {
        /// What failed.
        reason: String,
    },
    /// A thread could not be started, or died before it said hello.
    #[error("starting thread {name}: {reason}")]
    Thread {
        /// Which.
        name: String,
        /// What happened.
        reason: String,
    },
}
