//! [`Cluster`]: two simulated machines and a network between them, for the beds of every system; [`Simulated`]: providers of such clusters.

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
    /// What the network itself does to messages.
    fn trouble(world: &mut WorldOptions, options: &BedOptions);

    /// A process on `machine` opens its card.
    fn open(world: &World, machine: usize, options: &BedOptions) -> Self::Device;
}

/// The network loses packets, and lines become visible one by one.
impl Simulated for Sim {
    fn trouble(world: &mut WorldOptions, options: &BedOptions) {
        world.loss = options.faults.drop;
        world.torn = options.faults.tear > 0.0;
    }

    fn open(world: &World, machine: usize, _: &BedOptions) -> Self::Device {
        world.device(machine)
    }
}

/// The network is well; a wrapper around the provider does worse things than networks do.
impl Simulated for Faulty<Sim> {
    fn trouble(_: &mut WorldOptions, _: &BedOptions) {}

    fn open(world: &World, machine: usize, options: &BedOptions) -> Self::Device {
        FaultyDevice::new(world.device(machine), faults(options))
    }
}

/// Servers on cores of one machine, clients on a core of another.
pub struct Cluster<P: Simulated> {
    /// Declared before the world: clients' handles go first.
    pub ctx: Rc<P::Context>,
    /// Machines and network.
    pub world: World,
    /// What the bed was asked for.
    pub options: BedOptions,
}

impl<P: Simulated> Cluster<P> {
    /// A cluster with nothing on its machines yet.
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

    /// The servers' card, opened by a process of its own.
    pub fn server_device(&self) -> P::Device {
        P::open(&self.world, SERVER, &self.options)
    }

    /// Lets all go on until the clients' core has something to do, at least for a microsecond.
    pub fn step(&mut self) {
        // The clients' core may be ahead of the cluster by what it charged.
        let until = self.ctx.cpu().refresh().max(self.world.now() + Ns::from_us(1));
        self.world.run_until(until);
        self.ctx.cpu().refresh();
    }

    /// The servers' machine dies, and is there again with nothing on it.
    pub fn crash(&mut self, forget: impl FnOnce()) {
        self.world.crash(SERVER);
        forget();
        self.world.restart(SERVER);
    }

    /// Lets so many seconds of virtual time pass.
    pub fn pass_seconds(&mut self, seconds: u64) {
        self.world.run_for(Ns::from_s(seconds));
        self.step();
    }
}
