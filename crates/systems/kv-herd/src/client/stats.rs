//! [`ClientStats`]: what happened besides the ordinary.

/// Counters of one client since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Requests sent again because no reply came in time.
    pub retransmits: u64,
    /// Replies that fit no outstanding request: duplicates, late ones, ones to earlier uses of a slot.
    pub stale_replies: u64,
    /// Messages and completions that make no sense at all.
    pub garbage: u64,
    /// Slots given up and resynchronised.
    pub resyncs: u64,
    /// Requests the server asked to see again, or that were sent again after a resynchronisation.
    pub resubmits: u64,
    /// Operations that waited for an earlier one on the same key.
    pub conflicts: u64,
    /// Sessions begun after the first.
    pub reconnects: u64,
    /// Values that moved by bulk transfer.
    pub bulk_transfers: u64,
    /// Bulk transfers repeated because the checksum did not fit.
    pub bulk_repeats: u64,
    /// Operations that ended [`Indeterminate`](drover_kv::Outcome::Indeterminate).
    pub indeterminate: u64,
    /// Sleeps of the blocking client.
    pub parks: u64,
}
