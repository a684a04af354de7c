//! [`StartError`] and [`ServeError`]: why there is no server, or none any more.

use drover_mem::AllocError;
use drover_verbs::{CreateError, OpenError};

/// A server ended though nobody had asked it to. It serves nobody any more; its clients have been told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A worker could not go on.
    #[error("worker {index} gave up: {reason}")]
    Worker {
        /// Its partition.
        index: usize,
        /// What happened.
        reason: String,
    },
    /// The control thread panicked, by a bug of ours.
    #[error("the control thread panicked")]
    Control,
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option that cannot be.
    #[error("{what}: {why}")]
    Options {
        /// Name of what is missing or wrong.
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
    /// Who was to share a worker's core could not be made.
    #[error("{reason}")]
    CoActor {
        /// What failed.
        reason: String,
    },
    /// A thread could not be started, or died before it said hello.
    #[error("starting thread {name}: {reason}")]
    Thread {
        /// Name of what is missing or wrong.
        name: String,
        /// What happened.
        reason: String,
    },
}
