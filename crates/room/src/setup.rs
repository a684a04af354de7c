//! [`Setup`]: who asks what of whom, and for how long.

use crate::{Load, costs};
use drover_base::{HashSeed, Ns};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::server::ServerOptions;
use drover_mem::PageWish;
use drover_store::{Mode, PartitionOptions, item_bytes};
use drover_verbs_sim::WorldOptions;
use drover_verbs_sim::profile::Profile;

/// Tables are never so small that a core has all of them near: see `drover_sim`'s lines.
const ITEMS_MIN: usize = 1 << 15;

/// One server on machine 0, and clients on the machines after it.
#[derive(Clone)]
pub struct Setup {
    /// The machines, and what work costs on them.
    pub world: WorldOptions,
    /// For whatever is drawn.
    pub seed: u64,
    /// The server, but for what [`Setup::server_options`] adds.
    pub server: ServerOptions,
    /// Every client.
    pub client: ClientOptions,
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
    /// The published experiments: six cores, 51 clients on 17 machines of the profile `apt` with 4 operations each,
    /// 5 % PUTs, items of 48 bytes `[HERD §5.1, §5.3]`. The server works in batches.
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
            server: ServerOptions {
                partition_count: 6,
                idle_sweeps: 1,
                ..ServerOptions::default()
            },
            client: ClientOptions {
                window: 4,
                ..ClientOptions::default()
            },
            clients: 51,
            machines: 17,
            depth: 4,
            load: Load::new(),
            filled: true,
            warm_up: Ns::from_us(500),
            measured: Ns::from_ms(1),
        }
    }

    /// The server's options: with room for the clients and for four times the items, so that next to none is pushed out,
    /// and with a hash that the seed decides.
    pub fn server_options(&self) -> ServerOptions {
        let share = self.load.keys as usize / self.server.partition_count.max(1);
        let item = item_bytes(Load::key(0).len(), self.load.value_bytes);
        let items = (4 * share).max(ITEMS_MIN);
        ServerOptions {
            partition: PartitionOptions {
                pages: PageWish::Small,
                ..PartitionOptions::for_items(Mode::Cache { move_to_head: 1.0 }, items, item)
            },
            clients_max: self.clients.max(1),
            hash_seed: Some(self.hash_seed()),
            epoch: Some(self.seed),
            ..self.server.clone()
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
