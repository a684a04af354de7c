//! Pilaf passes the suite of key-value systems: clients and shards in one thread, deterministic on loopback, with real
//! memory traffic on shm; on virtual cores with a modelled network in between.

mod bed;
#[path = "../../../kv-herd/tests/conformance/fabrics.rs"]
mod fabrics;
#[path = "../../../kv-herd/tests/conformance/ground.rs"]
mod ground;
mod growth;
mod race;
mod reads;
#[path = "../../../kv-herd/tests/conformance/rooms.rs"]
mod rooms;
mod sim_bed;

use bed::ShardsBed;
use drover_verbs::faulty::Faulty;
use drover_verbs::loopback::Loopback;
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use sim_bed::SimBed;

mod loopback {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, ShardsBed<Loopback>);
}

mod shm {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, ShardsBed<Shm>);
}

mod faulty_loopback {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, ShardsBed<Faulty<Loopback>>);
}

mod faulty_shm {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, ShardsBed<Faulty<Shm>>);
}

mod sim {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, SimBed<Sim>);
}

mod sim_network {
    use super::*;
    drover_testkit::kv_conformance_tests!(SimBed<Sim>: lost_messages, torn_writes, all_faults_at_once);
}

mod faulty_sim {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, SimBed<Faulty<Sim>>);
}
