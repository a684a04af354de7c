//! [`Cluster`]: the shards of a service and its clients on simulated machines; faults crash, restart and stall
//! machines.

use super::faults::{Fault, Whose};
use super::options::Options;
use crate::actors::{Fabric, Seated, host};
use crate::cluster::{self, ClientStart, ClusterBase};
use crate::door::Door;
use crate::phases::CalmCluster;
use crate::run::TroubledCluster;
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_kv::{Channels, CounterKind, ServiceClient, Shard, ShardedSystem};
use drover_sim::VirtualCpu;
use drover_verbs_sim::WorldOptions;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A shard and the door whose clients it accepts.
struct OpenShard<S> {
    shard: Rc<RefCell<S>>,
    door: Door,
    /// Time between a step that found work and the next one.
    pause: Ns,
    /// End of the current pause.
    next_step: Ns,
}

impl<S: Shard<Fabric>> Actor<VirtualCpu> for OpenShard<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        if cpu.now() < self.next_step {
            let wake_at = self.next_step;
            return Progress::Idle { wake_at };
        }
        let mut shard = self.shard.borrow_mut();
        while let Some(stream) = self.door.accept() {
            shard.adopt(stream);
        }
        match shard.step(cpu) {
            Progress::Busy if self.pause > Ns::ZERO => {
                let wake_at = cpu.now() + self.pause;
                self.next_step = wake_at;
                Progress::Idle { wake_at }
            }
            progress => progress,
        }
    }
}

/// A shard that both its core's actor and the cluster refer to.
type SharedShard<S> = Rc<RefCell<<S as ShardedSystem>::Shard<Fabric>>>;

/// A simulated cluster: the shards of a service and their clients. Handles to actors are declared before the world, so
/// that they are dropped first.
pub struct Cluster<S: ShardedSystem> {
    /// The running shards.
    shards: Vec<Option<SharedShard<S>>>,
    doors: Vec<Door>,
    /// Machines that are down.
    down: BTreeSet<usize>,
    is_service_down: bool,
    /// Number of starts of the service: each start has another hash seed.
    generation: u64,
    options: Options,
    mistake: Option<S::Mistake>,
    base: ClusterBase<S::Client<Fabric>>,
}

impl<S: ShardedSystem> Cluster<S> {
    /// Starts all shards and clients; the clients begin to connect when the simulation runs.
    pub fn new(options: &Options, seed: u64, mistake: Option<S::Mistake>) -> Cluster<S> {
        let first_client = options.shard_machines();
        let shard_count = options.plan.shard_count;
        let mut cluster = Cluster {
            shards: (0..shard_count).map(|_| None).collect(),
            doors: (0..shard_count)
                .map(|_| Door::new("a shard of the cluster"))
                .collect(),
            down: BTreeSet::new(),
            is_service_down: false,
            generation: 1,
            options: options.clone(),
            mistake,
            base: ClusterBase::new(
                world_options(options),
                first_client + options.client_machines,
                seed,
                &options.messages,
                options.load,
                options.machines.horizon,
            ),
        };
        (0..first_client).for_each(|machine| cluster.serve(machine));
        for client in 0..options.clients {
            cluster.seat(first_client + client % options.client_machines, options.load.ops);
        }
        cluster
    }

    /// Indices of the shards on `machine`.
    fn shards_on(&self, machine: usize) -> std::ops::Range<usize> {
        match self.options.is_apart {
            true => machine..(machine + 1).min(self.shards.len()).max(machine),
            false if machine == 0 => 0..self.shards.len(),
            false => 0..0,
        }
    }

    /// Starts the shards of a machine, empty.
    fn serve(&mut self, machine: usize) {
        let device = self.base.device(machine);
        let seed = HashSeed::new(self.options.messages.seed, self.generation);
        let common = <S::Shard<Fabric> as Shard<Fabric>>::Common::default();
        for index in self.shards_on(machine) {
            let plan = &self.options.plan;
            let shard = <S::Shard<Fabric> as Shard<Fabric>>::open(&device, plan, index, seed, &common)
                .expect("a plan that fits the fabric");
            let core = shard.context();
            let shard = Rc::new(RefCell::new(shard));
            let open = OpenShard {
                shard: shard.clone(),
                door: self.doors[index].clone(),
                pause: self.options.machines.shard_pause,
                next_step: Ns::ZERO,
            };
            host(&self.base.world, &core, open);
            self.doors[index].set_open(true);
            self.shards[index] = Some(shard);
        }
    }

    /// Starts a client on `machine`, with `ops` operations to submit: now, or if the machine is down, when it restarts.
    fn seat(&mut self, machine: usize, ops: usize) {
        if self.down.contains(&machine) {
            return self.base.owe(machine, ops);
        }
        let core = self.base.core(machine);
        let dials = self.doors.iter().map(Door::dial).collect();
        let dials = S::FACTS.channels.of_client(dials, self.base.seated.len());
        let connect = &self.options.connect;
        let client = match self.mistake {
            None => S::Client::<Fabric>::open(core.clone(), dials, connect),
            Some(mistake) => S::open_mistaken::<Fabric>(core.clone(), dials, connect, mistake),
        };
        let new = ClientStart {
            client,
            core,
            key_bytes_max: KEY_BYTES_MAX,
            server_stats: None,
        };
        self.base.seat(machine, ops, new);
    }

    fn machines_of(&self, whose: Whose) -> std::ops::Range<usize> {
        match whose {
            Whose::Service => 0..self.options.shard_machines(),
            Whose::Shard(shard) => shard..shard + 1,
            Whose::Clients(machine) => machine..machine + 1,
        }
    }

