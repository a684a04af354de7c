//! Counters and statistics. Each worker counts in plain words and copies them when asked.

use crate::layout::Status;

/// Counters of one worker since it started. A restart after a panic does not reset them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Counters {
    /// Operations executed, by kind.
    pub operations: OperationCounts,
    /// Requests that did not arrive exactly once, whole and in turn.
    pub irregular: IrregularCounts,
    /// Requests refused without being executed.
    pub refused: RefusalCounts,
    /// Replies sent.
    pub replies: ReplyCounts,
}

/// Operations that a worker executed, by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OperationCounts {
    /// GETs executed. A GET of a long value counts twice: when it is answered `Bulk`, and as the `GetBulk` that
    /// follows.
    pub gets: u64,
    /// Those of the GETs that found their key.
    pub get_hits: u64,
    /// PUTs executed, including those that the store refused as `Full` or `TooLarge`.
    pub puts: u64,
    /// DELETEs executed.
    pub deletes: u64,
    /// DELETEs that found their key.
    pub delete_hits: u64,
    /// NOPs (probes) answered.
    pub nops: u64,
    /// Those of the GETs and PUTs whose value was to move through bulk memory (`GetBulk`, `PutBulk`).
    pub bulk_ops: u64,
}

impl OperationCounts {
    /// All operations.
    pub fn total(&self) -> u64 {
        self.gets + self.puts + self.deletes + self.nops
    }
}

/// Requests that did not arrive exactly once, whole and in turn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IrregularCounts {
    /// Retransmissions received of the last request of a slot.
    pub retransmits: u64,
    /// Commit words ignored: of requests executed or ruled out before, invalid ones, and duplicate or too short
    /// datagrams.
    pub ignored: u64,
    /// Checksum mismatches, one for each check: of requests that have not arrived whole, and of long values in bulk
    /// memory.
    pub crc_mismatches: u64,
    /// Requests dropped because their checksum did not match within a millisecond.
    pub crc_dropped: u64,
    /// Requests taken from another slot than the one whose turn it was.
    pub out_of_turn: u64,
    /// Request datagrams dropped: from no known client, of a wrong length, or received with an error.
    pub stray_datagrams: u64,
    /// `Resync` questions received.
    pub resyncs: u64,
}

/// Requests refused without being executed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RefusalCounts {
    /// Requests answered `BadRequest` because their commit word is malformed.
    pub bad_requests: u64,
    /// Requests answered `WrongPartition`.
    pub wrong_partition: u64,
    /// Retransmissions answered `StaleEpoch`: the worker was restarted and does not know their result.
    pub stale_epoch: u64,
}

impl RefusalCounts {
    /// Counts a request that cannot be executed, and is answered with `status`.
    pub(super) fn note(&mut self, status: Status) {
        match status {
            Status::WrongPartition => self.wrong_partition += 1,
            _ => self.bad_requests += 1,
        }
    }
}

/// Replies that a worker sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyCounts {
    /// Replies posted to the fabric.
    pub posted: u64,
    /// Replies that the fabric refused, or whose completion reported an error.
    pub failed: u64,
    /// GETs answered `Retry` because no registered memory was free from which to send their value.
    pub deferred: u64,
    /// Lists of replies posted, with one doorbell each.
    pub doorbells: u64,
}

/// Who did not answer in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The control thread.
    Control,
    /// Workers, by index; empty if all have answered by now, but too late.
    Workers(Vec<usize>),
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Silence::Control => f.write_str("the control thread does not answer"),
            Silence::Workers(late) if late.is_empty() => f.write_str("workers answer late"),
            Silence::Workers(silent) => {
                let names: Vec<String> = silent.iter().map(usize::to_string).collect();
                write!(f, "no answer from worker {}", names.join(", "))
            }
        }
    }
}
