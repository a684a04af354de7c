//! FaRM-KV's server as a [`Shard`].

use super::{Shard, ShardPlan, ShardStats, TableShape};
use drover_base::HashSeed;
use drover_index::hopscotch::SlotKind;
use drover_kv_farm::server::{Server, ServerOptions};
use drover_rt::control::ControlStream;
use drover_verbs::Provider;
use std::rc::Rc;

/// A server, and what it was made of.
pub struct FarmShard<P: Provider> {
    server: Server<P>,
    home_count: usize,
}

impl<P: Provider> drover_base::Actor<P::Cpu> for FarmShard<P> {
    fn step(&mut self, cpu: &P::Cpu) -> drover_base::Progress {
        self.server.step(cpu)
    }
}

impl<P: Provider> Shard<P> for FarmShard<P> {
    fn open(
        device: &P::Device,
        plan: &ShardPlan,
        index: usize,
        seed: HashSeed,
    ) -> Result<FarmShard<P>, String> {
        let options = ServerOptions {
            shard: index as u16,
            shard_count: plan.shard_count as u16,
            kind: match plan.table {
                TableShape::WIDE => SlotKind::Wide,
                _ => SlotKind::Narrow,
            },
            home_count: plan.entry_count,
            block_count: plan.block_count(),
            memory_bytes: plan.record_bytes,
            item_bytes_max: plan.item_bytes_max,
            evicts: plan.evicts,
            look_every: plan.look_every,
            pages: plan.pages,
            hash_seed: Some(seed),
            ..ServerOptions::default()
        };
        let server = Server::new(device, &options).map_err(|error| error.to_string())?;
        let home_count = plan.entry_count;
        Ok(FarmShard { server, home_count })
    }

    fn context(&self) -> Rc<P::Context> {
        self.server.context()
    }

    fn adopt(&mut self, stream: ControlStream) {
        self.server.adopt(stream);
    }

    fn client_count(&self) -> usize {
        self.server.client_count()
    }

    fn figures(&self) -> ShardStats {
        let stats = self.server.stats();
        ShardStats {
            gets: stats.gets,
            puts: stats.puts,
            deletes: stats.deletes,
            pulls: stats.pulls,
            items: self.server.len() as u64,
            bytes: Some(self.server.used_bytes() as u64),
            evictions: Some(stats.evictions),
            places: self.home_count as u64,
            clients: self.server.client_count() as u64,
        }
    }
}
