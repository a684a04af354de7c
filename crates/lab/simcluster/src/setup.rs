//! [`Setup`]: who asks what of whom, and for how long.

use crate::{Load, costs};
use drover_base::{HashSeed, Ns};
use drover_verbs_sim::WorldOptions;
use drover_verbs_sim::profile::Profile;

/// One server on machine 0, and clients on the machines after it; whose they are is a [`Service`](crate::Service).
#[derive(Clone)]
pub struct Setup {
    /// The machines, and what work costs on them.
    pub world: WorldOptions,
    /// For whatever is drawn.
    pub seed: u64,
    /// Client processes, dealt out to the machines in turn.
    pub clients: usize,
    /// Machines with clients.
    pub machines: usize,
    /// Operations that a client has under way.
    pub depth: usize,
    /// What they are.
    pub load: Load,
    /// Whether all keys are there from the beginning.
    pub filled: bool,
    /// Time before counting begins, after all clients have been let in.
    pub warm_up: Ns,
    /// Time that is counted.
    pub measured: Ns,
}

impl Setup {
    /// The published experiments: 51 clients on 17 machines of the profile `apt` with 4 operations each, 5 % PUTs, items of
    /// 48 bytes `[HERD §5.1, §5.3]`.
    pub fn new() -> Setup {
        Setup::on(Profile::named("apt").expect("a profile"))
    }

    /// The same on machines of `profile`.
    pub fn on(profile: Profile) -> Setup {
        let mut world = WorldOptions::new(profile);
        world.costs = costs::of(&world.profile);
        Setup {
            world,
            seed: 1,
            clients: 51,
            machines: 17,
            depth: 4,
            load: Load::new(),
            filled: true,
            warm_up: Ns::from_us(500),
            measured: Ns::from_ms(1),
        }
    }

    /// The secret of the key hash.
    pub fn hash_seed(&self) -> HashSeed {
        HashSeed::new(self.seed, 7)
    }
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}
