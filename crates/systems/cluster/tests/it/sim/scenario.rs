//! What a seed has drawn: how many of each there are, and which kinds of trouble.

use super::Flaw;
use drover_base::{Ns, Rng};
use drover_cluster::{HandoverTimes, LeaseTerms, OnRegistryLoss, RegistryFaults};

/// Shards of the service: few, so that each changes hands often.
pub const SHARD_COUNT: usize = 8;
/// Keys that clients use.
pub const KEY_COUNT: u32 = 16;
/// When trouble ends.
pub const HEALED_AT: Ns = Ns::from_ms(3_000);
/// When everything must work again: a lease, and time to plan and to hand over.
pub const SETTLED_AT: Ns = Ns::from_ms(5_000);
/// End of the run.
pub const ENDS_AT: Ns = Ns::from_ms(6_000);
/// Time between two steps of a member, on its clock.
pub const STEP_EVERY: Ns = Ns::from_ms(4);

/// Kinds of trouble that a run has.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    pub pauses: bool,
    pub crashes: bool,
    pub registry_cuts: bool,
    pub registry_outages: bool,
    pub network_cuts: bool,
    pub copy_cuts: bool,
    pub planned_changes: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub member_count: usize,
    pub client_count: usize,
    pub kinds: Kinds,
    pub faults: RegistryFaults,
    pub terms: LeaseTerms,
    pub handover: HandoverTimes,
    /// Mean time between two events of trouble.
    pub trouble_every: Ns,
    /// Whether members' clocks run at different speeds.
    pub uneven_clocks: bool,
}

/// A registry that is quick and loses nothing.
pub const CALM: RegistryFaults = RegistryFaults {
    delay_max: Ns::from_ms(2),
    lost_requests: 0.0,
    lost_replies: 0.0,
    lost_views: 0.0,
    timeout: Ns::from_ms(60),
};

impl Scenario {
    pub fn draw(rng: &mut Rng, flaw: Option<Flaw>) -> Scenario {
        let mut half = || rng.chance(0.5);
        let kinds = Kinds {
            pauses: half(),
            crashes: half(),
            registry_cuts: half(),
            registry_outages: half(),
            network_cuts: half(),
            copy_cuts: half(),
            planned_changes: half(),
        };
        let is_about_copies = flaw.is_some_and(Flaw::is_about_copies);
        // Such mistakes show when owners change while keepers do not hear of everything.
        let kinds = match is_about_copies {
            true => Kinds {
                crashes: true,
                copy_cuts: true,
                planned_changes: true,
                ..kinds
            },
            false => kinds,
        };
        let (is_slow, is_lossy, uneven_clocks) = (half(), half(), half());
        let share = |rng: &mut Rng| if is_lossy { rng.unit() * 0.2 } else { 0.0 };
        let faults = RegistryFaults {
            delay_max: if is_slow {
                Ns::from_ms(5 + rng.below(40))
            } else {
                CALM.delay_max
            },
            lost_requests: share(rng),
            lost_replies: share(rng),
            lost_views: share(rng) * 4.0,
            ..CALM
        };
        let on_loss = match flaw {
            Some(Flaw::ServesOn) => OnRegistryLoss::Serve,
            _ => OnRegistryLoss::Stop,
        };
        Scenario {
            member_count: if is_about_copies {
                3
            } else {
                2 + rng.below(3) as usize
            },
            client_count: 2 + rng.below(3) as usize,
            kinds,
            faults,
            terms: LeaseTerms {
                ttl: Ns::from_ms(300),
                renew_every: Ns::from_ms(40),
                on_loss,
            },
            handover: HandoverTimes {
                repeat_after: Ns::from_ms(10),
                give_up_after: Ns::from_ms(150),
            },
            trouble_every: Ns::from_ms(30 + rng.below(200)),
            uneven_clocks,
        }
    }
}
