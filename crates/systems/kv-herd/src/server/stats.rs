//! Counters and statistics. Each worker counts in plain words and copies them when asked.

use crate::layout::Status;

/// Counters of one worker since it was created, for native clients only. A restart after a panic does not reset them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Counters {
    /// Numbers of operations executed, by kind.
    pub operations: OperationCounts,
    /// Requests that did not arrive exactly once, whole and in turn.
    pub irregular: IrregularCounts,
    /// Requests refused without being executed.
    pub refused: RefusalCounts,
    /// Replies sent, and what became of them.
    pub replies: ReplyCounts,
}

/// Numbers of operations that a worker executed, by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OperationCounts {
    /// GETs executed, hits and misses; one that is retransmitted or deferred counts each time. A GET of a long value
    /// counts twice: when it is answered `Bulk`, and as the `GetBulk` that follows.
    pub gets: u64,
    /// Those of [`gets`](OperationCounts::gets) that found their key.
    pub get_hits: u64,
    /// PUTs executed, including those that the store refused as `Full` or `TooLarge`. A PUT through bulk memory counts
    /// only if its value arrived whole and is within the server's limit.
    pub puts: u64,
    /// DELETEs executed, whether or not they found their key.
    pub deletes: u64,
    /// Those of [`deletes`](OperationCounts::deletes) that found their key.
    pub delete_hits: u64,
    /// NOPs (probes) answered.
    pub nops: u64,
    /// Those of the GETs and PUTs that used bulk memory: every `GetBulk`, even if it was refused, and every `PutBulk`
    /// that counts as a PUT.
    pub bulk_ops: u64,
}

impl OperationCounts {
    /// Sum of GETs, PUTs, DELETEs and NOPs.
    pub fn total(&self) -> u64 {
        self.gets + self.puts + self.deletes + self.nops
    }
}

/// Requests that did not arrive exactly once, whole and in turn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IrregularCounts {
    /// Retransmissions received of the last request taken from a slot, except those that are refused as malformed or
    /// because another partition owns the key.
    pub retransmits: u64,
    /// Commit words ignored: of requests executed or ruled out before, invalid ones, and duplicate or too short
    /// datagrams.
    pub ignored: u64,
    /// Checksum mismatches, one for each check: of requests that have not arrived whole, and of long values in bulk
    /// memory.
    pub crc_mismatches: u64,
    /// Requests in slots given up because their checksum did not match within a millisecond; a retransmission may still
    /// be taken.
    pub crc_dropped: u64,
    /// Requests, retransmitted ones included, that a check of all slots found in another slot than the one whose turn
    /// it was.
    pub out_of_turn: u64,
    /// Request datagrams dropped: from no known client, for no slot of its window, of a wrong length, or received with
    /// an error.
    pub stray_datagrams: u64,
    /// `Resync` questions received.
    pub resyncs: u64,
}

/// Requests refused without being executed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RefusalCounts {
    /// Requests answered `BadRequest` because their commit word is malformed, or in format P their length. Requests
    /// that name a chunk of bulk memory that does not exist are not counted.
    pub bad_requests: u64,
    /// Requests answered `WrongPartition`.
    pub wrong_partition: u64,
    /// Retransmissions answered `StaleEpoch`: the worker was restarted and does not know their result.
    pub stale_epoch: u64,
    /// Requests answered `Elsewhere`, retransmitted ones included: another member of the service serves the key, or none does now.
    pub elsewhere: u64,
}

impl RefusalCounts {
    /// Counts a request that is answered with `status` without being executed: as a wrong partition, or else as a bad
    /// request.
    pub(super) fn note(&mut self, status: Status) {
        match status {
            Status::WrongPartition => self.wrong_partition += 1,
            _ => self.bad_requests += 1,
        }
    }
}

/// Numbers of replies that a worker sent, and what became of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyCounts {
    /// Replies that the fabric accepted.
    pub posted: u64,
    /// Replies that the fabric refused, and completions with an error; replies of the latter are in `posted`, too.
    pub failed: u64,
    /// GETs answered `Retry` because no registered memory was free from which to send their value.
    pub deferred: u64,
    /// Lists of replies posted, each with one doorbell: one per batch, or one per reply in a pipeline.
    pub doorbells: u64,
}
