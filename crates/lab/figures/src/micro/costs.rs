//! Costs of the loops themselves, in addition to those of verbs.

use drover_base::Cost;
use drover_verbs_sim::profile::Parameters;

/// Waiting for a whole batch and starting the next one, once per batch.
pub const BATCH_TAIL: Cost = Cost::new("micro.batch_tail");

/// Polling one slot for a request or reply.
pub const ECHO_SCAN: Cost = Cost::new("micro.scan");

/// A random memory access, as far as the core does not overlap it with others.
pub const ACCESS: Cost = Cost::new("micro.access");

/// These costs under a profile, nanoseconds.
pub fn costs(parameters: &Parameters) -> Vec<(&'static str, f64)> {
    vec![
        (BATCH_TAIL.name, parameters.cpu.batch_tail_ns),
        (ECHO_SCAN.name, parameters.cpu.slot_poll_ns),
        (ACCESS.name, parameters.memory.dram_ns / parameters.memory.overlap),
    ]
}
