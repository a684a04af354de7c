//! [`Cluster`]: a server and its clients on simulated machines; faults crash, restart and stall machines.

use super::faults::{Fault, SERVER};
use super::non_client::{Behaviour, NonClient};
use super::options::Options;
use super::{ClientCounter, SimAcceptor, SimClient, SimWorker, WorkerSystem};
use crate::actors::{Seated, host};
use crate::asker::ServerStats;
use crate::cluster::{self, ClientStart, ClusterBase};
use crate::door::Door;
use crate::phases::CalmCluster;
use crate::run::TroubledCluster;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_sim::{FaultKind, VirtualCpu};
use drover_verbs::Context;
use drover_verbs_sim::WorldOptions;
use std::cell::RefCell;
use std::rc::Rc;

/// The acceptor, which polls its control channels at intervals.
struct Doorkeeper<A> {
    acceptor: Rc<RefCell<A>>,
    door: Door,
    look_every: Ns,
}

impl<A: SimAcceptor> Actor<VirtualCpu> for Doorkeeper<A> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let mut acceptor = self.acceptor.borrow_mut();
        while let Some(stream) = self.door.accept() {
            acceptor.adopt(stream);
        }
        let wake_at = cpu.now() + self.look_every;
        acceptor.step(cpu).and(Progress::Idle { wake_at })
    }
}

/// A running server.
struct Served<T: WorkerSystem> {
    /// Actor that accepts clients.
    acceptor: Rc<RefCell<T::Acceptor>>,
    /// Actors that execute requests, by partition.
    workers: Vec<Rc<RefCell<T::Worker>>>,
}

/// A simulated cluster: a server and its clients. Handles to actors are declared before the world, so that they are
/// dropped first.
pub struct Cluster<T: WorkerSystem> {
    /// The running server; `None` while its machine is down.
    served: Option<Served<T>>,
    non_clients: Vec<Rc<RefCell<NonClient>>>,
    /// Whether the running server is shutting down.
    leaving: bool,
    door: Door,
    options: Options,
    mistake: Option<T::Mistake>,
    /// Number of starts of a server, and the epoch of the current or last one.
    epoch: u64,
    base: ClusterBase<T::Client>,
}

impl<T: WorkerSystem> Cluster<T> {
    /// Starts the server and all clients; the clients begin to connect when the simulation runs.
    pub fn new(options: &Options, seed: u64, mistake: Option<T::Mistake>) -> Cluster<T> {
        let mut cluster = Cluster {
            served: None,
            non_clients: Vec::new(),
            leaving: false,
            door: Door::new("the cluster's server"),
            options: options.clone(),
            mistake,
            epoch: 0,
            base: ClusterBase::new(
                world_options(options, T::POLL_COST),
                1 + options.client_machines,
                seed,
                &options.network.messages,
                options.load,
                options.machines.horizon,
            ),
        };
        cluster.serve();
        for client in 0..options.clients {
            cluster.seat(1 + client % options.client_machines, options.load.ops);
        }
        cluster
    }

    fn serve(&mut self) {
        let device = self.base.device(SERVER);
        self.epoch += 1;
        let (acceptor, workers) = T::open(&device, &self.options, self.epoch, self.mistake);
        let workers = workers.into_iter().map(|worker| {
            let core = worker.context();
            host(&self.base.world, &core, worker)
        });
        let workers = workers.collect();
        let core = acceptor.context();
        let acceptor = Rc::new(RefCell::new(acceptor));
        let doorkeeper = Doorkeeper {
            acceptor: acceptor.clone(),
            door: self.door.clone(),
            look_every: self.options.look_every,
        };
        host(&self.base.world, &core, doorkeeper);
        self.door.set_open(true);
        self.served = Some(Served { acceptor, workers });
    }

    /// Starts a client on `machine`, with `ops` operations to submit.
    fn seat(&mut self, machine: usize, ops: usize) {
        let core = self.base.core(machine);
        let client = T::connect(core.clone(), self.door.dial(), &self.options);
        let new = ClientStart {
            client,
            core,
            key_bytes_max: self.options.client.slot_bytes.saturating_sub(44).min(60),
            server_stats: Some(ServerStats {
                ask: T::Client::ask_server_stats,
                take: T::Client::take_server_stats,
            }),
        };
        self.base.seat(machine, ops, new);
    }

    /// Crashes the machine and everything on it.
    fn crash(&mut self, machine: usize) {
        if machine == SERVER {
            self.door.set_open(false);
            self.served = None;
            self.leaving = false;
        }
        self.base.crash(machine);
    }

    /// Restarts a crashed machine with an empty server, or with new clients that submit what the crashed ones had left.
    fn restart(&mut self, machine: usize) {
        let owed = self.base.restart(machine);
        if machine == SERVER {
            self.serve();
        }
        owed.into_iter().for_each(|ops| self.seat(machine, ops));
    }

