//! [`ServiceStats`]: statistics that all [hosting](crate::HostingSystem) services report, for metrics.

use drover_base::Spread;
use drover_rt::RunStats;
use drover_store::PartitionStats;

/// Statistics of one worker since it started.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Values of the system's [counters](crate::Facts::counters), in their order.
    pub counters: Vec<u64>,
    /// Operations of native clients.
    pub operations: u64,
    /// Statistics of the worker's partition.
    pub partition: PartitionStats,
    /// Current number of clients.
    pub clients: usize,
    /// Restarts after a panic.
    pub restarts: u64,
    /// Durations of native requests: from the start of the round in which a request was found to the end of the round,
    /// when the fabric had the reply. Empty for a worker that is stepped by hand.
    pub durations: Spread,
    /// Rounds of the worker's core; all zero for a worker that is stepped by hand.
    pub run: RunStats,
}

/// Statistics of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceStats {
    /// One per partition, in their order.
    pub workers: Vec<WorkerStats>,
    /// Current number of clients.
    pub clients: usize,
    /// Current number of clients that send datagrams.
    pub datagram_clients: usize,
    /// Number of clients since the start.
    pub clients_total: u64,
    /// Seconds since the start.
    pub uptime_s: u64,
}

impl ServiceStats {
    /// Sum over all workers of the number that `field` selects.
    pub fn total(&self, field: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }

    /// Sum over all workers of the counter at `index`.
    pub fn counter(&self, index: usize) -> u64 {
        self.total(|worker| worker.counters.get(index).copied().unwrap_or(0))
    }
}
