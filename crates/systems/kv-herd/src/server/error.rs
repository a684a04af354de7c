//! [`ServeError`]: why a server ended by itself.

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
