//! [`Shard`]: a server that is one shard of a service, an actor with its own memory and clients.

use crate::{ShardPlan, StartError};
use drover_base::{Actor, HashSeed};
use drover_control::ControlStream;
use drover_verbs::Provider;
use std::rc::Rc;

/// One shard of a service. A system whose services consist of equal shards implements this trait and needs no threads
/// of its own.
pub trait Shard<P: Provider>: Actor<P::Cpu> + Sized + 'static {
    /// Options of a shard of this system. A [`ShardPlan`] has only those that all systems have in common.
    type Options;
    /// What the shards of a service have in common: its default is made once, before the first of them is opened. `()` if
    /// each shard has only its own.
    type Common: Clone + Default + Send + Sync + 'static;

    /// Derives the options of shard `index` from the service's plan. All shards of a service hash keys under `seed`.
    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> Self::Options;

    /// Opens a shard with these options, on the calling core. All shards of a service have the same `common`.
    ///
    /// # Errors
    /// [`StartError`] if the shard cannot be opened.
    fn with_options(
        device: &P::Device,
        options: &Self::Options,
        common: &Self::Common,
    ) -> Result<Self, StartError>;

    /// Opens shard `index` of a service of `plan`, on the calling core. All shards of a service hash keys under `seed`.
    ///
    /// # Errors
    /// [`StartError`] if the shard cannot be opened.
    fn open(
        device: &P::Device,
        plan: &ShardPlan,
        index: usize,
        seed: HashSeed,
        common: &Self::Common,
    ) -> Result<Self, StartError> {
        Self::with_options(device, &Self::options(plan, index, seed), common)
    }

    /// The shard's device context; its core is the one to pass to the shard's [`step`](Actor::step).
    fn context(&self) -> Rc<P::Context>;

    /// Takes over the control channel of a client, and serves that client from the next step on.
    fn adopt(&mut self, stream: ControlStream);

    /// Number of clients adopted and not gone, including those without a session yet.
    fn client_count(&self) -> usize;

    /// Values of the system's [counters](crate::Facts::counters), in their order.
    fn counters(&self) -> Vec<u64>;
}
