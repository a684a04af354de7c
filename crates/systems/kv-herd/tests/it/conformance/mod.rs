//! HERD passes the suite of key-value systems: client and server in one thread, deterministic on loopback,
//! with real memory traffic on shm and over libibverbs.

mod bed;
mod identical;
mod sim_bed;

use bed::HerdBed;
use drover_base::Ns;
use drover_testkit::beds::{Ground, WithFaults, pass_really};
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use drover_verbs_suite::faulty::Faulty;
use drover_verbs_suite::loopback::Loopback;
use sim_bed::SimBed;

/// Over the binding of libibverbs, with a library of ours in place of the machine's.
struct Stub;

impl Ground for Stub {
    type P = Ibv;

    fn open(_: &BedOptions) -> IbvDevice {
        let mut options = IbvOptions::default();
        options.library = Some(drover_verbs_ibv_stub::library());
        IbvDevice::open(options).expect("the library of ours has a device")
    }

    fn pass(_: &IbvDevice, by: Ns) {
        pass_really(by);
    }
}

mod loopback {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, HerdBed<Loopback>);
}

mod shm {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, HerdBed<Shm>);
}

mod ibv {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, HerdBed<Stub>);
}

mod sim {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, SimBed<Sim>);
}

mod faulty_loopback {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, HerdBed<WithFaults<Loopback>>);
}

mod faulty_ibv {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, HerdBed<WithFaults<Stub>>);
}

mod faulty_shm {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, HerdBed<WithFaults<Shm>>);
}

mod sim_network {
    use super::*;
    drover_testkit::kv_conformance_tests!(SimBed<Sim>: lost_messages, torn_writes, all_faults_at_once);
}

mod faulty_sim {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, SimBed<Faulty<Sim>>);
}
