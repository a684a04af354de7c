//! The system passes the suite of key-value systems, as far as it offers what the rules are about. Connections that break all
//! the time are left out: a client that has broken off a split must be repaired before others go on, and repairs break, too.

use drover_kv_race::RaceSystem;
use drover_testkit::beds::providers::{Faulty, Loopback, Shm, Sim};
use drover_testkit::beds::{ShardsBed, SimBed, WithFaults};

mod loopback {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, ShardsBed<RaceSystem, Loopback>);
}

mod shm {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, ShardsBed<RaceSystem, Shm>);
}

mod sim {
    use super::*;
    drover_testkit::kv_calm_rules!(kv_conformance_tests, SimBed<RaceSystem, Sim>);
}

mod sim_network {
    use super::*;
    drover_testkit::kv_conformance_tests!(SimBed<RaceSystem, Sim>: lost_messages, torn_writes, all_faults_at_once);
}

mod faulty_shm {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, ShardsBed<RaceSystem, WithFaults<Shm>>);
}

mod faulty_sim {
    use super::*;
    drover_testkit::kv_fault_rules!(kv_conformance_tests, SimBed<RaceSystem, Faulty<Sim>>);
}
