//! [`ServiceStats`]: statistics that all [hosting](crate::HostingSystem) services report, for metrics. They cover
//! native clients, not those of [co-actors](crate::CoActor), except where a partition is meant.

use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;

/// Statistics of one worker of a [hosting](crate::HostingSystem) service since it started.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Values of the system's [counters](crate::Facts::counters), in their order.
    pub counters: Vec<u64>,
    /// Operations of native clients, without those of co-actors' clients.
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
    /// Rounds of the worker's core; all zero for a worker that is stepped by hand.
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

impl ServiceStats {
    /// Sum over all workers of the number that `field` selects.
    pub fn total(&self, field: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }

    /// Sum over all workers of the counter at `index`; 0 if there is no such counter. Ignores [`Merge`](crate::Merge).
    pub fn counter(&self, index: usize) -> u64 {
        self.total(|worker| worker.counters.get(index).copied().unwrap_or(0))
    }
}
