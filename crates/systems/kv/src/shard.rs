//! [`Shard`]: a server that is one shard of a service, an actor with its own memory and clients.

use crate::{ShardPlan, StartError};
use drover_base::{Actor, HashSeed};
use drover_rt::control::ControlStream;
use drover_verbs::Provider;
use std::rc::Rc;

/// One shard of a service. Systems whose services are equal shards implement it, and need no threads of their own.
pub trait Shard<P: Provider>: Actor<P::Cpu> + Sized + 'static {
    /// Shard `index` of a service of `plan`, on the core that calls this. All shards hash under `seed`.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open(device: &P::Device, plan: &ShardPlan, index: usize, seed: HashSeed) -> Result<Self, StartError>;

    /// Its view of the fabric.
    fn context(&self) -> Rc<P::Context>;

    /// Serves the client at the other end.
    fn adopt(&mut self, stream: ControlStream);

    /// Clients, those on their way in included.
    fn client_count(&self) -> usize;

    /// Values of the system's [counters](crate::Facts::counters), in their order.
    fn counters(&self) -> Vec<u64>;
}