    /// Crashes those machines of `whose` that run, and everything on them.
    fn crash(&mut self, whose: Whose) {
        self.is_service_down |= whose == Whose::Service;
        for machine in self.machines_of(whose) {
            if !self.down.insert(machine) {
                continue;
            }
            for shard in self.shards_on(machine) {
                self.doors[shard].set_open(false);
                self.shards[shard] = None;
            }
            self.base.crash(machine);
        }
    }

    /// Restarts the machines of `whose`. A shard does not restart while its whole service is down.
    fn restart(&mut self, whose: Whose) {
        match whose {
            Whose::Service => {
                self.is_service_down = false;
                self.generation += 1;
            }
            Whose::Shard(_) if self.is_service_down => return,
            _ => {}
        }
        for machine in self.machines_of(whose) {
            if !self.down.remove(&machine) {
                continue;
            }
            let owed = self.base.restart(machine);
            if machine < self.options.shard_machines() {
                self.serve(machine);
            }
            owed.into_iter().for_each(|ops| self.seat(machine, ops));
        }
    }

    /// Stops one of the cores of clients and shards on `machine` for `time`: number `core_index`, modulo their number.
    /// Does nothing if there are none.
    fn stall(&mut self, machine: usize, core_index: usize, time: Ns) {
        let shards = self
            .shards_on(machine)
            .filter_map(|shard| self.shards[shard].as_ref());
        let cores = shards.map(|shard| shard.borrow().context()).collect();
        self.base.stall(machine, cores, core_index, time);
    }
}

impl<S: ShardedSystem> TroubledCluster for Cluster<S> {
    type Fault = Fault;

    fn afflict(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(whose) => self.crash(whose),
            Fault::Restart(whose) => self.restart(whose),
            Fault::Stall {
                machine,
                core_index,
                time,
            } => self.stall(machine, core_index, time),
            Fault::Arrival { machine } => self.seat(machine, self.options.load.ops),
            Fault::Death { client } => {
                if let Some((machine, ops)) = self.base.kill(client) {
                    self.seat(machine, ops);
                }
            }
        }
    }

    fn calm_down(&mut self) {
        self.base.calm_down();
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        let (mut reads, mut torn) = (0, 0);
        for seated in &self.base.seated {
            if let Some(of_client) = seated.asker.borrow().client.reads() {
                reads += of_client.probes + of_client.records;
                torn += of_client.torn;
            }
        }
        let shards = self.shards.iter().flatten();
        let values: Vec<Vec<u64>> = shards.map(|shard| shard.borrow().counters()).collect();
        let mut counted = vec![("READs", reads), ("of them torn", torn)];
        for (index, counter) in S::FACTS.counters.iter().enumerate() {
            if counter.kind == CounterKind::Events {
                let sum = counter.merged(values.iter().map(|values| values[index]));
                counted.push((counter.name, sum));
            }
        }
        counted
    }

    fn executed_updates(&self) -> Option<u64> {
        let counted = self.counted();
        let of = |name| {
            counted
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, count)| count)
        };
        Some(of("puts")? + of("deletes")?)
    }

    fn has_evicted(&self) -> bool {
        let is_eviction = |&(name, count): &(&str, u64)| name == "evictions" && count > 0;
        self.counted().iter().any(is_eviction)
    }
}

/// Longest key of the load, bytes.
const KEY_BYTES_MAX: usize = 60;

impl<S: ShardedSystem> CalmCluster for Cluster<S> {
    type Client = S::Client<Fabric>;

    fn base(&self) -> &ClusterBase<S::Client<Fabric>> {
        &self.base
    }

    fn is_ready(&self) -> bool {
        let is_ready = |seated: &Seated<S::Client<Fabric>>| seated.asker.borrow_mut().client.is_ready();
        self.base.seated.iter().all(is_ready) && self.leaks().is_empty()
    }

    fn errors(&self) -> Vec<String> {
        let error = |seated: &Seated<S::Client<Fabric>>| seated.asker.borrow_mut().client.take_error();
        let errors = self.base.seated.iter().filter_map(error);
        errors
            .map(|error| error.to_string())
            .chain(self.leaks())
            .collect()
    }

    fn part_count(&self, _: &S::Client<Fabric>) -> usize {
        match S::FACTS.channels {
            Channels::OneShard => 1,
            _ => self.shards.len(),
        }
    }

    fn leaks(&self) -> Vec<String> {
        let clients = self.base.seated.len();
        let is_spread = S::FACTS.channels == Channels::OneShard;
        let (mut leaks, mut sum) = (Vec::new(), 0);
        for (index, shard) in self.shards.iter().enumerate() {
            match shard.as_ref().map(|shard| shard.borrow().client_count()) {
                Some(count) if is_spread || count == clients => sum += count,
                Some(count) => leaks.push(format!("shard {index} serves {count} clients of {clients}")),
                None => leaks.push(format!("shard {index} is down")),
            }
        }
        if is_spread && leaks.is_empty() && sum != clients {
            leaks.push(format!("the shards serve {sum} clients of {clients}"));
        }
        leaks
    }
}

fn world_options(options: &Options) -> WorldOptions {
    let usual = cluster::world_options(options.profile, options.skew_max, options.loss);
    WorldOptions {
        torn: options.tear.is_some(),
        torn_words: options.tear.is_some_and(|tear| tear.is_of_words),
        tear_max: options.tear.map_or(usual.tear_max, |tear| tear.apart_max),
        ..usual
    }
}
