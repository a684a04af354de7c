//! Counters: plain words in the worker that counts, copied out when somebody asks.

use crate::layout::Status;

/// What one worker did since it started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Counters {
    /// Operations executed.
    pub operations: OperationCounts,
    /// Requests that were not found once, whole and in turn.
    pub irregular: IrregularCounts,
    /// Requests answered with a refusal.
    pub refused: RefusalCounts,
    /// Replies.
    pub replies: ReplyCounts,
}

/// Operations executed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OperationCounts {
    /// GETs executed.
    pub gets: u64,
    /// GETs that found their key.
    pub get_hits: u64,
    /// PUTs executed.
    pub puts: u64,
    /// DELETEs executed.
    pub deletes: u64,
    /// DELETEs that found their key.
    pub delete_hits: u64,
    /// NOPs answered.
    pub nops: u64,
    /// GETs and PUTs through bulk memory.
    pub bulk_ops: u64,
}

impl OperationCounts {
    /// All operations.
    pub fn total(&self) -> u64 {
        self.gets + self.puts + self.deletes + self.nops
    }
}

/// Requests that were not found once, whole and in turn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IrregularCounts {
    /// Retransmissions of the last request of a slot.
    pub retransmits: u64,
    /// Words that were no news: older than what had been executed, or ruled out.
    pub ignored: u64,
    /// Looks at a slot whose checksum did not fit (yet).
    pub crc_mismatches: u64,
    /// Requests dropped because it never did.
    pub crc_dropped: u64,
    /// Requests found in another slot than the one whose turn it was.
    pub out_of_turn: u64,
    /// Request datagrams that named no client of ours.
    pub stray_datagrams: u64,
    /// Positions ruled out by `Resync`.
    pub resyncs: u64,
}

/// Requests answered with a refusal.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RefusalCounts {
    /// Answered `BadRequest`.
    pub bad_requests: u64,
    /// Answered `WrongPartition`.
    pub wrong_partition: u64,
    /// Answered `StaleEpoch`.
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

/// Replies of a worker.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReplyCounts {
    /// Replies posted.
    pub posted: u64,
    /// Replies that the fabric did not take.
    pub failed: u64,
    /// GETs told to ask again because no memory was free to send their long value from.
    pub deferred: u64,
    /// Lists of replies posted: doorbells.
    pub doorbells: u64,
}

/// Who did not answer in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The control thread.
    Control,
    /// These workers; empty if the last of them answered a little late.
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
