//! [`Cluster`]: the shards of a service and its clients on simulated machines; its methods crash, restart and stall
//! machines.

use super::faults::Whose;
use super::options::Options;
use crate::actors::{Core, Fabric, Seated, fault_counts, host};
use crate::asker::Asker;
use crate::options::Load;
use crate::phases::CalmCluster;
use crate::record::{Record, Stall};
use drover_base::{Actor, HashSeed, Ns, Progress};
use drover_control::{Dial, DialError, LocalListener};
use drover_kv::{CounterKind, ServiceClient, Shard, ShardedSystem};
use drover_sim::{Noise, Ps, VirtualCpu};
use drover_verbs::Device;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{RcOptions, Sim, World, WorldOptions};
use drover_verbs_suite::faulty::{FaultCounts, FaultOptions, FaultyDevice};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shard's address for clients; open while the shard runs.
#[derive(Clone, Default)]
struct Door {
    /// Relaxed: a cluster and everything in it stay on one thread.
    open: Arc<AtomicBool>,
    listener: LocalListener,
}

impl Door {
    fn dial(&self) -> Dial {
        let door = self.clone();
        Dial::new("a simulated shard", move || {
            match door.open.load(Ordering::Relaxed) {
                true => Ok(door.listener.connect()),
                false => Err(DialError::Refused {
                    addr: "a shard of the cluster".to_owned(),
                }),
            }
        })
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
        self.listener.clear();
    }
}

/// A shard and the listener whose clients it accepts.
struct OpenShard<S> {
    shard: Rc<RefCell<S>>,
    listener: LocalListener,
}

impl<S: Shard<Fabric>> Actor<VirtualCpu> for OpenShard<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let mut shard = self.shard.borrow_mut();
        while let Some(stream) = self.listener.accept() {
            shard.adopt(stream);
        }
        shard.step(cpu)
    }
}

/// A shard that both its core's actor and the cluster refer to.
type SharedShard<S> = Rc<RefCell<<S as ShardedSystem>::Shard<Fabric>>>;

/// All shards and clients. Handles to actors are declared before the world, so that they are dropped first.
pub struct Cluster<S: ShardedSystem> {
    /// The running shards.
    shards: Vec<Option<SharedShard<S>>>,
    seated: Vec<Seated<S::Client<Fabric>>>,
    record: Rc<RefCell<Record>>,
    devices: Vec<FaultyDevice<Sim>>,
    doors: Vec<Door>,
    /// Machines that are down.
    down: BTreeSet<usize>,
    is_service_down: bool,
    /// Number of starts of the service: each start has another hash seed.
    generation: u64,
    options: Options,
    mistake: Option<S::Mistake>,
    next_id: u32,
    /// Numbers of operations that crashed clients had left to submit, per machine.
    owed: Vec<Vec<usize>>,
    world: World,
}

impl<S: ShardedSystem> Cluster<S> {
    /// Starts all shards and clients, which begin to connect when the simulation runs.
    pub fn new(options: &Options, seed: u64, mistake: Option<S::Mistake>) -> Cluster<S> {
        let first_client = options.shard_machines();
        let machines = first_client + options.client_machines;
        let world = World::with_options(world_options(options), machines, seed);
        let shard_count = options.plan.shard_count;
        let mut cluster = Cluster {
            shards: (0..shard_count).map(|_| None).collect(),
            seated: Vec::new(),
            record: Rc::default(),
            devices: Vec::new(),
            doors: (0..shard_count).map(|_| Door::default()).collect(),
            down: BTreeSet::new(),
            is_service_down: false,
            generation: 1,
            options: options.clone(),
            mistake,
            next_id: 0,
            owed: vec![Vec::new(); machines],
            world,
        };
        (0..first_client).for_each(|machine| cluster.serve(machine));
        for client in 0..options.clients {
            cluster.seat(first_client + client % options.client_machines, options.load.ops);
        }
        cluster
    }

    fn device(&mut self, machine: usize) -> FaultyDevice<Sim> {
        let messages = FaultOptions {
            seed: self.options.messages.seed ^ drover_base::mix(self.devices.len() as u64 + 1),
            ..self.options.messages.clone()
        };
        let device = FaultyDevice::new(self.world.device(machine), messages);
        self.devices.push(device.clone());
        device
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
        let device = self.device(machine);
        let seed = HashSeed::new(self.options.messages.seed, self.generation);
        for index in self.shards_on(machine) {
            let shard = <S::Shard<Fabric> as Shard<Fabric>>::open(&device, &self.options.plan, index, seed)
                .expect("a plan that fits the fabric");
            let core = shard.context();
            let shard = Rc::new(RefCell::new(shard));
            let open = OpenShard {
                shard: shard.clone(),
                listener: self.doors[index].listener.clone(),
            };
            host(&self.world, &core, open);
            self.doors[index].set(true);
            self.shards[index] = Some(shard);
        }
    }

    /// Starts a client on `machine`, with `ops` operations to submit: now, or if the machine is down, when it restarts.
    pub fn seat(&mut self, machine: usize, ops: usize) {
        if self.down.contains(&machine) {
            return self.owed[machine].push(ops);
        }
        let device = self.device(machine);
        let core: Core = Rc::new(device.context().expect("a context on this thread"));
        let dials = self.doors.iter().map(Door::dial).collect();
        let connect = &self.options.connect;
        let client = match self.mistake {
            None => S::Client::<Fabric>::open(core.clone(), dials, connect),
            Some(mistake) => S::open_mistaken::<Fabric>(core.clone(), dials, connect, mistake),
        };
        let load = Load {
            ops,
            ..self.options.load
        };
        let span = self.options.machines.horizon.since(self.world.now());
        let seed = self.options.messages.seed;
        let asker = Asker::new(
            self.next_id,
            client,
            load,
            span,
            KEY_BYTES_MAX,
            seed,
            self.record.clone(),
        );
        self.next_id += 1;
        let asker = host(&self.world, &core, asker);
        self.seated.push(Seated { asker, core, machine });
    }

