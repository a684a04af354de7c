//! [`World`]: a cluster of machines, their cards and the network between them, in virtual time.

use crate::SimContext;
use crate::SimDevice;
use crate::model::Net;
use crate::model::doorbell::Doorbells;
use crate::options::WorldOptions;
use crate::profile::Profile;
use crate::report::Report;
use drover_base::{Actor, Ns};
use drover_mem::{MapObserver, observe_mappings};
use drover_sim::{AddressSpace, VirtualCpu};
use drover_verbs::{Context, OpenError};
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

/// The world of a device.
///
/// # Errors
/// [`OpenError`] if this thread has no such world.
pub(crate) fn find(id: u64) -> Result<SimNet, OpenError> {
    let found = WORLDS.with_borrow(|worlds| worlds.get(&id).cloned());
    found.ok_or_else(|| OpenError::Unavailable {
        fabric: "sim",
        reason: format!(
            "simulated cluster {id} lives on another thread, or has ended: everything of a cluster runs on the thread that made it"
        ),
    })
}

/// A cluster of machines. All of its objects stay on the thread that created it; time passes only during its `run_*`
/// methods.
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

/// Tells a world of its thread's mappings: all of its memory is among them.
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
    /// `machines` machines of `profile`: quiet and lossless.
    pub fn new(profile: Profile, machines: usize, seed: u64) -> World {
        World::with_options(WorldOptions::new(profile), machines, seed)
    }

    /// A world with the given options.
    ///
    /// # Panics
    /// With more than 65,535 machines.
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

    /// A process opens the card of `machine`; clones of the device are the same process.
    pub fn device(&self, machine: usize) -> SimDevice {
        self.device_with(machine, Doorbells::Driver)
    }

    /// As [`device`](World::device), with doorbell registers assigned as `doorbells` says.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn device_with(&self, machine: usize, doorbells: Doorbells) -> SimDevice {
        SimDevice::open(&self.cluster, self.id, machine as u16, doorbells)
    }

    /// Hosts `actor` on the core of `ctx`.
    pub fn spawn(&self, ctx: &SimContext, actor: Box<dyn Actor<VirtualCpu>>) {
        self.spawn_on(ctx.cpu(), actor);
    }

    /// Hosts `actor` on `cpu`.
    pub fn spawn_on(&self, cpu: &VirtualCpu, actor: Box<dyn Actor<VirtualCpu>>) {
        self.cluster.host(cpu, actor);
    }

    /// All cores, in the order of their creation.
    pub fn cores(&self) -> Vec<VirtualCpu> {
        self.cluster.cores()
    }

    /// Time since the creation of the cluster.
    pub fn now(&self) -> Ns {
        self.cluster.now().floor()
    }

    /// Runs until `time`.
    pub fn run_until(&self, time: Ns) {
        self.cluster.run_until(time);
    }

    /// Runs for `time` from now.
    pub fn run_for(&self, time: Ns) {
        self.cluster.run_for(time);
    }

    /// Runs until `until`, or until `going` returns false; it is called after every step of a core. Returns its last
    /// result: false means stopped early.
    pub fn run_while(&self, until: Ns, going: impl FnMut() -> bool) -> bool {
        self.cluster.run_while(until, going)
    }

    /// A hash over all events so far: equal for equal seeds.
    pub fn trace_hash(&self) -> u64 {
        self.cluster.trace_hash()
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.cluster.events()
    }

    /// Number of requests that are in flight or not yet covered by a completion.
    pub fn requests_alive(&self) -> usize {
        self.cluster.with(|net, _| net.ops.alive())
    }

    /// All counters so far. Keep the report from the end of the warm-up and pass it to [`since`](Report::since) of a
    /// later one.
    pub fn report(&self) -> Report {
        Report::of(&self.cluster)
    }

    /// Crashes a machine: its cores stop, its card falls silent. Actors and the objects they own are dropped.
    pub fn crash(&self, machine: usize) {
        self.cluster.with(|net, _| net.nic(machine as u16).down = true);
        self.cluster.crash(machine as u16);
    }

    /// Restarts a crashed machine; open its card again.
    pub fn restart(&self, machine: usize) {
        self.cluster.with(|net, _| net.nic(machine as u16).down = false);
    }

    /// Stalls the core of `ctx` for `time`.
    pub fn stall(&self, ctx: &SimContext, time: Ns) {
        self.cluster.stall(ctx.cpu(), time);
    }

    /// Sets the probability of losing a packet from now on.
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
