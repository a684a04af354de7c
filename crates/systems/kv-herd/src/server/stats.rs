//! Counters: plain words in the worker that counts, copied out when somebody asks.

use crate::layout::Status;
use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;
use std::fmt::Write;

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
        self.of_keys() + self.nops
    }

    /// Operations on keys: all but NOPs.
    pub(super) fn of_keys(&self) -> u64 {
        self.gets + self.puts + self.deletes
    }

    /// GETs that found nothing.
    pub fn get_misses(&self) -> u64 {
        self.gets - self.get_hits
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

/// What a worker tells.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Its counters.
    pub counters: Counters,
    /// Its store's.
    pub partition: PartitionStats,
    /// Clients served now.
    pub clients: usize,
    /// Restarts after a panic.
    pub restarts: u64,
    /// How long native requests took: from the start of the round in which they were found to its end, when their replies
    /// were with the fabric. Empty for a worker that is stepped by hand.
    pub durations: Spread,
    /// How its core's rounds went; all zero for one that is stepped by hand.
    pub run: RunStats,
}

/// What a server tells: workers in the order of their partitions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerStats {
    /// One per partition.
    pub workers: Vec<WorkerStats>,
    /// Clients now.
    pub clients: usize,
    /// Those of them that send datagrams.
    pub datagram_clients: usize,
    /// Clients ever.
    pub clients_total: u64,
    /// Seconds since the server started.
    pub uptime_s: u64,
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

impl ServerStats {
    /// The sum over workers of what `field` picks.
    pub fn total(&self, field: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }

    /// Lines `name value`, memcached's names where it has one.
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
