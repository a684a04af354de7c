//! Current speed of a core: on a shared machine, its SMT sibling may do other machines' work.
//!
//! A virtual core that shares a real one runs at little more than half its speed, for milliseconds or seconds, and the
//! guest cannot see that: no stolen time is counted, and a cache line travels as before. Timing a fixed piece of work
//! shows it.

use drover_mem::{NativeCpu, timestamp};
use std::hint::black_box;

/// Rounds of a burst: about 10 us.
const ROUNDS: u64 = 8 << 10;
/// Number of bursts, of which the fastest counts: one may be interrupted.
const BURSTS: usize = 3;

/// Time of a fixed piece of work on this core, nanoseconds: four parallel chains of additions and rotations, which
/// leave little to a second thread of the core.
pub(super) fn burst_ns() -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..BURSTS {
        let began = timestamp();
        let mut chains = [black_box(1u64), 2, 3, 4];
        for round in 0..ROUNDS {
            for chain in &mut chains {
                *chain = chain.rotate_left(7).wrapping_add(round) ^ 0x55;
            }
        }
        black_box(chains);
        let ticks = timestamp().saturating_sub(began);
        least = least.min(NativeCpu::ticks_to_ns(ticks) as f64);
    }
    least
}
