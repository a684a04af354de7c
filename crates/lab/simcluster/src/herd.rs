//! [`Herd`]: a HERD server in a simulated cluster: its workers, its doorkeeper, and its initial items.

use crate::service::Core;
use crate::{Doorkeeper, Load, Service, Setup};
use drover_base::{Cpu, HashSeed, KeyHash, Line, Ns};
use drover_control::LocalListener;
use drover_kv::StartError;
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::control::Format;
use drover_kv_herd::layout::paper;
use drover_kv_herd::server::{ClientLimits, IdentityOptions, Server, ServerOptions, WithPaperFormat, Worker};
use drover_mem::PageWish;
use drover_store::{Key, Mode, PartitionOptions, PutOutcome, item_bytes};
use drover_verbs_sim::{Sim, World};
use std::rc::Rc;

/// Minimum items per partition, so that no table fits the caches of a core.
const ITEMS_MIN: usize = 1 << 15;

/// A HERD worker of the simulated fabric, for clients of either [`Format`].
pub type SimWorker = Worker<Sim, WithPaperFormat>;

/// The HERD system as a [`Service`].
#[derive(Clone)]
pub struct Herd {
    /// Options of the server. [`Herd::server_options`] replaces `partition`, `clients_max`, `hash_seed` and `epoch`.
    pub server: ServerOptions,
    /// Options of every client.
    pub client: ClientOptions,
    /// Request and reply format of every client.
    pub format: Format,
}

impl Herd {
    /// The published experiments: six partitions, each on a core, and a window of four operations per client and
    /// partition `[HERD §5.1]`.
    pub fn new() -> Herd {
        Herd {
            server: ServerOptions {
                partition_count: 6,
                idle_sweeps: 1,
                ..ServerOptions::default()
            },
            client: ClientOptions {
                window: 4,
                ..ClientOptions::default()
            },
            format: Format::D,
        }
    }

    /// [`Herd::server`] fitted to `setup`: enough sessions for its clients, partitions for at least four times the keys
    /// of the load, so that almost nothing is evicted, and a key hash and an epoch that follow from its seed.
    pub fn server_options(&self, setup: &Setup) -> ServerOptions {
        let share = setup.load.keys as usize / self.server.partition_count.max(1);
        let item = item_bytes(Load::key(0).len(), setup.load.value_bytes);
        let items = (4 * share).max(ITEMS_MIN);
        ServerOptions {
            partition: PartitionOptions {
                pages: PageWish::Small,
                ..PartitionOptions::for_items(Mode::Cache { move_to_head: 1.0 }, items, item)
            },
            clients: ClientLimits {
                count_max: setup.clients.max(1),
                ..self.server.clients
            },
            identity: IdentityOptions {
                hash_seed: Some(setup.hash_seed()),
                epoch: Some(setup.seed),
            },
            ..self.server.clone()
        }
    }
}

impl Default for Herd {
    fn default() -> Herd {
        Herd::new()
    }
}

impl Service for Herd {
    type Client = HerdClient<Sim, Format>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<LocalListener> {
        let listener = LocalListener::new();
        open(world, 0, &self.server_options(setup), &listener, |workers| {
            if setup.filled {
                fill(workers, &setup.load, setup.hash_seed(), self.format);
            }
        })
        .expect("a server");
        vec![listener]
    }

    fn is_filled_when_open(&self) -> bool {
        true
    }

    fn client(&self, core: Rc<Core>, listeners: &[LocalListener]) -> HerdClient<Sim, Format> {
        HerdClient::with_format(core, Dial::at(&listeners[0]), self.client.clone(), self.format)
    }

    fn is_ready(client: &mut HerdClient<Sim, Format>) -> bool {
        client.is_ready()
    }

    fn part_count(&self) -> usize {
        self.server.partition_count
    }
}

/// Starts a HERD server on `machine` of `world`: every worker and the [`Doorkeeper`] of `listener` get a core each.
/// `prepare` is called with all workers before they run.
///
/// # Errors
/// Those of [`Server::in_pieces_as`]: `options` are impossible, or resources cannot be created.
pub fn open(
    world: &World,
    machine: usize,
    options: &ServerOptions,
    listener: &LocalListener,
    prepare: impl FnOnce(&mut [SimWorker]),
) -> Result<(), StartError> {
    let device = world.device(machine);
    let (acceptor, mut workers) = Server::<Sim>::in_pieces_as(&device, options, WithPaperFormat)?;
    prepare(&mut workers);
    for worker in workers {
        let ctx = worker.context();
        world.spawn(&ctx, Box::new(worker));
    }
    let ctx = acceptor.context();
    world.spawn(&ctx, Box::new(Doorkeeper::new(acceptor, listener)));
    Ok(())
}

/// Stores every key of `load` with its value directly in the partitions of `workers`, in no virtual time. `workers` are
/// all workers of a server whose key hash has `seed`; keys are stored as clients of `format` look them up.
///
/// # Panics
/// If a partition does not store an item, for example because it is full.
pub fn fill(workers: &mut [SimWorker], load: &Load, seed: HashSeed, format: Format) {
    let (hasher, value, count) = (seed.hasher(), load.value(), workers.len());
    for index in 0..load.keys {
        let key = Load::key(index);
        let hash = hasher.hash(&key);
        let partition = workers[hash.partition_index(count)].partition_mut();
        let key = match format {
            Format::D => Key { hash, bytes: &key },
            Format::P => Key {
                hash: KeyHash::from_bytes(paper::wire_hash(hash)),
                bytes: &[],
            },
        };
        let outcome = partition.put(&Nobody, key, &value, 0, 0);
        assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
    }
}

/// A `Cpu` on which work takes no time.
struct Nobody;

impl Cpu for Nobody {
    fn now(&self) -> Ns {
        Ns::ZERO
    }

    fn refresh(&self) -> Ns {
        Ns::ZERO
    }

    fn prefetch(&self, _: Line) {}

    fn random(&self) -> u64 {
        0
    }
}
