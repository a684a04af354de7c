//! [`ClientStats`]: counters of irregular events; requests that are simply answered are not counted.

/// Counters of irregular events of one client since it was created, over all its sessions. Requests that are simply
/// answered are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Retransmissions, because no reply came in time. A request is retransmitted up to five times, and counts each
    /// time.
    pub retransmits: u64,
    /// Replies that match no outstanding request: duplicates, malformed ones, and late replies to an earlier use of a
    /// slot or to a request that was given up.
    pub stale_replies: u64,
    /// Replies, control messages and completions that the protocol does not allow at that point, and that were ignored.
    pub garbage: u64,
    /// Requests given up, about which the client asked the server (`Resync`): for lack of a reply, because the server
    /// answered `StaleEpoch`, or because they were posted behind such a request on the same key.
    pub resyncs: u64,
    /// Operations sent again as new requests: because the server answered `Retry` or `WrongPartition`; because a
    /// resynchronisation showed that they were not executed; GETs that were given up or whose session ended; and PUTs
    /// of long values whose session ended before their request was posted.
    pub resubmits: u64,
    /// Operations that had to wait, when they were submitted, for an earlier one on the same key; also those that were
    /// then refused because too many operations wait.
    pub conflicts: u64,
    /// Sessions established after the first.
    pub reconnects: u64,
    /// Bulk transfers begun: PUTs and GETs of values too long for a slot or a reply, whether or not they succeeded. One
    /// that is begun again in another session counts again.
    pub bulk_transfers: u64,
    /// Repetitions of bulk transfers within a session, because the checksum did not match or the server had not
    /// executed the request.
    pub bulk_repeats: u64,
    /// Operations that ended [`Indeterminate`](drover_kv::Outcome::Indeterminate).
    pub indeterminate: u64,
}
