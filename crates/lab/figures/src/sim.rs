//! Clusters of simulated machines: the only place where this crate names its provider.

use crate::cluster::{self, BusyTimes, Cluster, ClusterOptions, Clusters, Thread};
use crate::micro;
use crate::run::MakeClusters;
use drover_base::{Actor, Ns};
use drover_sim::VirtualCpu;
use drover_verbs::{Context, Device, Domain, DomainOptions};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{
    ATOMIC_LOCK, Ablations, Doorbells, Report, Sim, SimContext, SimDomain, World, WorldOptions,
};
use std::collections::BTreeMap;

/// Makes creators of simulated clusters, all without the same hardware limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated {
    /// Limits of the hardware that the simulation leaves out.
    pub ablations: Ablations,
}

impl MakeClusters for Simulated {
    type Clusters = SimClusters;

    fn ablations(&self) -> Ablations {
        self.ablations
    }

    fn under(&self, profile: &Profile) -> SimClusters {
        let mut options = WorldOptions::new(profile.clone());
        options.ablations = self.ablations;
        let costs = micro::costs(profile.parameters());
        options.costs = costs
            .into_iter()
            .map(|(name, ns)| (name.to_string(), ns))
            .collect();
        SimClusters { options }
    }
}

/// Creates clusters of simulated machines that have one profile.
pub struct SimClusters {
    options: WorldOptions,
}

impl Clusters for SimClusters {
    type Cluster = SimCluster;

    fn cluster(&self, options: &ClusterOptions) -> SimCluster {
        SimCluster {
            world: World::with_options(self.options.clone(), options.machines, options.seed),
            doorbells: match options.doorbells {
                cluster::Doorbells::Driver => Doorbells::Driver,
                cluster::Doorbells::PerThread => Doorbells::PerContext,
            },
            processes: BTreeMap::new(),
            contexts: BTreeMap::new(),
        }
    }
}

/// A simulated cluster.
pub struct SimCluster {
    world: World,
    doorbells: Doorbells,
    /// Domains by machine and process.
    processes: BTreeMap<(usize, usize), SimDomain>,
    contexts: BTreeMap<Thread, SimContext>,
}

impl Cluster for SimCluster {
    type Provider = Sim;

    fn context(&mut self, thread: Thread) -> &SimContext {
        let (world, doorbells) = (&self.world, self.doorbells);
        let process = self.processes.entry((thread.machine, thread.process));
        let domain = process.or_insert_with(|| {
            let device = world.device(thread.machine);
            let domain = device.domain(&DomainOptions::with(doorbells));
            domain.expect("the cluster lives on this thread")
        });
        let context = self.contexts.entry(thread);
        context.or_insert_with(|| domain.context().expect("the cluster lives on this thread"))
    }

    fn sharing(&mut self, thread: Thread) -> Option<(SimDomain, SimContext)> {
        let cpu = self.context(thread).cpu().clone();
        let domain = self.processes[&(thread.machine, thread.process)].clone();
        let context = domain.context_on(&cpu);
        Some((domain, context.expect("the cluster lives on this thread")))
    }

    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<VirtualCpu>>) {
        self.context(thread);
        self.world.spawn(&self.contexts[&thread], actor);
    }

    fn run_until(&mut self, time: Ns) {
        self.world.run_until(time);
    }

    fn busy(&self, machine: usize) -> Option<BusyTimes> {
        let report = self.world.report();
        Some(busy_times(&report, machine))
    }

    fn counter(&self, machine: usize, name: &str) -> Option<u64> {
        let report = self.world.report();
        let found = report.machines.get(machine)?;
        match name {
            "pcie_in_bytes" => Some(found.bus_bytes.1),
            "wqe_refetched_lines" => Some(found.counters.wqe_cache_misses),
            _ => found
                .counters
                .by_name()
                .into_iter()
                .find(|(n, _)| *n == name)
                .map(|(_, count)| count),
        }
    }
}

fn busy_times(report: &Report, machine: usize) -> BusyTimes {
    let Some(found) = report.machines.get(machine) else {
        return BusyTimes::new();
    };
    let card = found
        .parts
        .by_name()
        .into_iter()
        .map(|(name, usage)| (name.to_string(), usage.busy.as_ns()));
    let cores = found.cores.iter().map(|core| core.busy.as_ns());
    let cpu = cores.fold(0.0, f64::max);
    let lock = found.busiest_atomic_lock().map_or(0.0, |(_, held)| held.as_ns());
    card.chain([
        (ATOMIC_LOCK.to_string(), lock),
        ("cpu".to_string(), cpu),
        ("doorbell".to_string(), report.doorbell.as_ns()),
        ("shared queue".to_string(), report.shared_queue.as_ns()),
    ])
    .collect()
}
