//! [`Cluster`]: a cluster of machines that microbenchmarks run in, whoever provides it.
//!
//! A microbenchmark asks for processes and threads, gets the ordinary verbs API for each, hands over actors and
//! lets time pass. What a cluster of simulated machines can tell besides (how busy each part was) has methods that a
//! cluster without such knowledge answers with nothing.

use drover_base::{Actor, Ns};
use drover_verbs::Provider;
use std::collections::BTreeMap;

/// How the threads of a process come by doorbell registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doorbells {
    /// As the driver deals them out: some shared, under locks.
    #[default]
    Driver,
    /// One for every thread.
    PerThread,
}

/// A thread of a process: where its context is made and its actor runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Thread {
    /// Machine, counted from 0.
    pub machine: usize,
    /// Process of that machine, counted from 0.
    pub process: usize,
    /// Thread of that process, counted from 0.
    pub thread: usize,
}

/// Parts of machine 0, and for how long each has been busy.
pub type BusyTimes = BTreeMap<String, f64>;

/// A cluster of machines.
pub trait Cluster: 'static {
    /// The fabric between them.
    type Provider: Provider;

    /// The context of a thread, made at the first call for it.
    fn context(&mut self, thread: Thread) -> &<Self::Provider as Provider>::Context;

    /// Runs `actor` on the core of `thread` from now on.
    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<<Self::Provider as Provider>::Cpu>>);

    /// Lets time pass until `time`, counted from the making of the cluster.
    fn run_until(&mut self, time: Ns);

    /// Nanoseconds for which each part of `machine` has been busy so far, times its number of servers if it has
    /// several; `None` if nobody knows.
    fn busy(&self, machine: usize) -> Option<BusyTimes>;

    /// The counter `name` of `machine`'s card; `None` if there is none of that name.
    fn counter(&self, machine: usize, name: &str) -> Option<u64>;
}

/// What a cluster is made of.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// Machines.
    pub machines: usize,
    /// How threads come by doorbells.
    pub doorbells: Doorbells,
    /// For whatever is drawn.
    pub seed: u64,
}

/// Makes clusters. Shared by the threads that run points.
pub trait Clusters: Sync {
    /// What it makes.
    type Cluster: Cluster;

    /// A new cluster, at time 0.
    fn cluster(&self, options: &ClusterOptions) -> Self::Cluster;
}
