//! [`CallError`]: why a call has no result.

/// Why a call has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The deadline passed. The server may execute the call, or may have executed it.
    #[error("no result in time")]
    Timeout,
    /// The connection failed, and the server with it as far as is known. The call was not sent.
    #[error("the server is gone")]
    PeerDead,
    /// The request or the result is longer than a slot. A call with a request that is too long was not sent; one with a
    /// result that is too long was executed.
    #[error("{bytes} bytes, where a slot has {bytes_max}")]
    TooLarge {
        /// Bytes needed.
        bytes: usize,
        /// Bytes of a slot.
        bytes_max: usize,
    },
    /// The result is malformed. The call was executed.
    #[error("the result is malformed")]
    Corrupt,
    /// The connection was lost while the call was under way: it was executed, or it was not and never will be.
    #[error("the connection was lost; the call may have been executed")]
    Unknown,
    /// The connection was made again, and the server's state is new. The call was not sent.
    #[error("the connection was made again; the call was not sent")]
    Reconnected,
}
