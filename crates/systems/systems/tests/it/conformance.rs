//! The suite of key-value systems, over shared memory and in a simulated cluster. Not played are the rules of values that
//! fit no message: the sample has none, and says so. What it does not offer the rules about conditions and flags skip.

use crate::sample::Sample;
use drover_testkit::beds::{ShardsBed, SimBed};
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;

mod shm {
    use super::*;

    drover_testkit::kv_conformance_tests!(ShardsBed<Sample, Shm>: a_value_comes_back, overwriting_changes_length,
        zero_length_values, key_and_value_limits, delete_then_miss, binary_keys_and_values, ttl_expires,
        program_order_on_one_key, agrees_with_a_map, window_full_is_flow_control, clients_are_linearizable,
        memory_pressure_never_lies, store_mode_says_full,
        survives_a_server_crash, conditions_and_versions, flags_and_touch, conditional_clients_are_linearizable);
}

mod sim {
    use super::*;

    drover_testkit::kv_conformance_tests!(SimBed<Sample, Sim>: a_value_comes_back, overwriting_changes_length,
        zero_length_values, key_and_value_limits, delete_then_miss, binary_keys_and_values, ttl_expires,
        program_order_on_one_key, agrees_with_a_map, window_full_is_flow_control, clients_are_linearizable,
        memory_pressure_never_lies, store_mode_says_full,
        survives_a_server_crash, lost_messages, torn_writes, all_faults_at_once);
}
