//! Pilaf passes the suite of key-value systems: clients and shards in one thread, deterministic on loopback, with real
//! memory traffic on shm.

mod bed;
#[path = "../../../kv-herd/tests/conformance/fabrics.rs"]
mod fabrics;
#[path = "../../../kv-herd/tests/conformance/ground.rs"]
mod ground;

use bed::ShardsBed;
use drover_verbs::faulty::Faulty;
use drover_verbs::loopback::Loopback;
use drover_verbs_shm::Shm;

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
