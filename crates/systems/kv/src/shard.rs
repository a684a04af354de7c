//! [`Shard`]: a server that is one shard of a service, an actor with its own memory and clients.

use crate::ShardPlan;
use drover_base::{Actor, HashSeed};
use drover_rt::control::ControlStream;
use drover_verbs::Provider;
use std::rc::Rc;

/// One shard of a service. Systems whose services are equal shards implement it, and need no threads of their own.
pub trait Shard<P: Provider>: Actor<P::Cpu> + Sized + 'static {
    /// Everything that a shard can be told at its start; a plan says only what all systems have in common.
    type Options;

    /// The options of shard `index` of a service of `plan`. All shards hash under `seed`.
    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> Self::Options;

    /// A shard with these options, on the core that calls this.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn with_options(device: &P::Device, options: &Self::Options) -> Result<Self, String>;

    /// Shard `index` of a service of `plan`, on the core that calls this. All shards hash under `seed`.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn open(device: &P::Device, plan: &ShardPlan, index: usize, seed: HashSeed) -> Result<Self, String> {
        Self::with_options(device, &Self::options(plan, index, seed))
    }

    /// Its view of the fabric.
    fn context(&self) -> Rc<P::Context>;

    /// Serves the client at the other end.
    fn adopt(&mut self, stream: ControlStream);

    /// Clients, those on their way in included.
    fn client_count(&self) -> usize;

    /// Values of the system's [counters](crate::Facts::counters), in their order.
    fn counters(&self) -> Vec<u64>;
}
