//! HERD passes the suite of key-value systems: client and server in one thread, deterministic on loopback,
//! with real memory traffic on shm and over libibverbs.

mod bed;
mod identical;
mod sim_bed;
#[path = "../../../verbs-ibv/tests/stub/mod.rs"]
mod stub;

use bed::{Ground, PiecesBed};
use drover_base::Ns;
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::Sim;
use sim_bed::SimBed;

impl Ground for Loopback {
    fn open(options: &BedOptions) -> LoopbackDevice {
        LoopbackDevice::with_options(LoopbackOptions {
            seed: options.seed,
            tick: Ns::from_us(1),
            ..LoopbackOptions::default()
        })
    }

    fn pass(device: &LoopbackDevice, by: Ns) {
        device.advance(by);
    }
}

impl Ground for Shm {
    fn open(_: &BedOptions) -> ShmDevice {
        ShmDevice::default()
    }

    fn pass(_: &ShmDevice, by: Ns) {
        bed::pass_really(by);
    }
}

impl Ground for Ibv {
    fn open(_: &BedOptions) -> IbvDevice {
        let mut options = IbvOptions::default();
        options.library = Some(stub::library());
        IbvDevice::open(options).expect("the library of ours has a device")
    }

    fn pass(_: &IbvDevice, by: Ns) {
        bed::pass_really(by);
    }
}

/// What the bed is asked for, in the words of the wrapper.
pub fn faults(options: &BedOptions) -> FaultOptions {
    let asked = options.faults;
    FaultOptions {
        drop: asked.drop,
        duplicate: asked.duplicate,
        delay: asked.delay,
        reorder: asked.reorder,
        tear: asked.tear,
        ..FaultOptions::quiet(options.seed)
    }
}

impl<P: Ground> Ground for Faulty<P> {
    fn open(options: &BedOptions) -> FaultyDevice<P> {
        FaultyDevice::new(P::open(options), faults(options))
    }

    fn pass(device: &FaultyDevice<P>, by: Ns) {
        P::pass(device.inner(), by);
    }
}

mod loopback {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, PiecesBed<Loopback>);
}

mod shm {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, PiecesBed<Shm>);
}

/// Over the binding of libibverbs, with a library of ours in place of the machine's.
mod ibv {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, PiecesBed<Ibv>);
}

mod sim {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, SimBed<Sim>);
}

mod faulty_loopback {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, PiecesBed<Faulty<Loopback>>);
}

mod faulty_ibv {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, PiecesBed<Faulty<Ibv>>);
}

mod faulty_shm {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, PiecesBed<Faulty<Shm>>);
}

mod sim_network {
    use super::*;
    drover_testkit::kv_conformance_tests!(SimBed<Sim>: lost_messages, torn_writes, all_faults_at_once);
}

mod faulty_sim {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, SimBed<Faulty<Sim>>);
}
