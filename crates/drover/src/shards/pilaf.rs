//! Pilaf's server as a [`Shard`].

use super::{Shard, ShardPlan, ShardStats};
use drover_base::HashSeed;
use drover_kv_pilaf::server::{Server, ServerOptions};
use drover_rt::control::ControlStream;
use drover_verbs::Provider;
use std::rc::Rc;

impl<P: Provider> Shard<P> for Server<P> {
    fn open(device: &P::Device, plan: &ShardPlan, index: usize, seed: HashSeed) -> Result<Server<P>, String> {
        let options = ServerOptions {
            shard: index as u16,
            shard_count: plan.shard_count as u16,
            entry_count: plan.entry_count,
            // -m is for table and records together: a table that doubles would be over it.
            entry_count_max: plan.entry_count,
            memory_bytes: plan.record_bytes,
            item_bytes_max: plan.item_bytes_max,
            evicts: plan.evicts,
            look_every: plan.look_every,
            pages: plan.pages,
            hash_seed: Some(seed),
            ..ServerOptions::default()
        };
        Server::new(device, &options).map_err(|error| error.to_string())
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

    fn figures(&self) -> ShardStats {
        let stats = self.stats();
        ShardStats {
            gets: stats.gets,
            puts: stats.puts,
            deletes: stats.deletes,
            pulls: stats.pulls,
            items: self.len() as u64,
            bytes: Some(self.used_bytes() as u64),
            evictions: Some(stats.evictions),
            places: self.host().entry_count() as u64,
            clients: Server::client_count(self) as u64,
        }
    }
}
