//! [`shard_suite!`](crate::shard_suite): the conformance suite for a system of shards, on every fabric: in one thread
//! over loopback (deterministic) and shared memory (real memory traffic), and on virtual cores with a modelled network.

/// Providers that [`shard_suite!`](crate::shard_suite) names, so that its callers need not depend on them.
#[doc(hidden)]
pub mod providers {
    pub use drover_verbs_shm::Shm;
    pub use drover_verbs_sim::Sim;
    pub use drover_verbs_suite::faulty::Faulty;
    pub use drover_verbs_suite::loopback::Loopback;
}

/// Generates the tests of the conformance suite for the [`ShardedSystem`](drover_kv::ShardedSystem) type `$system`: a
/// module per fabric, with and without faults.
#[macro_export]
macro_rules! shard_suite {
    ($system:path) => {
        mod loopback {
            use $crate::beds::ShardsBed;
            use $crate::beds::providers::Loopback;
            $crate::kv_calm_rules!(kv_conformance_tests, ShardsBed<$system, Loopback>);
        }

        mod shm {
            use $crate::beds::ShardsBed;
            use $crate::beds::providers::Shm;
            $crate::kv_calm_rules!(kv_conformance_tests, ShardsBed<$system, Shm>);
        }

        mod faulty_loopback {
            use $crate::beds::providers::Loopback;
            use $crate::beds::{ShardsBed, WithFaults};
            $crate::kv_fault_rules!(kv_conformance_tests, ShardsBed<$system, WithFaults<Loopback>>);
            $crate::kv_conformance_tests!(ShardsBed<$system, WithFaults<Loopback>>: broken_connections);
        }

        mod faulty_shm {
            use $crate::beds::providers::Shm;
            use $crate::beds::{ShardsBed, WithFaults};
            $crate::kv_fault_rules!(kv_conformance_tests, ShardsBed<$system, WithFaults<Shm>>);
            $crate::kv_conformance_tests!(ShardsBed<$system, WithFaults<Shm>>: broken_connections);
        }

        mod sim {
            use $crate::beds::SimBed;
            use $crate::beds::providers::Sim;
            $crate::kv_calm_rules!(kv_conformance_tests, SimBed<$system, Sim>);
        }

        mod sim_network {
            use $crate::beds::SimBed;
            use $crate::beds::providers::Sim;
            $crate::kv_conformance_tests!(SimBed<$system, Sim>: lost_messages, torn_writes, all_faults_at_once);
        }

        mod faulty_sim {
            use $crate::beds::SimBed;
            use $crate::beds::providers::{Faulty, Sim};
            $crate::kv_fault_rules!(kv_conformance_tests, SimBed<$system, Faulty<Sim>>);
            $crate::kv_conformance_tests!(SimBed<$system, Faulty<Sim>>: broken_connections);
        }
    };
}
