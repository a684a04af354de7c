//! A system of shards passes the suite of key-value systems: clients and shards in one thread, deterministic on loopback, with
//! real memory traffic on shm; on virtual cores with a modelled network in between.

use crate::bed::ShardsBed;
use crate::sim_bed::SimBed;
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use drover_verbs_suite::faulty::Faulty;
use drover_verbs_suite::loopback::Loopback;

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
