//! [`ClusterBase`]: what every simulated cluster has, whatever its service: machines, a network with faults, clients
//! and the record of their operations.

use crate::actors::{Core, Fabric, Mortal, Seated, host};
use crate::asker::{Asker, ServerStats};
use crate::load::Load;
use crate::record::{Record, Stall};
use drover_base::Ns;
use drover_kv::KvClient;
use drover_sim::{Noise, Ps};
use drover_verbs::Device;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{RcOptions, Sim, World, WorldOptions};
use drover_verbs_suite::faulty::{FaultOptions, FaultyDevice};
use std::cell::RefCell;
use std::rc::Rc;

/// Parts of every simulated cluster: the machines and their network, the running clients, and the record of their
/// operations. Handles to actors are declared before the world, so that they are dropped first.
pub struct ClusterBase<C> {
    /// All running clients.
    pub seated: Vec<Seated<C>>,
    /// Clients that have closed.
    departed: Vec<Seated<C>>,
    /// All operations of all clients so far.
    pub record: Rc<RefCell<Record>>,
    devices: Vec<FaultyDevice<Sim>>,
    messages: FaultOptions,
    load: Load,
    horizon: Ns,
    next_id: u32,
    /// Numbers of operations that crashed clients had left to submit, per machine.
    owed: Vec<Vec<usize>>,
    /// The machines and the network.
    pub world: World,
}

/// A client to be started.
pub struct ClientStart<C> {
    /// The client.
    pub client: C,
    /// Context of the client's core.
    pub core: Core,
    /// Longest key that fits into a request, bytes.
    pub key_bytes_max: usize,
    /// How the client requests statistics, if it can.
    pub server_stats: Option<ServerStats<C>>,
}

impl<C: KvClient<Fabric> + 'static> ClusterBase<C> {
    /// Creates `machines` machines, whose messages have the faults of `messages`. Clients spread the operations of
    /// `load` over the time until `horizon`. `seed` is that of the machines; those of faults and loads are derived from
    /// the seed of `messages`.
    pub fn new(
        world: WorldOptions,
        machines: usize,
        seed: u64,
        messages: &FaultOptions,
        load: Load,
        horizon: Ns,
    ) -> ClusterBase<C> {
        ClusterBase {
            seated: Vec::new(),
            departed: Vec::new(),
            record: Rc::default(),
            devices: Vec::new(),
            messages: messages.clone(),
            load,
            horizon,
            next_id: 0,
            owed: vec![Vec::new(); machines],
            world: World::with_options(world, machines, seed),
        }
    }

    /// Opens a device of a machine; its faults are drawn independently of those of other devices.
    pub fn device(&mut self, machine: usize) -> FaultyDevice<Sim> {
        let messages = FaultOptions {
            seed: self.messages.seed ^ drover_base::mix(self.devices.len() as u64 + 1),
            ..self.messages.clone()
        };
        let device = FaultyDevice::new(self.world.device(machine), messages);
        self.devices.push(device.clone());
        device
    }

    /// Returns the context of a new core on a machine.
    pub fn core(&mut self, machine: usize) -> Core {
        let context = self.device(machine).context();
        Rc::new(context.expect("a context on this thread"))
    }

    /// Starts a client on `machine`, with `ops` operations to submit.
    pub fn seat(&mut self, machine: usize, ops: usize, new: ClientStart<C>) {
        let load = Load { ops, ..self.load };
        let span = self.horizon.since(self.world.now());
        let seed = self.messages.seed;
        let (core, record) = (new.core, self.record.clone());
        let mut asker = Asker::new(
            self.next_id,
            new.client,
            load,
            span,
            new.key_bytes_max,
            seed,
            record,
        );
        asker.server_stats = new.server_stats;
        self.next_id += 1;
        let asker = Rc::new(RefCell::new(asker));
        host(&self.world, &core, Mortal::new(&asker));
        self.seated.push(Seated { asker, core, machine });
    }

    /// Remembers that a client with `ops` operations is to start when `machine` restarts.
    pub fn owe(&mut self, machine: usize, ops: usize) {
        self.owed[machine].push(ops);
    }

    /// Crashes the machine and its clients, and remembers how many operations each of them had left to submit.
    pub fn crash(&mut self, machine: usize) {
        let (gone, here): (Vec<_>, _) = std::mem::take(&mut self.seated)
            .into_iter()
            .partition(|seated| seated.machine == machine);
        self.seated = here;
        for seated in &gone {
            let asker = seated.asker.borrow();
            self.record.borrow_mut().orphan(asker.id);
            self.owed[machine].push(asker.left);
        }
        self.world.crash(machine);
    }

    /// Ends the process of a client, number `client` (modulo their number), whose machine goes on. Returns the machine, and how many
    /// operations it had left to submit; `None`: there are no clients.
    pub fn kill(&mut self, client: usize) -> Option<(usize, usize)> {
        let index = client.checked_rem(self.seated.len())?;
        let gone = self.seated.remove(index);
        let asker = gone.asker.borrow();
        self.record.borrow_mut().orphan(asker.id);
        Some((gone.machine, asker.left))
    }

    /// Takes a client that has closed off the list of those that run; its last messages are still sent.
    pub fn depart(&mut self, index: usize) -> &Seated<C> {
        let gone = self.seated.remove(index);
        self.departed.push(gone);
        self.departed.last().expect("just pushed")
    }

    /// Restarts a crashed machine. Returns one number per client that is to start there: the operations that it is to
    /// submit.
    pub fn restart(&mut self, machine: usize) -> Vec<usize> {
        self.world.restart(machine);
        std::mem::take(&mut self.owed[machine])
    }

    /// Stops for `time` core `core_index` (modulo their number) among the machine's clients and the cores of its
    /// `servers`.
    pub fn stall(&mut self, machine: usize, servers: Vec<Core>, core_index: usize, time: Ns) {
        let here = self.seated.iter().filter(|seated| seated.machine == machine);
        let clients = here.map(|seated| (seated.core.clone(), Some(seated.asker.borrow().id)));
        let servers = servers.into_iter().map(|core| (core, None));
        let cores: Vec<(Core, Option<u32>)> = clients.chain(servers).collect();
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

    /// Stops the injection of faults; delayed messages still arrive.
    pub fn calm_down(&self) {
        self.devices.iter().for_each(|device| device.set_active(false));
        self.world.set_loss(0.0);
    }

    /// Whether all clients have submitted all their operations, and these have ended.
    pub fn is_done(&self) -> bool {
        self.seated.iter().all(|seated| seated.asker.borrow().is_done())
    }

    /// Number of faults injected into messages: lost, delayed, reordered, duplicated or torn ones, and broken
    /// connections.
    pub fn message_faults(&self) -> u64 {
        self.devices.iter().map(|device| device.counts().total()).sum()
    }
}

/// Settings of the machines of a run: with the costs of the profile called `profile`, with clocks that differ by up to
/// `skew_max`, on a network that loses packets with probability `loss`.
///
/// # Panics
/// The program has no such profile.
pub fn world_options(profile: &str, skew_max: Ns, loss: f64) -> WorldOptions {
    let profile = Profile::named(profile).expect("a profile that comes with the program");
    WorldOptions {
        noise: Noise {
            skew_max,
            ..Noise::OFF
        },
        loss,
        // Values of a hundred kilobytes are copied in one step.
        step_cap: Ns::from_ms(1),
        rc: RcOptions {
            timeout: Ns::from_us(500),
            ..RcOptions::default()
        },
        ..WorldOptions::new(profile)
    }
}
