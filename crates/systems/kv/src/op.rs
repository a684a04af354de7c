//! [`Op`] and [`Outcome`].

/// An operation on one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// Read the value.
    Get {
        /// The key: 1 to [`KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
    },
    /// Write the value, whether or not the key exists.
    Put {
        /// The key: 1 to [`KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
        /// The value to store, of any length up to the server's item limit, zero included.
        value: &'a [u8],
        /// Seconds until the value expires; 0 = never.
        ttl_s: u32,
    },
    /// Remove the key.
    Delete {
        /// The key: 1 to [`KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
    },
}

/// The kind of an [`Op`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// GET.
    Get,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
}

impl OpKind {
    /// Whether the operation is an update: a PUT or a DELETE.
    #[inline(always)]
    pub fn is_update(self) -> bool {
        self != OpKind::Get
    }
}

impl<'a> Op<'a> {
    /// The key of the operation.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Op::Get { key } | Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }

    /// The kind of the operation.
    #[inline]
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Get { .. } => OpKind::Get,
            Op::Put { .. } => OpKind::Put,
            Op::Delete { .. } => OpKind::Delete,
        }
    }
}

/// Result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// GET: the value. The bytes are valid only while the sink of [`poll`](crate::KvClient::poll) runs.
    Value(&'a [u8]),
    /// PUT: the value is stored.
    Stored,
    /// DELETE: the key existed, not expired, and is removed.
    Deleted,
    /// GET or DELETE: the key does not exist, or has expired.
    NotFound,
    /// It is unknown whether this PUT or DELETE happened, because the server or the network failed. It may still take
    /// effect afterwards, but no longer once the client has connected anew.
    Indeterminate,
    /// The operation certainly did not happen.
    Refused(Refusal),
}

/// Why an operation was refused; it had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The item is over the server's limit, or the key does not fit a request.
    #[error("the key or the value is larger than the server allows")]
    TooLarge,
    /// Store mode: no memory for the item. A cache evicts items instead; it refuses only if values that are still being
    /// transferred hold the memory.
    #[error("the store is full: the server needs more memory (-m), or must be allowed to evict (no -M)")]
    Full,
    /// Store mode: the table has no place for the key, though there may be memory for the item. A cache never refuses
    /// for this reason.
    #[error(
        "the server's table has no place for another key: the server needs more memory (-m), or must be allowed to evict \
         (no -M)"
    )]
    TableFull,
    /// The server found the request malformed, or the client's request format, that of HERD's paper, cannot express the
    /// operation.
    #[error("the server found the request malformed")]
    BadRequest,
    /// No server answered before the deadline, or before the client was closed: a GET, or a PUT or DELETE that was
    /// never sent or never executed. (An update that may have been executed is `Indeterminate`.)
    #[error("no server answered before the deadline")]
    Unavailable,
    /// Shards disagree about which of them owns the key: each that was asked, by the newest map that the client could get, sent
    /// it to another one.
    #[error("the server's shards disagree about which of them owns the key")]
    Elsewhere,
}