    /// Closes client `index` (modulo their number) properly and starts another one in its place.
    fn goodbye(&mut self, index: usize) {
        let Some(index) = index.checked_rem(self.base.seated.len()) else {
            return;
        };
        let gone = self.base.depart(index);
        let ops = gone.asker.borrow_mut().close(gone.core.cpu());
        let machine = gone.machine;
        self.seat(machine, ops);
    }

    /// Begins to shut the running server down properly: it notifies its clients and refuses new ones.
    fn shut_down(&mut self) {
        if let Some(served) = &self.served {
            let mut acceptor = served.acceptor.borrow_mut();
            acceptor.stop();
            acceptor.context().waker().wake();
            self.leaving = true;
        }
    }

    /// Starts another server in place of one that is shutting down.
    fn succeed(&mut self) {
        if self.leaving {
            self.crash(SERVER);
            self.restart(SERVER);
        }
    }

    /// Connects a peer that is no client, if the server listens.
    fn connect_non_client(&mut self, behaviour: Behaviour) {
        let Ok(stream) = self.door.dial().attempt() else {
            return;
        };
        let core = self.base.core(1);
        let non_client = host(&self.base.world, &core, NonClient::new(stream, behaviour));
        self.non_clients.push(non_client);
    }

    /// Restarts worker `index` (modulo their number) of the running server with an empty partition.
    fn restart_worker(&mut self, index: usize) {
        if let Some(served) = &self.served {
            let worker = &served.workers[index % served.workers.len()];
            worker.borrow_mut().restart();
        }
    }

    /// Stops core `core_index` (modulo their number) of the machine for `time`.
    fn stall(&mut self, machine: usize, core_index: usize, time: Ns) {
        let mut cores = Vec::new();
        if let Some(served) = self.served.as_ref().filter(|_| machine == SERVER) {
            cores.push(served.acceptor.borrow().context());
            cores.extend(served.workers.iter().map(|worker| worker.borrow().context()));
        }
        self.base.stall(machine, cores, core_index, time);
    }
}

impl<T: WorkerSystem> TroubledCluster for Cluster<T> {
    type Fault = Fault;

    fn afflict(&mut self, fault: Fault) {
        match fault {
            Fault::Worker { index } => self.restart_worker(index),
            Fault::Goodbye { index } => self.goodbye(index),
            Fault::Shutdown => self.shut_down(),
            Fault::Successor => self.succeed(),
            Fault::NonClient(behaviour) => self.connect_non_client(behaviour),
            Fault::Machine { machine, kind } => match kind {
                FaultKind::Crash => self.crash(machine),
                FaultKind::Restart => self.restart(machine),
                FaultKind::Stall { core_index, time } => self.stall(machine, core_index as usize, time),
            },
        }
    }

    fn calm_down(&mut self) {
        self.non_clients
            .drain(..)
            .for_each(|non_client| non_client.borrow_mut().leave());
        self.base.calm_down();
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        let clients = || self.base.seated.iter().map(|seated| seated.asker.borrow());
        let sum = |&(name, count): &ClientCounter<T::Client>| {
            (name, clients().map(|asker| count(&asker.client)).sum())
        };
        T::COUNTERS.iter().map(sum).collect()
    }
}

impl<T: WorkerSystem> CalmCluster for Cluster<T> {
    type Client = T::Client;

    fn base(&self) -> &ClusterBase<T::Client> {
        &self.base
    }

    fn is_ready(&self) -> bool {
        let is_ready = |seated: &Seated<T::Client>| {
            let asker = seated.asker.borrow();
            asker.client.is_ready() && asker.client.epoch() == Some(self.epoch)
        };
        let seated = &self.base.seated;
        let sessions = |served: &Served<T>| served.acceptor.borrow().session_count();
        seated.iter().all(is_ready) && self.served.as_ref().map(sessions) == Some(seated.len())
    }

    fn errors(&self) -> Vec<String> {
        let error = |seated: &Seated<T::Client>| seated.asker.borrow_mut().client.take_error();
        let errors = self.base.seated.iter().filter_map(error);
        errors.map(|error| error.to_string()).collect()
    }

    fn part_count(&self, client: &T::Client) -> usize {
        client.partition_count().unwrap_or(1)
    }

    fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        let Some(served) = &self.served else {
            return leaks;
        };
        let (sessions, clients) = (served.acceptor.borrow().session_count(), self.base.seated.len());
        if sessions != clients {
            leaks.push(format!("{sessions} sessions of {clients} clients"));
        }
        for (n, worker) in served.workers.iter().enumerate() {
            let served = worker.borrow().client_count();
            if served != clients {
                leaks.push(format!("worker {n} serves {served} clients of {clients}"));
            }
        }
        leaks
    }
}

fn world_options(options: &Options, poll_cost: &str) -> WorldOptions {
    let usual = cluster::world_options(options.profile, options.machines.skew_max, options.network.loss);
    let slot_poll = usual.profile.parameters().cpu.slot_poll_ns;
    WorldOptions {
        costs: vec![(poll_cost.into(), slot_poll)],
        torn: options.network.torn,
        lossless: options.network.lossless,
        ..usual
    }
}
