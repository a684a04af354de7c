//! [`Setup`]: the machines, the clients, their load, and the time to measure.

use crate::{Load, costs};
use drover_base::{HashSeed, Ns};
use drover_verbs_sim::WorldOptions;
use drover_verbs_sim::profile::Profile;

/// One server on machine 0 and clients on machines 1 and up. The system that they belong to is a
/// [`Service`](crate::Service).
#[derive(Clone)]
pub struct Setup {
    /// Hardware profile, faults and prices of work, the same for all machines.
    pub world: WorldOptions,
    /// Seed of everything random; equal set-ups with equal seeds give equal runs.
    pub seed: u64,
    /// Total number of clients, spread round-robin over the client machines, each on a core of its own.
    pub clients: usize,
    /// Number of client machines, without the server's. Must not be 0.
    pub machines: usize,
    /// Maximum number of operations that each client keeps outstanding; its own window may be smaller.
    pub depth: usize,
    /// The operations that clients draw.
    pub load: Load,
    /// Whether all keys are stored before the warm-up begins; if not, the tables start empty.
    pub filled: bool,
    /// Virtual time between the moment when all clients are ready and the beginning of the measured span.
    pub warm_up: Ns,
    /// Length of the measured span in virtual time.
    pub measured: Ns,
}

impl Setup {
    /// The published experiments: 51 clients on 17 machines of the profile `apt` with 4 operations each, 5 % PUTs,
    /// items of 48 bytes `[HERD §5.1, §5.3]`; measured for 1 ms after 0.5 ms of warm-up.
    pub fn new() -> Setup {
        Setup::on(Profile::named("apt").expect("a profile"))
    }

    /// As [`Setup::new`], but on machines of `profile`.
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

    /// Seed of the key hash that server and clients use; follows from [`Setup::seed`].
    pub fn hash_seed(&self) -> HashSeed {
        HashSeed::new(self.seed, 7)
    }
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}
