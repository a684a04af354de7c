//! A system of shards passes the suite of key-value systems: clients and shards in one thread, deterministic on loopback, with
//! real memory traffic on shm; on virtual cores with a modelled network in between.

/// Providers that [`shard_suite!`](crate::shard_suite) names, so that its callers need not depend on them.
#[doc(hidden)]
pub mod providers {
    pub use drover_verbs_shm::Shm;
    pub use drover_verbs_sim::Sim;
    pub use drover_verbs_suite::faulty::Faulty;
    pub use drover_verbs_suite::loopback::Loopback;
}

/// Stamps the suite for the [`ShardedSystem`](drover_kv::ShardedSystem) of this name: a module of tests per fabric.
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
        }

        mod faulty_shm {
            use $crate::beds::providers::Shm;
            use $crate::beds::{ShardsBed, WithFaults};
            $crate::kv_fault_rules!(kv_conformance_tests, ShardsBed<$system, WithFaults<Shm>>);
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
        }
    };
}
