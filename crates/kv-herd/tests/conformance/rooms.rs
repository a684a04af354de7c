//! [`Simulated`]: providers of simulated rooms, for the beds of every system.

use crate::ground::faults;
use drover_sim::VirtualCpu;
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs::Provider;
use drover_verbs::faulty::{Faulty, FaultyDevice};
use drover_verbs_sim::{Sim, World, WorldOptions};

/// A provider that runs in simulated rooms.
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
