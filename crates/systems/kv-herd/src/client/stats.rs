//! [`ClientStats`]: counters of events other than a request and its reply.

/// Counters of one client since it was created, over all its sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Retransmissions, because no reply came in time. A request is retransmitted up to five times.
    pub retransmits: u64,
    /// Replies that match no outstanding request: duplicates, late replies to earlier uses of a slot, malformed ones.
    pub stale_replies: u64,
    /// Replies, control messages and completions that the protocol does not allow at that point, and that were ignored.
    pub garbage: u64,
    /// Requests given up, about which the client asked the server (`Resync`).
    pub resyncs: u64,
    /// Operations submitted again as new requests: the server answered `Retry` or `WrongPartition`, a resynchronisation
    /// showed that they were not executed, or their session was lost before they took effect.
    pub resubmits: u64,
    /// Operations that waited in the client for an earlier one on the same key.
    pub conflicts: u64,
    /// Sessions established after the first.
    pub reconnects: u64,
    /// Bulk transfers begun: PUTs and GETs of values too long for a slot or a reply, whether or not they succeeded.
    pub bulk_transfers: u64,
    /// Repetitions of bulk transfers, because the checksum did not match or the server answered `Retry`.
    pub bulk_repeats: u64,
    /// Operations that ended [`Indeterminate`](drover_kv::Outcome::Indeterminate).
    pub indeterminate: u64,
}