    fn machines_of(&self, whose: Whose) -> std::ops::Range<usize> {
        match whose {
            Whose::Service => 0..self.options.shard_machines(),
            Whose::Shard(shard) => shard..shard + 1,
            Whose::Clients(machine) => machine..machine + 1,
        }
    }

    /// Crashes those machines of `whose` that run, and everything on them.
    pub fn crash(&mut self, whose: Whose) {
        self.is_service_down |= whose == Whose::Service;
        for machine in self.machines_of(whose) {
            if self.down.insert(machine) {
                self.crash_machine(machine);
            }
        }
    }

    fn crash_machine(&mut self, machine: usize) {
        for shard in self.shards_on(machine) {
            self.doors[shard].set(false);
            self.shards[shard] = None;
        }
        let (gone, here): (Vec<_>, _) = std::mem::take(&mut self.seated)
            .into_iter()
            .partition(|seated| seated.machine == machine);
        self.seated = here;
        for seated in gone {
            let asker = seated.asker.borrow();
            self.record.borrow_mut().orphan(asker.id);
            self.owed[machine].push(asker.left);
        }
        self.world.crash(machine);
    }

    /// Restarts those machines of `whose` that are down: shards empty, and clients with the operations that they had
    /// left. A shard does not restart while its whole service is down.
    pub fn restart(&mut self, whose: Whose) {
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
            self.world.restart(machine);
            if machine < self.options.shard_machines() {
                self.serve(machine);
            }
            for ops in std::mem::take(&mut self.owed[machine]) {
                self.seat(machine, ops);
            }
        }
    }

    /// Stops one of the cores of clients and shards on `machine` for `time`: number `core_index`, modulo their number.
    /// Does nothing if there are none.
    pub fn stall(&mut self, machine: usize, core_index: usize, time: Ns) {
        let here = self.seated.iter().filter(|seated| seated.machine == machine);
        let mut cores: Vec<(Core, Option<u32>)> = here
            .map(|seated| (seated.core.clone(), Some(seated.asker.borrow().id)))
            .collect();
        let shards = self
            .shards_on(machine)
            .filter_map(|shard| self.shards[shard].as_ref());
        cores.extend(shards.map(|shard| (shard.borrow().context(), None)));
        if cores.is_empty() {
            return;
        }
        let (core, client) = &cores[core_index % cores.len()];
        self.world.stall(core.inner(), time);
        if let Some(client) = *client {
            self.record.borrow_mut().stalls.push(Stall {
                client,
                from: Ps::from(self.world.now()).0,
                time: Ps::from(time).0,
            });
        }
    }

    /// Stops breaks of connections and the loss of packets; messages are still torn.
    pub fn calm_down(&mut self) {
        self.devices.iter().for_each(|device| device.set_active(false));
        self.world.set_loss(0.0);
    }

    /// Numbers of faults that the devices of all clients and shards have injected, crashed ones included.
    pub fn fault_counts(&self) -> FaultCounts {
        fault_counts(&self.devices)
    }

    /// Sums of the counters of the running clients and shards, by name.
    pub fn counted(&self) -> Vec<(&'static str, u64)> {
        let (mut reads, mut torn) = (0, 0);
        for seated in &self.seated {
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
}

/// Longest key of the load, bytes.
const KEY_BYTES_MAX: usize = 60;

impl<S: ShardedSystem> CalmCluster for Cluster<S> {
    type Client = S::Client<Fabric>;

    fn world(&self) -> &World {
        &self.world
    }

    fn record(&self) -> &Rc<RefCell<Record>> {
        &self.record
    }

    fn seated(&self) -> &[Seated<S::Client<Fabric>>] {
        &self.seated
    }

    fn is_ready(&self) -> bool {
        let is_ready = |seated: &Seated<S::Client<Fabric>>| seated.asker.borrow_mut().client.is_ready();
        self.seated.iter().all(is_ready) && self.leaks().is_empty()
    }

    fn errors(&self) -> Vec<String> {
        let error = |seated: &Seated<S::Client<Fabric>>| seated.asker.borrow_mut().client.take_error();
        let errors = self.seated.iter().filter_map(error);
        errors
            .map(|error| error.to_string())
            .chain(self.leaks())
            .collect()
    }

    fn part_count(&self, _: &S::Client<Fabric>) -> usize {
        self.shards.len()
    }

    fn leaks(&self) -> Vec<String> {
        let clients = self.seated.len();
        let mut leaks = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            match shard.as_ref().map(|shard| shard.borrow().client_count()) {
                Some(count) if count == clients => {}
                Some(count) => leaks.push(format!("shard {index} serves {count} clients of {clients}")),
                None => leaks.push(format!("shard {index} is down")),
            }
        }
        leaks
    }
}

fn world_options(options: &Options) -> WorldOptions {
    let profile = Profile::named(options.profile).expect("a profile that comes with the program");
    let usual = WorldOptions::new(profile);
    WorldOptions {
        noise: Noise {
            skew_max: options.skew_max,
            ..Noise::OFF
        },
        loss: options.loss,
        torn: options.tear_max.is_some(),
        tear_max: options.tear_max.unwrap_or(usual.tear_max),
        // Values of a hundred kilobytes are copied in one step.
        step_cap: Ns::from_ms(1),
        rc: RcOptions {
            timeout: Ns::from_us(500),
            ..RcOptions::default()
        },
        ..usual
    }
}
