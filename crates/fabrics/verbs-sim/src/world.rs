//! [`World`]: a cluster of machines, their cards and the network between them, in virtual time.

use crate::SimContext;
use crate::SimDevice;
use crate::model::Net;
use crate::options::WorldOptions;
use crate::profile::Profile;
use crate::report::Report;
use drover_base::{Actor, Ns};
use drover_mem::{MapObserver, observe_mappings};
use drover_sim::{AddressSpace, VirtualCpu};
use drover_verbs::{Context, Doorbells, OpenError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The simulation, shared by all handles of a world.
pub(crate) type SimNet = drover_sim::Sim<Net>;

thread_local! {
    /// Worlds of this thread by id, for devices, which must not hold them.
    static WORLDS: RefCell<BTreeMap<u64, SimNet>> = const { RefCell::new(BTreeMap::new()) };
}

/// The simulation of the world with this id.
///
/// # Errors
/// [`OpenError`] if the world lives on another thread or has ended.
pub(crate) fn find(id: u64) -> Result<SimNet, OpenError> {
    let found = WORLDS.try_with(|worlds| worlds.borrow().get(&id).cloned());
    // No table: the thread is ending.
    found.ok().flatten().ok_or_else(|| OpenError::Unavailable {
        fabric: "sim",
        reason: format!(
            "simulated cluster {id} lives on another thread, or has ended: everything of a cluster runs on the thread that made it"
        ),
    })
}

/// A simulated cluster: owns the machines, their cards and cores, the actors on the cores, the network and the virtual
/// clock. All of its objects stay on the thread that created it. Virtual time passes only during its
/// `run_*` methods and during [`park`](Context::park) of its contexts.
///
/// ```compile_fail
/// let profile = drover_verbs_sim::profile::Profile::named("apt").unwrap();
/// let world = drover_verbs_sim::World::new(profile, 1, 1);
/// std::thread::spawn(move || drop(world));
/// ```
pub struct World {
    id: u64,
    cluster: SimNet,
    /// Keeps the caches of its cores informed.
    _mappings: Rc<dyn MapObserver>,
}

/// Reports its thread's mappings to a world: they include all memory of the world.
struct Mappings(AddressSpace);

impl MapObserver for Mappings {
    fn mapped(&self, bytes: Range<usize>) {
        self.0.mapped(&bytes);
    }

    fn unmapped(&self, bytes: Range<usize>) {
        self.0.unmapped(bytes);
    }
}

impl World {
    /// Creates a cluster of `machines` machines with the settings of [`WorldOptions::new`]: all of the kind `profile`,
    /// without stalls or packet loss. Runs of the same program with equal seeds are equal.
    ///
    /// # Panics
    /// With more than 65,535 machines, or if a bandwidth in the profile is not positive.
    pub fn new(profile: Profile, machines: usize, seed: u64) -> World {
        World::with_options(WorldOptions::new(profile), machines, seed)
    }

    /// Creates a cluster of `machines` machines with `options`. Runs of the same program with equal options and seeds
    /// are equal.
    ///
    /// # Panics
    /// With more than 65,535 machines, or if a bandwidth in the profile is not positive.
    pub fn with_options(options: WorldOptions, machines: usize, seed: u64) -> World {
        static MADE: AtomicU64 = AtomicU64::new(1);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        let machines = u16::try_from(machines).expect("at most 65,535 machines");
        let address_space = AddressSpace::default();
        let mappings: Rc<dyn MapObserver> = Rc::new(Mappings(address_space.clone()));
        observe_mappings(&mappings);
        let net = Net::new(id, options, machines, address_space, seed);
        let cluster = SimNet::new(net, seed);
        WORLDS.with_borrow_mut(|worlds| worlds.insert(id, cluster.clone()));
        World {
            id,
            cluster,
            _mappings: mappings,
        }
    }

    /// Opens the card of `machine` (counted from 0) for a new process. Each call stands for another process, with
    /// doorbell registers of its own; clones of the result belong to the same process.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn device(&self, machine: usize) -> SimDevice {
        self.device_with(machine, Doorbells::Driver)
    }

    /// As [`device`](World::device), but assigns doorbell registers to queue pairs as `doorbells` says; `device` uses
    /// [`Doorbells::Driver`].
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn device_with(&self, machine: usize, doorbells: Doorbells) -> SimDevice {
        SimDevice::open(&self.cluster, self.id, machine_id(machine), doorbells)
    }

    /// Adds `actor` to those that run on the core of `ctx`, as [`spawn_on`](World::spawn_on) does.
    pub fn spawn(&self, ctx: &SimContext, actor: Box<dyn Actor<VirtualCpu>>) {
        self.spawn_on(ctx.cpu(), actor);
    }

    /// Adds `actor` to those that run on `cpu`, a core of this world. Each step of a core steps all its actors, in the
    /// order in which they were added. An idle core takes a step at once, a busy one in its turn. On a core that
    /// stopped in a [crash](World::crash) the actor never steps.
    pub fn spawn_on(&self, cpu: &VirtualCpu, actor: Box<dyn Actor<VirtualCpu>>) {
        self.cluster.host(cpu, actor);
    }

    /// Handles of all cores of all machines, crashed ones included, in the order of their creation.
    pub fn cores(&self) -> Vec<VirtualCpu> {
        self.cluster.cores()
    }

    /// Virtual time since the creation of the cluster, rounded down to nanoseconds.
    pub fn now(&self) -> Ns {
        self.cluster.now().floor()
    }

    /// Runs all events up to and including virtual time `time`, and sets the clock to `time`. Does nothing if `time` is
    /// past.
    pub fn run_until(&self, time: Ns) {
        self.cluster.run_until(time);
    }

    /// Runs all events of the next `time`, as [`run_until`](World::run_until) with `now() + time`.
    pub fn run_for(&self, time: Ns) {
        self.cluster.run_for(time);
    }

    /// As [`run_until`](World::run_until), but stops early when `going` returns false; `going` is called after every
    /// step of any core. Returns true if the run reached `until`, false if it stopped early; then the clock stays at
    /// the beginning of the last step.
    pub fn run_while(&self, until: Ns, going: impl FnMut() -> bool) -> bool {
        self.cluster.run_while(until, going)
    }

    /// A hash over all events so far. Two runs of a program with equal options and seed give equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.cluster.trace_hash()
    }

    /// Number of events handled since the creation of the cluster, including steps and timers of cores.
    pub fn events(&self) -> u64 {
        self.cluster.events()
    }

    /// Number of send requests (READs, WRITEs and atomics included; RECVs not) that are not completed, or are completed
    /// but have a packet or a write to memory still on its way. Completions need not be polled for it. Zero once all
    /// traffic has ended.
    pub fn requests_alive(&self) -> usize {
        self.cluster.with(|net, _| net.ops.alive())
    }

    /// Returns usage and counters of all machines since the creation of the cluster. For a part of a run, keep the
    /// report from its start and pass it to [`since`](Report::since) of the report from its end.
    pub fn report(&self) -> Report {
        Report::of(&self.cluster)
    }

    /// Crashes a machine: its cores stop for good; its card drops all messages, in both directions, until
    /// [`restart`](World::restart). The actors of its cores are dropped, and so are the objects they own.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn crash(&self, machine: usize) {
        self.cluster
            .with(|net, _| net.nic(machine_id(machine)).down = true);
        self.cluster.crash(machine_id(machine));
    }

    /// Lets the card of a crashed machine send and receive again; does nothing to a machine that is up. The machine's
    /// old cores stay stopped: call [`device`](World::device) again and create contexts, which get new cores.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn restart(&self, machine: usize) {
        self.cluster
            .with(|net, _| net.nic(machine_id(machine)).down = false);
    }

    /// Stalls the core of `ctx` for `time` from now: none of its steps begins before then. Does not shorten a stall in
    /// progress.
    pub fn stall(&self, ctx: &SimContext, time: Ns) {
        self.cluster.stall(ctx.cpu(), time);
    }

    /// Sets the probability, from 0 to 1, that a packet sent from now on is lost. The capabilities that cards report do
    /// not change, even if they say lossless.
    pub fn set_loss(&self, loss: f64) {
        self.cluster.with(|net, _| net.options.loss = loss);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cluster.dismiss();
        WORLDS.with_borrow_mut(|worlds| worlds.remove(&self.id));
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({} at {})", self.id, self.now())
    }
}

/// Number of a machine as the network has it. Panics if no network has that many.
fn machine_id(machine: usize) -> u16 {
    u16::try_from(machine).expect("no world has so many machines")
}
