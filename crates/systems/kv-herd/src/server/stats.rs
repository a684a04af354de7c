//! Counters: plain words in the worker that counts, copied out when somebody asks.

use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;
use std::fmt::Write;

/// What one worker did since it started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Counters {
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
    /// Retransmissions of the last request of a slot.
    pub retransmits: u64,
    /// Words that were no news: older than what had been executed, or ruled out.
    pub ignored: u64,
    /// Answered `BadRequest`.
    pub bad_requests: u64,
    /// Answered `WrongPartition`.
    pub wrong_partition: u64,
    /// Answered `StaleEpoch`.
    pub stale_epoch: u64,
    /// Looks at a slot whose checksum did not fit (yet).
    pub crc_mismatches: u64,
    /// Requests dropped because it never did.
    pub crc_dropped: u64,
    /// Requests found in another slot than the one whose turn it was.
    pub out_of_turn: u64,
    /// Request datagrams that named no client of ours.
    pub stray_datagrams: u64,
    /// Replies posted.
    pub replies: u64,
    /// Replies that the fabric did not take.
    pub replies_failed: u64,
    /// GETs told to ask again because no memory was free to send their long value from.
    pub replies_deferred: u64,
    /// Lists of replies posted: doorbells.
    pub doorbells: u64,
    /// Positions ruled out by `Resync`.
    pub resyncs: u64,
}

impl Counters {
    /// Operations executed.
    pub(super) fn operations(&self) -> u64 {
        self.gets + self.puts + self.deletes + self.nops
    }
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
            ("cmd_get", |w| w.counters.gets),
            ("get_hits", |w| w.counters.get_hits),
            ("get_misses", |w| w.counters.gets - w.counters.get_hits),
            ("cmd_set", |w| w.counters.puts),
            ("cmd_delete", |w| w.counters.deletes),
            ("delete_hits", |w| w.counters.delete_hits),
            ("nops", |w| w.counters.nops),
            ("bulk_ops", |w| w.counters.bulk_ops),
            ("retransmits", |w| w.counters.retransmits),
            ("ignored", |w| w.counters.ignored),
            ("bad_requests", |w| w.counters.bad_requests),
            ("wrong_partition", |w| w.counters.wrong_partition),
            ("stale_epoch", |w| w.counters.stale_epoch),
            ("crc_mismatches", |w| w.counters.crc_mismatches),
            ("crc_dropped", |w| w.counters.crc_dropped),
            ("out_of_turn", |w| w.counters.out_of_turn),
            ("stray_datagrams", |w| w.counters.stray_datagrams),
            ("replies", |w| w.counters.replies),
            ("replies_failed", |w| w.counters.replies_failed),
            ("replies_deferred", |w| w.counters.replies_deferred),
            ("doorbells", |w| w.counters.doorbells),
            ("resyncs", |w| w.counters.resyncs),
            ("restarts", |w| w.restarts),
        ];
        for (name, field) in sums {
            line(name, self.total(field));
        }
        for (i, worker) in self.workers.iter().enumerate() {
            let c = &worker.counters;
            line(&format!("partition_{i}_ops"), c.gets + c.puts + c.deletes);
            line(&format!("partition_{i}_items"), worker.partition.items);
        }
        out
    }
}
