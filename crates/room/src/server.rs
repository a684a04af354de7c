//! A HERD server in a room: its workers, its doorkeeper, and the items it begins with.

use crate::{Doorkeeper, Load};
use drover_base::{Cpu, HashSeed, KeyHash, Line, Ns};
use drover_kv_herd::control::Format;
use drover_kv_herd::layout::paper;
use drover_kv_herd::server::{Server, ServerOptions, StartError, Worker};
use drover_rt::control::Desk;
use drover_store::{Key, PutOutcome};
use drover_verbs_sim::{Sim, World};

/// Opens a server on `machine`: each worker and the doorkeeper on a core of their own. `prepare` sees the workers before
/// they begin. Errors: as [`Server::in_pieces`].
pub fn open(
    world: &World,
    machine: usize,
    options: &ServerOptions,
    desk: &Desk,
    prepare: impl FnOnce(&mut [Worker<Sim>]),
) -> Result<(), StartError> {
    let device = world.device(machine);
    let (acceptor, mut workers) = Server::<Sim>::in_pieces(&device, options)?;
    prepare(&mut workers);
    for worker in workers {
        let ctx = worker.context();
        world.spawn(&ctx, Box::new(worker));
    }
    let ctx = acceptor.context();
    world.spawn(&ctx, Box::new(Doorkeeper::new(acceptor, desk)));
    Ok(())
}

/// Gives every key of `load` its value, past the network and in no time.
///
/// # Panics
/// If a partition has no room.
pub fn fill(workers: &mut [Worker<Sim>], load: &Load, seed: HashSeed, format: Format) {
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
