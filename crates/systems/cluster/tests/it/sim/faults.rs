//! [`Trouble`]: one thing that goes wrong, or that an operator does.

use super::scenario::{Kinds, Scenario};
use drover_base::{Ns, Rng};

#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// A member's process is stopped for this long.
    Pause(usize, Ns),
    /// A member's process is stopped for this long, in the middle of its next request.
    PauseInRequest(usize, Ns),
    /// A member's process dies, and another one starts after this time.
    Crash(usize, Ns),
    /// A member reaches the registry no more for this long.
    CutFromRegistry(usize, Ns),
    /// A member reaches neither clients nor other members for this long.
    CutFromNetwork(usize, Ns),
    /// What the first member sends for copies that the second keeps is lost, arrives after this long, or twice.
    CutCopies(usize, usize, Ns),
    /// Nobody reaches the registry for this long.
    Outage(Ns),
    /// An operator drains a member, or has it join again.
    DrainOrJoin(usize),
    /// A member leaves in order, and starts again after this time.
    Leave(usize, Ns),
}

impl Trouble {
    /// Draws one of the kinds that the run has; `None`, if it has none.
    pub fn draw(scenario: &Scenario, rng: &mut Rng) -> Option<Trouble> {
        let Kinds {
            pauses,
            crashes,
            registry_cuts,
            registry_outages,
            network_cuts,
            copy_cuts,
            planned_changes,
        } = scenario.kinds;
        let member = rng.below(scenario.member_count as u64) as usize;
        let other = rng.below(scenario.member_count as u64) as usize;
        // From a moment to two leases.
        let ttl = scenario.terms.ttl.0;
        let longest = if rng.chance(0.5) { ttl * 2 } else { ttl / 5 };
        let time = Ns(rng.below(longest));
        let kinds = [
            (pauses, Trouble::Pause(member, time)),
            (pauses, Trouble::PauseInRequest(member, time)),
            (crashes, Trouble::Crash(member, time)),
            (registry_cuts, Trouble::CutFromRegistry(member, time)),
            (network_cuts, Trouble::CutFromNetwork(member, time)),
            (copy_cuts, Trouble::CutCopies(member, other, time)),
            (registry_outages, Trouble::Outage(time)),
            (planned_changes, Trouble::DrainOrJoin(member)),
            (planned_changes, Trouble::DrainOrJoin(member)),
            (planned_changes, Trouble::Leave(member, time)),
        ];
        let chosen: Vec<Trouble> = kinds
            .into_iter()
            .filter(|kind| kind.0)
            .map(|kind| kind.1)
            .collect();
        let count = chosen.len() as u64;
        (count > 0).then(|| chosen[rng.below(count) as usize])
    }
}
