//! [`Service`]: how a cluster opens the servers and clients of a key-value system.

use crate::Setup;
use drover_control::LocalListener;
use drover_kv::KvClient;
use drover_verbs::Provider;
use drover_verbs_sim::{Sim, World};
use std::rc::Rc;

/// Context of the simulated fabric: one core with its view of the network card.
pub type Core = <Sim as Provider>::Context;

/// A key-value system: opens its server on machine 0, and its clients on given cores.
pub trait Service {
    /// Type of a client.
    type Client: KvClient<Sim> + 'static;

    /// Starts the server in `world` and returns its listeners, all of which every client connects to. If
    /// `is_filled_when_open` and [`Setup::filled`] are true, the server holds every key of the load.
    ///
    /// # Panics
    /// If the server cannot be opened.
    fn open(&self, world: &World, setup: &Setup) -> Vec<LocalListener>;

    /// Whether [`open`](Service::open) itself stores the keys that [`Setup::filled`] asks for. If not, the clients PUT
    /// them before they begin with the load.
    fn is_filled_when_open(&self) -> bool;

    /// Creates a client on `core` that connects to `listeners`, the result of [`open`](Service::open).
    fn client(&self, core: Rc<Core>, listeners: &[LocalListener]) -> Self::Client;

    /// Whether `client` is connected and takes operations.
    fn is_ready(client: &mut Self::Client) -> bool;

    /// Number of partitions (shards) of the server, among which keys are divided by hash.
    fn part_count(&self) -> usize;
}
