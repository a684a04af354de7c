//! Costs that the loops of microbenchmarks charge in addition to those of verbs.

use drover_base::Cost;
use drover_rt::TASK_SWITCH;
use drover_verbs_sim::profile::Parameters;

/// Cost of waiting for a whole batch and starting the next one, once per batch.
pub const BATCH_TAIL: Cost = Cost::new("micro.batch_tail");

/// Cost of polling one slot for a request or reply.
pub const ECHO_SCAN: Cost = Cost::new("micro.scan");

/// Cost of a random memory access, less the part that the core overlaps with other accesses.
pub const ACCESS: Cost = Cost::new("micro.access");

/// Names and prices (nanoseconds per unit) of [`BATCH_TAIL`], [`ECHO_SCAN`] and [`ACCESS`] under a profile, and of a
/// switch of tasks. A task that waits for a batch pays for the switch what a loop pays for the end of a batch, and pays
/// it once.
pub fn costs(parameters: &Parameters) -> Vec<(&'static str, f64)> {
    vec![
        (BATCH_TAIL.name, parameters.cpu.batch_tail_ns),
        (TASK_SWITCH.cost.name, parameters.cpu.batch_tail_ns),
        (ECHO_SCAN.name, parameters.cpu.slot_poll_ns),
        (ACCESS.name, parameters.memory.dram_ns / parameters.memory.overlap),
    ]
}
