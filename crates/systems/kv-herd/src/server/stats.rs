//! Counters and statistics. Each worker counts in plain words and copies them when asked.

use crate::layout::Status;
use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;
use std::fmt::Write;

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
        self.of_keys() + self.nops
    }

    /// Operations on keys: all but NOPs.
    pub(super) fn of_keys(&self) -> u64 {
        self.gets + self.puts + self.deletes
    }

    /// GETs that did not find their key.
    pub fn get_misses(&self) -> u64 {
        self.gets - self.get_hits
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

/// Statistics of one worker, at the time of the question.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Counters of requests and replies.
    pub counters: Counters,
    /// Counters of the partition's store; a restart resets them.
    pub partition: PartitionStats,
    /// Number of clients that the worker serves now.
    pub clients: usize,
    /// Number of restarts after a panic.
    pub restarts: u64,
    /// How long native clients' requests took: from the start of the round that executed them to the start of the next
    /// round, by which time their replies were posted. Empty for a worker that is stepped by hand.
    pub durations: Spread,
    /// Statistics of the worker's run loop; all zero for a worker that is stepped by hand.
    pub run: RunStats,
}

/// Statistics of a server, at the time of the question.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerStats {
    /// Statistics of the workers, in the order of their partitions.
    pub workers: Vec<WorkerStats>,
    /// Number of clients that have a session now.
    pub clients: usize,
    /// Number of these clients that send datagrams.
    pub datagram_clients: usize,
    /// Number of sessions established since the server started.
    pub clients_total: u64,
    /// Time since the server started, seconds.
    pub uptime_s: u64,
}

/// The threads that did not answer a question for statistics in time.
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

impl ServerStats {
    /// Sum over all workers of the number that `field` returns.
    pub fn total(&self, field: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }

    /// Formats the statistics as lines `name value`, with memcached's names where memcached has such a statistic.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: u64| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name} {value}");
        };
        line("uptime", self.uptime_s);
        line("threads", self.workers.len() as u64);
        line("curr_connections", self.clients as u64);
        line("total_connections", self.clients_total);
        line("datagram_connections", self.datagram_clients as u64);
        type Field = fn(&WorkerStats) -> u64;
        let sums: [(&str, Field); 28] = [
            ("curr_items", |w| w.partition.items),
            ("bytes", |w| w.partition.bytes),
            ("limit_maxbytes", |w| w.partition.bytes_max),
            ("evictions", |w| {
                w.partition.evicted_bucket_full + w.partition.evicted_log_wrapped
            }),
            ("expired", |w| w.partition.expired),
            ("cmd_get", |w| w.counters.operations.gets),
            ("get_hits", |w| w.counters.operations.get_hits),
            ("get_misses", |w| w.counters.operations.get_misses()),
            ("cmd_set", |w| w.counters.operations.puts),
            ("cmd_delete", |w| w.counters.operations.deletes),
            ("delete_hits", |w| w.counters.operations.delete_hits),
            ("nops", |w| w.counters.operations.nops),
            ("bulk_ops", |w| w.counters.operations.bulk_ops),
            ("retransmits", |w| w.counters.irregular.retransmits),
            ("ignored", |w| w.counters.irregular.ignored),
            ("bad_requests", |w| w.counters.refused.bad_requests),
            ("wrong_partition", |w| w.counters.refused.wrong_partition),
            ("stale_epoch", |w| w.counters.refused.stale_epoch),
            ("crc_mismatches", |w| w.counters.irregular.crc_mismatches),
            ("crc_dropped", |w| w.counters.irregular.crc_dropped),
            ("out_of_turn", |w| w.counters.irregular.out_of_turn),
            ("stray_datagrams", |w| w.counters.irregular.stray_datagrams),
            ("replies", |w| w.counters.replies.posted),
            ("replies_failed", |w| w.counters.replies.failed),
            ("replies_deferred", |w| w.counters.replies.deferred),
            ("doorbells", |w| w.counters.replies.doorbells),
            ("resyncs", |w| w.counters.irregular.resyncs),
            ("restarts", |w| w.restarts),
        ];
        for (name, field) in sums {
            line(name, self.total(field));
        }
        for (i, worker) in self.workers.iter().enumerate() {
            let c = &worker.counters;
            line(&format!("partition_{i}_ops"), c.operations.of_keys());
            line(&format!("partition_{i}_items"), worker.partition.items);
        }
        out
    }
}
