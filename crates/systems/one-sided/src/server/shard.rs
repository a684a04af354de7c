//! Implements [`Shard`] for [`Server`].

use super::{Server, ShardLogic};
use drover_base::HashSeed;
use drover_control::ControlStream;
use drover_kv::{Counter, Shard, ShardPlan, StartError};
use drover_verbs::Provider;
use std::rc::Rc;

/// The last counter of every one-sided system: [`Server::client_count`], of the shard that has the most clients.
pub const CLIENTS: Counter = Counter::amount(
    "clients",
    "Clients of a shard, those still connecting included; the most of all shards.",
)
.largest();

/// Counter of every system whose updates are sent again when a session is lost.
pub const REPEATED: Counter = Counter::events(
    "updates_repeated",
    "Updates that came again after a connection had failed, and were answered, not executed again.",
);

impl<P: Provider, H: ShardLogic<P> + 'static> Shard<P> for Server<P, H> {
    type Options = H::Options;
    type Common = H::Common;

    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> H::Options {
        H::options(plan, index, seed)
    }

    fn with_options(
        device: &P::Device,
        options: &H::Options,
        common: &H::Common,
    ) -> Result<Self, StartError> {
        Server::with_common(device, options, common)
    }

    fn context(&self) -> Rc<P::Context> {
        Server::context(self)
    }

    fn adopt(&mut self, stream: ControlStream) {
        Server::adopt(self, stream);
    }

    fn client_count(&self) -> usize {
        Server::client_count(self)
    }

    fn counters(&self) -> Vec<u64> {
        let mut all = self.host().counters();
        all.push(self.client_count() as u64);
        all
    }
}
