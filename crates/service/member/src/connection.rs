//! [`Connection`]: one of the cores that take part in a hand-over.

use crate::network::Call;
use drover_memcached::handover::Reply;
use std::io;

/// Reasons why a hand-over fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    /// The owner advertises no address for members.
    #[error("it advertises no address for members")]
    NoAddress,
    /// The owner, or a core of this member, cannot be reached or does not answer.
    #[error("no answer: {0}")]
    Call(#[from] io::Error),
    /// A reply makes no sense.
    #[error("malformed reply from {from}")]
    Malformed {
        /// Who sent it.
        from: &'static str,
    },
    /// All items were flushed meanwhile, so what was copied is void.
    #[error("all items were flushed meanwhile")]
    Flushed,
    /// More changed than could be sent.
    #[error("the member that keeps the copies does not follow")]
    Behind,
    /// This member has no memory for the items.
    #[error("the memory of this member is full")]
    Full,
}

/// A connection to a core, and what the core has said of itself since the hand-over began.
pub(crate) struct Connection {
    call: Box<dyn Call>,
    flushes: Option<u64>,
    /// Highest version of its partition so far.
    pub(crate) version: u64,
}

impl Connection {
    pub(crate) fn new(call: Box<dyn Call>) -> Connection {
        Connection {
            call,
            flushes: None,
            version: 0,
        }
    }

    /// It does not matter whether the core has flushed its items since the last question.
    pub(crate) fn allow_flush(&mut self) {
        self.flushes = None;
    }

    /// Asks the core, and passes its reply to `take`.
    ///
    /// # Errors
    /// There is no reply, or the core has flushed its items since the hand-over began.
    pub(crate) fn ask<T>(
        &mut self,
        message: &[u8],
        take: impl FnOnce(Reply<'_>) -> Result<T, HandoverError>,
    ) -> Result<T, HandoverError> {
        let bytes = self.call.call(message)?;
        let reply = Reply::of(bytes).ok_or(HandoverError::Malformed { from: "a core" })?;
        if *self.flushes.get_or_insert(reply.flushes) != reply.flushes {
            return Err(HandoverError::Flushed);
        }
        self.version = self.version.max(reply.version);
        take(reply)
    }
}
