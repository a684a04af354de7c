//! [`Cluster`]: a cluster of machines for microbenchmarks, from any provider.
//!
//! A microbenchmark requests processes and threads, gets the ordinary verbs API for each, starts actors and lets time
//! pass. Methods about what only simulated machines know (how busy each part was) return nothing on other clusters.

use drover_base::{Actor, Ns};
use drover_verbs::Provider;
use std::collections::BTreeMap;

/// Assignment of doorbell registers to the threads of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doorbells {
    /// As the driver assigns them: some are shared, under locks.
    #[default]
    Driver,
    /// One for every thread.
    PerThread,
}

/// A thread of a process: its context is made there and its actor runs there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Thread {
    /// Machine, counted from 0.
    pub machine: usize,
    /// Process of that machine, counted from 0.
    pub process: usize,
    /// Thread of that process, counted from 0.
    pub thread: usize,
}

/// Busy time of each part of machine 0, nanoseconds.
pub type BusyTimes = BTreeMap<String, f64>;

/// A cluster of machines.
pub trait Cluster: 'static {
    /// Provider of the fabric between the machines.
    type Provider: Provider;

    /// Context of a thread, made at the first call.
    fn context(&mut self, thread: Thread) -> &<Self::Provider as Provider>::Context;

    /// Starts `actor` on the core of `thread`.
    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<<Self::Provider as Provider>::Cpu>>);

    /// Runs until `time`, counted from the construction of the cluster.
    fn run_until(&mut self, time: Ns);

    /// Busy time of each part of `machine` so far, nanoseconds, multiplied by its number of servers if it has several;
    /// `None` if unknown.
    fn busy(&self, machine: usize) -> Option<BusyTimes>;

    /// The counter `name` of `machine`'s card; `None` if it does not exist.
    fn counter(&self, machine: usize, name: &str) -> Option<u64>;
}

/// Options of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// Number of machines.
    pub machines: usize,
    /// Assignment of doorbells to threads.
    pub doorbells: Doorbells,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Makes clusters. Shared by the threads that run points.
pub trait Clusters: Sync {
    /// Type of the clusters.
    type Cluster: Cluster;

    /// A new cluster, at time 0.
    fn cluster(&self, options: &ClusterOptions) -> Self::Cluster;
}
