//! [`Cluster`]: two simulated machines and a network between them, for the beds of every system. [`Simulated`]:
//! providers of such clusters.

use super::ground::faults;
use crate::kv_conformance::BedOptions;
use drover_base::{Cpu, Ns};
use drover_sim::VirtualCpu;
use drover_verbs::{Context, Device, Provider};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World, WorldOptions};
use drover_verbs_suite::faulty::{Faulty, FaultyDevice};
use std::rc::Rc;

/// Machines of the cluster.
const SERVER: usize = 0;
const CLIENTS: usize = 1;

/// A provider that runs in simulated clusters.
pub trait Simulated: Provider<Cpu = VirtualCpu> {
    /// Sets in `world` those faults of `options` that the simulated network itself produces for this provider; ignores
    /// the others.
    fn trouble(world: &mut WorldOptions, options: &BedOptions);

    /// Opens the network card of `machine` as a process started there would. A provider that wraps another one adds the
    /// faults of `options` here.
    fn open(world: &World, machine: usize, options: &BedOptions) -> Self::Device;
}

/// The network loses packets and tears messages; other faults are ignored.
impl Simulated for Sim {
    fn trouble(world: &mut WorldOptions, options: &BedOptions) {
        world.loss = options.faults.drop;
        world.torn = options.faults.tear > 0.0;
    }

    fn open(world: &World, machine: usize, _: &BedOptions) -> Self::Device {
        world.device(machine)
    }
}

/// The network has no faults; a wrapper around the provider produces all of them.
impl Simulated for Faulty<Sim> {
    fn trouble(_: &mut WorldOptions, _: &BedOptions) {}

    fn open(world: &World, machine: usize, options: &BedOptions) -> Self::Device {
        FaultyDevice::new(world.device(machine), faults(options))
    }
}

/// Two simulated machines with a network: machine 0 for servers, machine 1 for clients. It owns the core that all
/// clients share, but no servers or clients.
pub struct Cluster<P: Simulated> {
    /// Context of the clients' core. Declared before the world, so that it is dropped first.
    pub ctx: Rc<P::Context>,
    /// The machines and the network.
    pub world: World,
    /// Options that the cluster was created with.
    pub options: BedOptions,
}

impl<P: Simulated> Cluster<P> {
    /// Creates a cluster with a core for clients and no servers.
    pub fn new(options: &BedOptions) -> Cluster<P> {
        // A value of a megabyte is copied in one step.
        let mut world_options = WorldOptions {
            step_cap: Ns::from_ms(1),
            ..WorldOptions::new(Profile::named("apt").expect("a profile"))
        };
        P::trouble(&mut world_options, options);
        let world = World::with_options(world_options, 2, options.seed);
        let device = P::open(&world, CLIENTS, options);
        Cluster {
            ctx: Rc::new(device.context().expect("a context")),
            world,
            options: options.clone(),
        }
    }

    /// Opens the network card of the servers' machine, as a process started there would.
    pub fn server_device(&self) -> P::Device {
        P::open(&self.world, SERVER, &self.options)
    }

    /// Runs the simulation up to the time of the clients' core, but for at least a microsecond, and advances that core
    /// to the time reached.
    pub fn step(&mut self) {
        // The clients' core may be ahead of the cluster by what it charged.
        let until = self.ctx.cpu().refresh().max(self.world.now() + Ns::from_us(1));
        self.world.run_until(until);
        self.ctx.cpu().refresh();
    }

    /// Crashes the servers' machine, calls `forget` to drop what the caller keeps of the servers, and restarts the
    /// machine without any server.
    pub fn crash(&mut self, forget: impl FnOnce()) {
        self.world.crash(SERVER);
        forget();
        self.world.restart(SERVER);
    }

    /// Runs the simulation for `seconds` of virtual time.
    pub fn pass_seconds(&mut self, seconds: u64) {
        self.world.run_for(Ns::from_s(seconds));
        self.step();
    }
}
