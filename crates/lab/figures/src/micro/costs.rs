//! Costs that the loops of microbenchmarks charge in addition to those of verbs.

use drover_base::Cost;
use drover_verbs_sim::profile::Parameters;

/// Cost of waiting for a whole batch and starting the next one, once per batch.
pub const BATCH_TAIL: Cost = Cost::new("micro.batch_tail");

/// Cost of polling one slot for a request or reply.
pub const ECHO_SCAN: Cost = Cost::new("micro.scan");

/// Cost of a random memory access, less the part that the core overlaps with other accesses.
pub const ACCESS: Cost = Cost::new("micro.access");

/// Names and prices (nanoseconds per unit) of [`BATCH_TAIL`], [`ECHO_SCAN`] and [`ACCESS`] under a profile.
pub fn costs(parameters: &Parameters) -> Vec<(&'static str, f64)> {
    vec![
        (BATCH_TAIL.name, parameters.cpu.batch_tail_ns),
        (ECHO_SCAN.name, parameters.cpu.slot_poll_ns),
        (ACCESS.name, parameters.memory.dram_ns / parameters.memory.overlap),
    ]
}
