//! [`ServiceStats`]: statistics that all [hosting](crate::HostingSystem) services report, for metrics. They cover
//! native clients, not those of [co-actors](crate::CoActor), except where a partition is meant.

use crate::{Counter, CounterKind, MetricFamily};
use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;
use std::fmt::Write;

/// Statistics of one worker of a [hosting](crate::HostingSystem) service since it started. *Native* clients speak the
/// system's own protocol over the fabric, unlike those of co-actors (memcached's).
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Values of the system's [counters](crate::Facts::counters), in their order.
    pub counters: Vec<u64>,
    /// Number of operations executed for native clients, without those of co-actors' clients.
    pub operations: u64,
    /// Statistics of the worker's partition, operations of co-actors included.
    pub partition: PartitionStats,
    /// Current number of native clients of this worker.
    pub clients: usize,
    /// Number of restarts of the worker, with an empty partition, after a panic.
    pub restarts: u64,
    /// Durations of native requests: from the start of the round in which a request was found to the end of the round,
    /// when the fabric had the reply. Empty for a worker that is stepped by hand.
    pub durations: Spread,
    /// Statistics of the rounds of the worker's run loop; all zero for a worker that is stepped by hand.
    pub run: RunStats,
}

/// Statistics of a [hosting](crate::HostingSystem) service.
#[derive(Clone, Debug, Default)]
pub struct ServiceStats {
    /// One per partition, in their order.
    pub workers: Vec<WorkerStats>,
    /// Current number of native clients of the service.
    pub clients: usize,
    /// Current number of native clients that send their requests as datagrams, because they have no request slots.
    pub datagram_clients: usize,
    /// Number of native clients admitted since the start; a client that connects again counts again.
    pub clients_total: u64,
    /// Whole seconds since the server started.
    pub uptime_s: u64,
}

/// Lines of `drover stats` with memcached's names, and the counter that each of them shows.
const MEMCACHED: [(&str, &str); 6] = [
    ("cmd_get", "gets"),
    ("get_hits", "get_hits"),
    ("get_misses", "get_misses"),
    ("cmd_set", "puts"),
    ("cmd_delete", "deletes"),
    ("delete_hits", "delete_hits"),
];

impl ServiceStats {
    /// Text of `drover stats`: lines `name value`, with memcached's names where it has one. `counters` describes the
    /// workers' counters, of which those that are current amounts are left out.
    pub fn text(&self, counters: &[Counter]) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: u64| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} {value}");
        };
        line("uptime", self.uptime_s);
        line("threads", self.workers.len() as u64);
        line("curr_connections", self.clients as u64);
        line("total_connections", self.clients_total);
        line("datagram_connections", self.datagram_clients as u64);
        line("curr_items", self.total(|w| w.partition.items));
        line("bytes", self.total(|w| w.partition.bytes));
        line("limit_maxbytes", self.total(|w| w.partition.bytes_max));
        line("evictions", self.total(|w| w.partition.evicted()));
        line(
            "expired",
            self.total(|w| w.partition.expired + w.partition.reclaimed),
        );
        for (name, counter) in MEMCACHED {
            line(name, self.total(|w| value_of(counters, w, counter)));
        }
        for (index, counter) in counters.iter().enumerate() {
            if counter.kind == CounterKind::Events && !is_shown_as_memcached_does(counter) {
                line(counter.name, self.counter(index));
            }
        }
        line("restarts", self.total(|w| w.restarts));
        for (index, worker) in self.workers.iter().enumerate() {
            let operations = ["gets", "puts", "deletes"].map(|name| value_of(counters, worker, name));
            line(&format!("partition_{index}_ops"), operations.iter().sum());
            line(&format!("partition_{index}_items"), worker.partition.items);
        }
        text
    }

    /// Sum over all workers of the number that `field` selects.
    pub fn total(&self, field: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }

    /// Sum over all workers of the counter at `index`; 0 if there is no such counter. Ignores [`Merge`](crate::Merge).
    pub fn counter(&self, index: usize) -> u64 {
        self.total(|worker| worker.counters.get(index).copied().unwrap_or(0))
    }
}

/// Whether memcached's names show the counter: hits and misses of commands, and the commands themselves.
fn is_shown_as_memcached_does(counter: &Counter) -> bool {
    let feeds_commands = |metric: crate::Metric| metric.family == MetricFamily::COMMANDS;
    counter.metric.is_some_and(feeds_commands) || MEMCACHED.iter().any(|(_, name)| *name == counter.name)
}

/// Value of the counter called `name` for one worker; 0 if there is none.
fn value_of(counters: &[Counter], worker: &WorkerStats, name: &str) -> u64 {
    let index = counters.iter().position(|counter| counter.name == name);
    index
        .and_then(|index| worker.counters.get(index))
        .copied()
        .unwrap_or(0)
}
