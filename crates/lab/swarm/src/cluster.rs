//! [`Cluster`]: a server and its clients on simulated machines; its methods crash, restart and stall machines.

use crate::actors::{Core, Fabric, Seated, fault_counts, host};
use crate::asker::{Asker, ServerStats};
use crate::non_client::NonClient;
use crate::options::Options;
use crate::phases::CalmCluster;
use crate::planted::SimVariant;
use crate::record::{Record, Stall};
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_control::{ControlStream, DialError};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::control::Format;
use drover_kv_herd::server::{Acceptor, ClientLimits, IdentityOptions, Server, ServerOptions, Worker};
use drover_sim::{Noise, Ps, VirtualCpu};
use drover_verbs::{Context, Device};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World, WorldOptions};
use drover_verbs_suite::faulty::{FaultCounts, FaultOptions, FaultyDevice};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

type SimAcceptor = Acceptor<Fabric, SimVariant>;
type SimWorker = Worker<Fabric, SimVariant>;
/// A client of either format.
pub type Client = HerdClient<Fabric, Format>;

/// Index of the server's machine; clients are on the others.
pub const SERVER: usize = 0;

/// The server's address for clients.
#[derive(Default)]
struct Door {
    open: bool,
    waiting: Vec<ControlStream>,
}

type SharedDoor = Arc<Mutex<Door>>;

/// The acceptor, which polls its control channels at intervals.
struct Doorkeeper {
    acceptor: Rc<RefCell<SimAcceptor>>,
    door: SharedDoor,
    look_every: Ns,
}

impl Actor<VirtualCpu> for Doorkeeper {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let mut acceptor = self.acceptor.borrow_mut();
        for stream in self.door.lock().expect("nobody panics with it").waiting.drain(..) {
            acceptor.adopt(stream);
        }
        let wake_at = cpu.now() + self.look_every;
        acceptor.step(cpu).and(Progress::Idle { wake_at })
    }
}

/// A running server.
pub struct Served {
    pub acceptor: Rc<RefCell<SimAcceptor>>,
    pub workers: Vec<Rc<RefCell<SimWorker>>>,
}

/// The server and all clients. Handles to actors are declared before the world, so that they are dropped first.
pub struct Cluster {
    pub served: Option<Served>,
    pub seated: Vec<Seated<Client>>,
    pub record: Rc<RefCell<Record>>,
    non_clients: Vec<Rc<RefCell<NonClient>>>,
    /// Whether the running server is shutting down.
    leaving: bool,
    devices: Vec<FaultyDevice<Sim>>,
    door: SharedDoor,
    options: Options,
    next_id: u32,
    /// Epoch of the current or last server.
    epoch: u64,
    /// Numbers of operations that crashed clients had left to submit, per machine.
    owed: Vec<Vec<usize>>,
    pub world: World,
}

impl Cluster {
    /// A cluster whose clients begin to connect.
    pub fn new(options: &Options, seed: u64) -> Cluster {
        let machines = 1 + options.client_machines;
        let world = World::with_options(world_options(options), machines, seed);
        let mut cluster = Cluster {
            served: None,
            seated: Vec::new(),
            record: Rc::default(),
            non_clients: Vec::new(),
            leaving: false,
            devices: Vec::new(),
            door: SharedDoor::default(),
            options: options.clone(),
            next_id: 0,
            epoch: 0,
            owed: vec![Vec::new(); machines],
            world,
        };
        cluster.serve();
        for client in 0..options.clients {
            cluster.faulty_actor(1 + client % options.client_machines, options.load.ops);
        }
        cluster
    }

    fn device(&mut self, machine: usize) -> FaultyDevice<Sim> {
        let messages = FaultOptions {
            seed: self.options.network.messages.seed ^ drover_base::mix(self.devices.len() as u64 + 1),
            ..self.options.network.messages.clone()
        };
        let device = FaultyDevice::new(self.world.device(machine), messages);
        self.devices.push(device.clone());
        device
    }

