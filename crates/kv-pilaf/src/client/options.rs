//! What a client is told at its start, and what it tells.

use crate::logic::Miss;
use drover_base::Ns;
use drover_mem::AllocError;
use drover_rt::control::{ControlError, DecodeError, DialError};
use drover_verbs::{ConnectError, CreateError, ImportError, PostError, RegisterError};

/// How a client wants to work.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Operations under way per shard, at most 1024 in all.
    pub window: usize,
    /// An operation that has no result after this time gets `Indeterminate` or `Refused(Unavailable)`.
    pub deadline: Ns,
    /// What to do when no place has a key.
    pub miss: Miss,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            window: 16,
            deadline: Ns::from_s(5),
            miss: Miss::Confirmed,
        }
    }
}

/// Why there is no session with a shard. The client goes on trying.
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
        /// Which.
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

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of entries.
    pub entry_reads: u64,
    /// READs of records.
    pub record_reads: u64,
    /// Torn entries and records.
    pub torn: u64,
    /// Messages asking for a key: misses confirmed, and readers who gave up.
    pub asked: u64,
    /// Misses by READs for which the server had a value: keys that moved, or came just then.
    pub false_misses: u64,
    /// Tables that gave way to larger ones while we were connected.
    pub tables: u64,
    /// Sessions that ended, for whatever reason.
    pub lost: u64,
}
