//! [`RaceError`]: why an operation on a table failed.

use drover_memnode::MemoryError;
use drover_rt::{StageError, TaskError, WcError};

/// Why an operation failed. Unless it is [`Indeterminate`](RaceError::Indeterminate), it had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// The pool's memory: full, broken, lost, or a request failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It is unknown whether the operation has taken effect or will.
    #[error("a request failed: the operation may or may not have happened")]
    Indeterminate,
    /// The subtable of the key is full and cannot be split any further.
    #[error("the table has no place for another key like this")]
    TableFull,
    /// The key is empty or too long, or the value is longer than 1 MiB.
    #[error("the key or the value is too long")]
    TooLarge,
    /// Other clients' operations were in the way until the deadline.
    #[error("the operation did not end before its deadline")]
    Deadline,
    /// The root of the node does not lead to a table, or to one of another seed.
    #[error("node {node} has no table of this pool")]
    NoTable {
        /// Index of the node.
        node: usize,
    },
}

impl From<TaskError> for RaceError {
    fn from(error: TaskError) -> RaceError {
        MemoryError::from(error).into()
    }
}

impl From<StageError> for RaceError {
    fn from(error: StageError) -> RaceError {
        MemoryError::from(error).into()
    }
}

impl From<WcError> for RaceError {
    fn from(error: WcError) -> RaceError {
        MemoryError::from(error).into()
    }
}
