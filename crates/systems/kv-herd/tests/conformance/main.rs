//! HERD passes the suite of key-value systems: client and server in one thread, deterministic on loopback,
//! with real memory traffic on shm and over libibverbs.

mod bed;
#[path = "rooms.rs"]
mod clusters;
mod fabrics;
mod ground;
mod identical;
mod sim_bed;
#[path = "../../../../fabrics/verbs-ibv/tests/stub/mod.rs"]
mod stub;

use bed::PiecesBed;
use drover_base::Ns;
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use drover_verbs_suite::faulty::Faulty;
use drover_verbs_suite::loopback::Loopback;
use ground::Ground;
use sim_bed::SimBed;

impl Ground for Ibv {
    fn open(_: &BedOptions) -> IbvDevice {
        let mut options = IbvOptions::default();
        options.library = Some(stub::library());
        IbvDevice::open(options).expect("the library of ours has a device")
    }

    fn pass(_: &IbvDevice, by: Ns) {
        ground::pass_really(by);
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
