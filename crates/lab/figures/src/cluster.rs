//! [`Cluster`]: a cluster of machines for microbenchmarks, over any provider.
//!
//! A microbenchmark requests processes and threads, gets the ordinary verbs API for each, starts actors and lets time
//! pass. Methods that only simulated machines can answer (how busy each part was) return `None` on other clusters.

use drover_base::{Actor, Ns};
use drover_verbs::Provider;
use std::collections::BTreeMap;

/// Assignment of doorbell registers to the threads of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doorbells {
    /// The driver's default: some threads share a register, under a lock.
    #[default]
    Driver,
    /// Every thread has a register of its own.
    PerThread,
}

/// Identifies a thread by machine, process and number. Each thread has one context and runs one actor on a core of its
/// own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Thread {
    /// Machine, counted from 0.
    pub machine: usize,
    /// Process of that machine, counted from 0.
    pub process: usize,
    /// Thread of that process, counted from 0.
    pub thread: usize,
}

/// Busy times in nanoseconds of the parts of a machine, by name.
pub type BusyTimes = BTreeMap<String, f64>;

/// A cluster of machines in which a microbenchmark runs: it gives each thread a context, runs actors, and lets time
/// pass.
pub trait Cluster: 'static {
    /// Provider of the fabric between the machines.
    type Provider: Provider;

    /// Returns the context of `thread`; the first call creates it.
    fn context(&mut self, thread: Thread) -> &<Self::Provider as Provider>::Context;

    /// The domain of the process of `thread`, and a further context of it on the core of `thread`. `None` (the default) on
    /// clusters whose threads share nothing.
    #[allow(clippy::type_complexity, reason = "a pair")]
    fn sharing(
        &mut self,
        thread: Thread,
    ) -> Option<(
        <Self::Provider as Provider>::Domain,
        <Self::Provider as Provider>::Context,
    )> {
        let _ = thread;
        None
    }

    /// Starts `actor` on the core of `thread`.
    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<<Self::Provider as Provider>::Cpu>>);

    /// Runs the cluster until `time`, counted from its creation.
    fn run_until(&mut self, time: Ns);

    /// Busy time of each part of `machine` since the creation of the cluster; `None` if the provider does not know. The
    /// entry `cpu` is for the machine's busiest core, `atomic lock` for the lock of its hottest word, `doorbell` for the most used doorbell register of the whole
    /// cluster, `shared queue` for the lock of its most used shared queue.
    fn busy(&self, machine: usize) -> Option<BusyTimes>;

    /// Present value of the counter `name` of `machine`'s card, counted from the creation of the cluster; `None` if the
    /// counter or the machine does not exist.
    fn counter(&self, machine: usize, name: &str) -> Option<u64>;
}

/// Options of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// Number of machines, clients and servers together.
    pub machines: usize,
    /// Assignment of doorbells to threads.
    pub doorbells: Doorbells,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Creates clusters, all with the same hardware. The threads that run points share it.
pub trait Clusters: Sync {
    /// Type of the clusters.
    type Cluster: Cluster;

    /// Creates a cluster at time 0.
    fn cluster(&self, options: &ClusterOptions) -> Self::Cluster;
}
