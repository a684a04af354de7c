//! [`Op`] and [`Outcome`].

use crate::{Condition, Extension};

/// An operation on one key, which has 1 to [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes.
///
/// A [`Get`](Op::Get), and a [`Put`](Op::Put) or [`Delete`](Op::Delete) without condition and flags that keeps nothing, are what every system
/// is made for. What a system has of the rest, its [`Offers`](crate::Offers) say; it refuses what it has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// Read the value.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Read the value, and version and flags of its item, which takes a little longer than a [`Get`](Op::Get).
    GetItem {
        /// The key.
        key: &'a [u8],
    },
    /// Write the value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value to store, of any length up to the server's item limit, zero included.
        value: &'a [u8],
        /// Seconds until the value expires; 0 = never.
        ttl_s: u32,
        /// Bits of the caller's own, which are stored with the value.
        flags: u32,
        /// Condition under which the value is written.
        condition: Condition,
        /// Whether a key that exists keeps its expiry and flags, so that `ttl_s` and `flags` are ignored.
        keep: bool,
    },
    /// Remove the key.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Condition under which the key is removed.
        condition: Condition,
    },
    /// Set the time at which the value of an existing key expires. Its version may change.
    Touch {
        /// The key.
        key: &'a [u8],
        /// Seconds from now until the value expires; 0 = never.
        ttl_s: u32,
    },
}

/// The kind of an [`Op`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// GET, of a value alone or of the whole item.
    Get,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// Touch.
    Touch,
}

impl OpKind {
    /// Whether the operation is an update: any but a GET.
    #[inline(always)]
    pub fn is_update(self) -> bool {
        self != OpKind::Get
    }
}

impl<'a> Op<'a> {
    /// A PUT of a value that never expires, without flags and condition.
    #[inline(always)]
    pub const fn put(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
        Op::put_for(key, value, 0)
    }

    /// A PUT of a value that expires after `ttl_s` seconds (0 = never), without flags and condition.
    #[inline(always)]
    pub const fn put_for(key: &'a [u8], value: &'a [u8], ttl_s: u32) -> Op<'a> {
        Op::Put {
            key,
            value,
            ttl_s,
            flags: 0,
            condition: Condition::Always,
            keep: false,
        }
    }

    /// A DELETE without condition.
    #[inline(always)]
    pub const fn delete(key: &'a [u8]) -> Op<'a> {
        Op::Delete {
            key,
            condition: Condition::Always,
        }
    }

    /// The key of the operation.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Op::Get { key }
            | Op::GetItem { key }
            | Op::Put { key, .. }
            | Op::Delete { key, .. }
            | Op::Touch { key, .. } => key,
        }
    }

    /// The value of a PUT; empty for other operations.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        match *self {
            Op::Put { value, .. } => value,
            _ => &[],
        }
    }

    /// Time to live of a PUT or touch, seconds; 0: unlimited, and for other operations.
    #[inline]
    pub fn ttl_s(&self) -> u32 {
        match *self {
            Op::Put { ttl_s, .. } | Op::Touch { ttl_s, .. } => ttl_s,
            _ => 0,
        }
    }

    /// The kind of the operation.
    #[inline]
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Get { .. } | Op::GetItem { .. } => OpKind::Get,
            Op::Put { .. } => OpKind::Put,
            Op::Delete { .. } => OpKind::Delete,
            Op::Touch { .. } => OpKind::Touch,
        }
    }

    /// Whether it is a GET that asks for version and flags.
    #[inline]
    pub fn is_detailed(&self) -> bool {
        matches!(self, Op::GetItem { .. })
    }

    /// What an update says beyond key, value and time to live; `None` if that is nothing.
    #[inline(always)]
    pub fn extension(&self) -> Option<Extension> {
        let extension = match *self {
            Op::Put {
                flags,
                condition,
                keep,
                ..
            } => Extension {
                flags,
                condition,
                keep,
            },
            Op::Delete { condition, .. } => Extension {
                condition,
                ..Extension::default()
            },
            _ => return None,
        };
        (extension != Extension::default()).then_some(extension)
    }
}

/// Result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// [`Get`](Op::Get): the value. The bytes are valid only while the sink of [`poll`](crate::KvClient::poll) runs.
    Value(&'a [u8]),
    /// [`GetItem`](Op::GetItem): the item, as above.
    Found {
        /// The value.
        value: &'a [u8],
        /// Version of the item, to be compared by [`Condition::IfVersion`]: it changes with every PUT. A server that is
        /// started anew may use the same versions again. 0 if the system [has none](crate::OperationOffers::versions).
        version: u64,
        /// Flags that were stored with the value.
        flags: u32,
    },
    /// PUT: the value is stored.
    Stored,
    /// DELETE: the key existed, not expired, and is removed.
    Deleted,
    /// Touch: the key existed, and expires as asked for.
    Touched,
    /// The key does not exist, or has expired. A PUT has this outcome if its condition required the key to exist.
    NotFound,
    /// PUT or DELETE: nothing happened, because the key exists, and the condition required it not to, or to have another
    /// version.
    Exists,
    /// It is unknown whether this update happened, because the server or the network failed. It may still take
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
    /// operation, or the system does not [offer](crate::Offers) it.
    #[error("the server found the request malformed")]
    BadRequest,
    /// No server answered before the deadline, or before the client was closed: a GET, or a PUT or DELETE that was
    /// never sent or never executed. (An update that may have been executed is `Indeterminate`.)
    #[error("no server answered before the deadline")]
    Unavailable,
    /// The memory node of this index in its pool is lost, where the key is, and the client does not wait for its return.
    #[error("memory node {0} of the pool is lost, and the key with it until the node is back")]
    NodeLost(u32),
    /// Shards disagree about which of them owns the key: each that was asked, by the newest map that the client could get, sent
    /// it to another one.
    #[error("the server's shards disagree about which of them owns the key")]
    Elsewhere,
    /// The member of the service that was asked does not serve the key now; this is the epoch of its map. A client that
    /// [finds the members itself](https://github.com/drover-kv/drover/blob/main/docs/decisions/0045-who-may-answer-for-a-shard.md)
    /// asks another one instead of reporting it.
    #[error(
        "this member does not serve the key (its map has epoch {0}): connect to etcd:// to have the right one asked"
    )]
    NotServed(u64),
}
