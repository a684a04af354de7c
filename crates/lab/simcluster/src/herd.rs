//! [`Herd`]: a HERD server in a cluster, its workers, its doorkeeper, and the items it begins with.

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

/// Tables are never so small that a core has all of them near: see `drover_sim`'s lines.
const ITEMS_MIN: usize = 1 << 15;

/// A worker for clients of either format.
pub type SimWorker = Worker<Sim, WithPaperFormat>;

/// HERD.
#[derive(Clone)]
pub struct Herd {
    /// The server, but for what [`Herd::server_options`] adds.
    pub server: ServerOptions,
    /// Every client.
    pub client: ClientOptions,
    /// What every client speaks.
    pub format: Format,
}

impl Herd {
    /// The published experiments: six cores, four operations of a client to each of them `[HERD §5.1]`. The server works in
    /// batches.
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

    /// The server's options: with cluster for the clients and for four times the items, so that next to none is pushed out,
    /// and with a hash that the seed decides.
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

/// Opens a server on `machine`: each worker and the doorkeeper on a core of their own. `prepare` sees the workers before
/// they begin. Errors: as [`Server::in_pieces_as`].
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

/// Gives every key of `load` its value, past the network and in no time.
///
/// # Panics
/// If a partition has no cluster.
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

/// A core whose work takes no time.
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