    fn serve(&mut self) {
        let device = self.device(SERVER);
        self.epoch += 1;
        let options = ServerOptions {
            identity: IdentityOptions {
                epoch: Some(self.epoch),
                hash_seed: Some(HashSeed::new(self.options.network.messages.seed, self.epoch)),
            },
            clients: ClientLimits {
                count_max: match self.options.full_house {
                    true => self.options.clients,
                    false => self.options.server.clients.count_max,
                },
                ..self.options.server.clients
            },
            ..self.options.server.clone()
        };
        let (acceptor, workers) = Server::<Fabric>::in_pieces_as(&device, &options, self.options.variant)
            .expect("options that fit the fabric");
        let workers = workers.into_iter().map(|worker| {
            let core = worker.context();
            host(&self.world, &core, worker)
        });
        let workers = workers.collect();
        let core = acceptor.context();
        let acceptor = Rc::new(RefCell::new(acceptor));
        let doorkeeper = Doorkeeper {
            acceptor: acceptor.clone(),
            door: self.door.clone(),
            look_every: self.options.look_every,
        };
        host(&self.world, &core, doorkeeper);
        self.door().open = true;
        self.served = Some(Served { acceptor, workers });
    }

    fn door(&self) -> std::sync::MutexGuard<'_, Door> {
        self.door.lock().expect("nobody panics with it")
    }

    fn dial(&self) -> Dial {
        let door = self.door.clone();
        Dial::new("the simulated server", move || {
            let mut door = door.lock().expect("nobody panics with it");
            if !door.open {
                let addr = "the cluster's server".to_owned();
                return Err(DialError::Refused { addr });
            }
            let (ours, theirs) = ControlStream::pair();
            door.waiting.push(theirs);
            Ok(ours)
        })
    }

    /// Starts a client on `machine`, with `ops` operations to submit.
    fn faulty_actor(&mut self, machine: usize, ops: usize) {
        let device = self.device(machine);
        let core = Rc::new(device.context().expect("a context on this thread"));
        let client = HerdClient::with_format(
            core.clone(),
            self.dial(),
            self.options.client.clone(),
            self.options.format,
        );
        let load = crate::options::Load {
            ops,
            ..self.options.load
        };
        let span = self.options.machines.horizon.since(self.world.now());
        let key_bytes_max = self.options.client.slot_bytes.saturating_sub(44).min(60);
        let mut asker = Asker::new(
            self.next_id,
            client,
            load,
            span,
            key_bytes_max,
            self.options.network.messages.seed,
            self.record.clone(),
        );
        asker.server_stats = Some(ServerStats {
            ask: HerdClient::ask_server_stats,
            take: HerdClient::take_server_stats,
        });
        self.next_id += 1;
        let asker = host(&self.world, &core, asker);
        self.seated.push(Seated { asker, core, machine });
    }

    /// Crashes the machine and everything on it.
    pub fn crash(&mut self, machine: usize) {
        if machine == SERVER {
            let mut door = self.door();
            door.open = false;
            door.waiting.clear();
            drop(door);
            self.served = None;
            self.leaving = false;
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

    /// Restarts the machine, with new actors in place of those that were on it.
    pub fn restart(&mut self, machine: usize) {
        self.world.restart(machine);
        if machine == SERVER {
            return self.serve();
        }
        for ops in std::mem::take(&mut self.owed[machine]) {
            self.faulty_actor(machine, ops);
        }
    }

    /// Closes a client properly, and starts another one in its place.
    pub fn goodbye(&mut self, index: usize) {
        if self.seated.is_empty() {
            return;
        }
        let seated = self.seated.remove(index % self.seated.len());
        let ops = seated.asker.borrow_mut().close(seated.core.cpu());
        self.faulty_actor(seated.machine, ops);
    }

    /// Shuts the running server down properly: it notifies its clients. Clients that connect from now on are refused.
    pub fn shut_down(&mut self) {
        if let Some(served) = &self.served {
            let mut acceptor = served.acceptor.borrow_mut();
            acceptor.stop();
            acceptor.context().waker().wake();
            self.leaving = true;
        }
    }

    /// Starts another server in place of one that is shutting down.
    pub fn succeed(&mut self) {
        if self.leaving {
            self.crash(SERVER);
            self.restart(SERVER);
        }
    }

    /// Connects a peer that is no client, if the server listens.
    pub fn connect_non_client(&mut self, index: usize) {
        let Ok(stream) = self.dial().attempt() else {
            return;
        };
        let device = self.device(1);
        let core = Rc::new(device.context().expect("a context on this thread"));
        let non_client = host(&self.world, &core, NonClient::new(stream, index));
        self.non_clients.push(non_client);
    }

    /// Restarts a worker of the running server with an empty partition.
    pub fn restart_worker(&mut self, index: usize) {
        let Some(served) = &self.served else {
            return;
        };
        let worker = &served.workers[index % served.workers.len()];
        worker
            .borrow_mut()
            .restart()
            .expect("a partition could be made before");
    }

    /// Stops a core of the machine for `time`.
    pub fn stall(&mut self, machine: usize, core_index: usize, time: Ns) {
        let mut cores: Vec<Core> = self
            .seated
            .iter()
            .filter(|seated| seated.machine == machine)
            .map(|seated| seated.core.clone())
            .collect();
        if let Some(served) = self.served.as_ref().filter(|_| machine == SERVER) {
            cores.push(served.acceptor.borrow().context());
            cores.extend(served.workers.iter().map(|worker| worker.borrow().context()));
        }
        if cores.is_empty() {
            return;
        }
        let index = core_index % cores.len();
        self.world.stall(cores[index].inner(), time);
        // Cores of clients come first.
        let mut here = self.seated.iter().filter(|seated| seated.machine == machine);
        if let Some(seated) = here.nth(index) {
            self.record.borrow_mut().stalls.push(Stall {
                client: seated.asker.borrow().id,
                from: Ps::from(self.world.now()).0,
                time: Ps::from(time).0,
            });
        }
    }

    /// Stops the injection of faults; delayed messages still arrive.
    pub fn calm_down(&mut self) {
        self.non_clients
            .drain(..)
            .for_each(|non_client| non_client.borrow_mut().leave());
        self.devices.iter().for_each(|device| device.set_active(false));
        self.world.set_loss(0.0);
    }

    /// Number of faults injected into messages.
    pub fn fault_counts(&self) -> FaultCounts {
        fault_counts(&self.devices)
    }
}

impl CalmCluster for Cluster {
    type Client = Client;

    fn world(&self) -> &World {
        &self.world
    }

    fn record(&self) -> &Rc<RefCell<Record>> {
        &self.record
    }

    fn seated(&self) -> &[Seated<Client>] {
        &self.seated
    }

    fn is_ready(&self) -> bool {
        let is_ready = |seated: &Seated<Client>| {
            let asker = seated.asker.borrow();
            asker.client.is_ready() && asker.client.epoch() == Some(self.epoch)
        };
        let sessions = |served: &Served| served.acceptor.borrow().session_count();
        self.seated.iter().all(is_ready) && self.served.as_ref().map(sessions) == Some(self.seated.len())
    }

    fn errors(&self) -> Vec<String> {
        let error = |seated: &Seated<Client>| seated.asker.borrow_mut().client.take_error();
        let errors = self.seated.iter().filter_map(error);
        errors.map(|error| error.to_string()).collect()
    }

    fn part_count(&self, client: &Client) -> usize {
        client.partition_count().unwrap_or(1)
    }

    fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        let Some(served) = &self.served else {
            return leaks;
        };
        let (sessions, clients) = (served.acceptor.borrow().session_count(), self.seated.len());
        if sessions != clients {
            leaks.push(format!("{sessions} sessions of {clients} clients"));
        }
        for (n, worker) in served.workers.iter().enumerate() {
            let served = worker.borrow().stats().clients;
            if served != clients {
                leaks.push(format!("worker {n} serves {served} clients of {clients}"));
            }
        }
        leaks
    }
}

fn world_options(options: &Options) -> WorldOptions {
    let profile = Profile::named(options.profile).expect("a profile that comes with the program");
    let slot_poll = profile.parameters().cpu.slot_poll_ns;
    WorldOptions {
        costs: vec![("herd.poll".into(), slot_poll)],
        noise: Noise {
            skew_max: options.machines.skew_max,
            ..Noise::OFF
        },
        loss: options.network.loss,
        torn: options.network.torn,
        lossless: options.network.lossless,
        // Values of a hundred kilobytes are copied in one step.
        step_cap: Ns::from_ms(1),
        rc_timeout: Ns::from_us(500),
        ..WorldOptions::new(profile)
    }
}
