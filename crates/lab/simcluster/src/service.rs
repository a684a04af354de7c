//! [`Service`]: a key-value system, as a cluster needs to know it.

use crate::Setup;
use drover_control::LocalListener;
use drover_kv::KvClient;
use drover_verbs::Provider;
use drover_verbs_sim::{Sim, World};
use std::rc::Rc;

/// A client's view of the fabric, on a core of its own.
pub type Core = <Sim as Provider>::Context;

/// A key-value system: how its server opens on machine 0, and what its clients are.
pub trait Service {
    /// One client.
    type Client: KvClient<Sim> + 'static;

    /// Opens the server; clients connect to these listeners. With every key of the load in it, if it says that it is filled.
    ///
    /// # Panics
    /// If it cannot be opened.
    fn open(&self, world: &World, setup: &Setup) -> Vec<LocalListener>;

    /// Whether [`open`](Service::open) gives every key its value; if not, clients do before they ask for anything.
    fn is_filled_when_open(&self) -> bool;

    /// A client on a core of its own.
    fn client(&self, core: Rc<Core>, listeners: &[LocalListener]) -> Self::Client;

    /// Whether the client has been let in.
    fn is_ready(client: &mut Self::Client) -> bool;

    /// Cores of the server that have a part of the keys each, by the key's hash.
    fn part_count(&self) -> usize;
}
