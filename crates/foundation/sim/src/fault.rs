//! [`FaultPlan`]: faults of machines and cores and their times, drawn from the seed.
//!
//! **Fault model.** A *crash* stops all cores of a machine between two steps and silences its card: packets that have
//! left the card arrive, later ones do not, and the machine's memory is lost. A *restart* follows some time later: the
//! machine begins with empty memory. A *stall* stops one core for a while, as a scheduler does. Crashes of one machine
//! do not overlap; setting a count to zero switches off that kind of fault.
//!
//! A plan is data: the code that runs a scenario advances the simulation to the time of the next fault and applies it.

use crate::Stream;
use drover_base::Ns;

/// Kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The machine stops and loses its memory.
    Crash,
    /// The machine starts again with empty memory.
    Restart,
    /// One core does nothing for `time`.
    Stall {
        /// Any number; modulo the machine's number of cores it is the index of the stalled core.
        core_index: u32,
        /// Length of the stall.
        time: Ns,
    },
}

/// A fault of a machine at a point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Time of the fault, from the start of the simulation.
    pub at: Ns,
    /// Index of the machine.
    pub machine: u16,
    /// Kind of the fault.
    pub kind: FaultKind,
}

/// Number and size of the faults that [`FaultPlan::draw`] draws.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultOptions {
    /// All crashes and stalls begin before this time, counted from the start of the simulation; a restart may come
    /// later.
    pub horizon: Ns,
    /// Number of crashes to draw, each followed by a restart. One whose downtime meets the downtime of an earlier drawn
    /// crash of the same machine is left out, so there may be fewer.
    pub crashes: u32,
    /// Longest time from a crash to its restart. Times are drawn uniformly from 1 ns to this.
    pub down_max: Ns,
    /// Number of stalls to draw.
    pub stalls: u32,
    /// Length of the longest stall. Lengths are drawn uniformly from 1 ns to this.
    pub stall_max: Ns,
}

/// Faults of a run, to be applied by the code that runs it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// Faults in ascending order of time.
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// Draws a plan of faults of `machines`, given by index; equal arguments give equal plans. Without machines it is
    /// empty.
    pub fn draw(seed: u64, machines: &[u16], options: &FaultOptions) -> FaultPlan {
        let mut plan = FaultPlan::default();
        if machines.is_empty() {
            return plan;
        }
        let stream = Stream::new(seed, 0, "faults");
        let pick = || machines[stream.below(machines.len() as u64) as usize];
        for _ in 0..options.crashes {
            let (machine, at) = (pick(), Ns(stream.below(options.horizon.0.max(1))));
            let up_at = at + Ns(1 + stream.below(options.down_max.0.max(1)));
            plan.crash(machine, at, up_at);
        }
        for _ in 0..options.stalls {
            plan.faults.push(Fault {
                at: Ns(stream.below(options.horizon.0.max(1))),
                machine: pick(),
                kind: FaultKind::Stall {
                    core_index: stream.below(1 << 16) as u32,
                    time: Ns(1 + stream.below(options.stall_max.0.max(1))),
                },
            });
        }
        plan.faults.sort_by_key(|fault| (fault.at, fault.machine));
        plan
    }

    /// Adds a crash and its restart, unless the machine is already down at that time.
    fn crash(&mut self, machine: u16, at: Ns, up_at: Ns) {
        let own: Vec<_> = self
            .faults
            .iter()
            .filter(|fault| fault.machine == machine)
            .collect();
        let overlaps = own.chunks(2).any(|pair| match pair {
            [down, up] => at <= up.at && down.at <= up_at,
            _ => true,
        });
        if overlaps {
            return;
        }
        for (at, kind) in [(at, FaultKind::Crash), (up_at, FaultKind::Restart)] {
            self.faults.push(Fault { at, machine, kind });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: FaultOptions = FaultOptions {
        horizon: Ns::from_ms(10),
        crashes: 20,
        down_max: Ns::from_ms(1),
        stalls: 5,
        stall_max: Ns::from_us(100),
    };

    #[test]
    fn plans_repeat_and_seeds_differ() {
        let plan = |seed| FaultPlan::draw(seed, &[0, 1, 2], &OPTIONS);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).faults.is_sorted_by_key(|fault| fault.at));
    }

    #[test]
    fn crashes_of_a_machine_alternate_with_restarts() {
        for seed in 0..50 {
            let plan = FaultPlan::draw(seed, &[4], &OPTIONS);
            let mut down = false;
            for fault in &plan.faults {
                match fault.kind {
                    FaultKind::Crash => assert!(!std::mem::replace(&mut down, true), "down twice"),
                    FaultKind::Restart => assert!(std::mem::replace(&mut down, false), "up twice"),
                    FaultKind::Stall { .. } => {}
                }
            }
            assert!(!down);
        }
    }
}
