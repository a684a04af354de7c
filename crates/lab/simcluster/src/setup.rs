//! [`Setup`]: the machines, the servers, the clients, their load, and the time to measure.

use crate::Load;
use drover_base::{HashSeed, Ns};
use drover_kv::{FetchChoice, SteppedSizes, Trial};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Doorbells, WorldOptions};

/// Sizes and options of the servers of one service, all on one machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Servers {
    /// Number of shards (partitions), each on a core of its own.
    pub shard_count: usize,
    /// How the cores share the card's doorbell registers.
    pub doorbells: Doorbells,
    /// Longest value that a reply contains inline, bytes; lowered to the limit of the cards.
    pub inline_bytes_max: usize,
}

impl Servers {
    /// Six shards, as in the published experiments `[HERD §5.1]`; the driver's doorbell registers, and values as long as
    /// possible inline.
    pub fn new() -> Servers {
        Servers {
            shard_count: 6,
            doorbells: Doorbells::Driver,
            inline_bytes_max: usize::MAX,
        }
    }
}

impl Default for Servers {
    fn default() -> Servers {
        Servers::new()
    }
}

/// What some experiments prescribe about clients and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prescribed {
    /// Number of clients of one machine that are threads of one process, and so share its doorbell registers; 0 counts
    /// as 1. (The servers are threads of one process in any case.)
    pub threads: usize,
    /// How clients READ results, if they do; `None`: as they choose themselves.
    pub fetch: Option<FetchChoice>,
    /// Slots, and whether there is a handler, whose price is one of [`WorldOptions::costs`].
    pub trial: Trial,
}

/// Description of a run: the servers of one service on machine 0, clients on machines 1 and up, their load, and how
/// long to measure. It does not say which system runs.
#[derive(Clone)]
pub struct Setup {
    /// Hardware profile and faults, the same for all machines. A run adds prices of the system's own code to
    /// [`WorldOptions::costs`]; prices of the same name that are there already win.
    pub world: WorldOptions,
    /// Seed of everything random; equal set-ups with equal seeds give equal runs.
    pub seed: u64,
    /// Sizes and options of the servers.
    pub servers: Servers,
    /// Total number of clients, spread round-robin over the client machines, each on a core of its own.
    pub clients: usize,
    /// Number of client machines, without the server's. Must not be 0.
    pub machines: usize,
    /// Maximum number of operations that each client keeps outstanding; its own window may be smaller.
    pub depth: usize,
    /// Operations in flight per shard that each client asks for: a power of two.
    pub window: usize,
    /// What else an experiment prescribes.
    pub prescribed: Prescribed,
    /// The operations that clients draw.
    pub load: Load,
    /// Whether all keys are stored before the warm-up begins (the last PUTs may still be in flight then); if not, the
    /// tables start empty.
    pub filled: bool,
    /// Virtual time between the moment when all clients are ready and the beginning of the measured span.
    pub warm_up: Ns,
    /// Length of the measured span in virtual time.
    pub measured: Ns,
}

impl Setup {
    /// The published experiments: six shards, 51 clients on 17 machines of the profile `apt` with 4 operations each and
    /// a window of as many per shard, 5 % PUTs, items of 48 bytes `[HERD §5.1, §5.3]`. Our choice: 20,000 keys, all
    /// stored at first; measured for 1 ms after 0.5 ms of warm-up.
    pub fn new() -> Setup {
        Setup::on(Profile::named("apt").expect("a profile"))
    }

    /// As [`Setup::new`], but on machines of `profile`.
    pub fn on(profile: Profile) -> Setup {
        Setup {
            world: WorldOptions::new(profile),
            seed: 1,
            servers: Servers::new(),
            clients: 51,
            machines: 17,
            depth: 4,
            window: 4,
            prescribed: Prescribed::default(),
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

    /// Sizes of the service.
    pub(crate) fn sizes(&self) -> SteppedSizes {
        SteppedSizes {
            shard_count: self.servers.shard_count,
            client_count: self.clients,
            key_count: self.load.keys,
            key_bytes: Load::key(0).len(),
            value_bytes: self.load.value_bytes,
            inline_bytes_max: self.servers.inline_bytes_max,
            hash_seed: self.hash_seed(),
            epoch: self.seed,
            trial: self.prescribed.trial,
        }
    }
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}
