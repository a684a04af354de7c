//! [`FaultPlan`]: which machine or core fails when, drawn from the seed.
//!
//! **Fault model.** A *crash* stops all cores of a machine in between two steps and silences its card: what has
//! left it arrives, nothing else does, and its memory is lost. A *restart* comes some time later: the machine
//! begins with empty memory. A *stall* stops one core for a while, as a scheduler does. Crashes of one machine do
//! not overlap; whole kinds of fault can be switched off by their counts.
//!
//! A plan is data: whoever runs a scenario advances the simulation to the time of the next fault and applies it.

use crate::Stream;
use drover_base::Ns;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The machine is gone.
    Crash,
    /// It is there again, with nothing in memory.
    Restart,
    /// Its core of this index (modulo how many it has) does nothing for so long.
    Stall {
        /// Which of the machine's cores.
        core_index: u32,
        /// How long.
        time: Ns,
    },
}

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub at: Ns,
    /// Where.
    pub machine: u16,
    /// What.
    pub kind: FaultKind,
}

/// How much goes wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultOptions {
    /// Faults happen before this time.
    pub horizon: Ns,
    /// How many crashes, each followed by a restart.
    pub crashes: u32,
    /// From crash to restart, at most.
    pub down_max: Ns,
    /// How many stalls.
    pub stalls: u32,
    /// The longest stall.
    pub stall_max: Ns,
}

/// Faults in the order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// The faults.
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// A plan for `machines`, the same for the same seed.
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

    /// Adds a crash and its restart, unless the machine is down then anyway.
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
