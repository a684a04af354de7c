//! [`Sweeper`]: the thread that deletes void items from the member's cores.

use crate::connection::{Connection, HandoverError};
use crate::shared::Shared;
use drover_cluster::ShardId;
use drover_mem::NativeCpu;
use drover_memcached::handover::{END, ShardSet, discard_message};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for something to do, and pause after a failure.
const WAIT: Duration = Duration::from_millis(100);

/// Deletes the items of all shards that have void ones, in one scan of each core; shards that become void meanwhile are next.
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
    cpu: NativeCpu,
}

impl Sweeper {
    pub(crate) fn new(shared: Arc<Shared>) -> Sweeper {
        let cpu = NativeCpu::new(0);
        Sweeper { shared, cpu }
    }

    /// Works until the member ends.
    pub(crate) fn run(self) {
        let mut state = self.shared.state();
        while state.ends.is_none() {
            let shards = state.take_void();
            if shards.is_empty() {
                state = self.shared.wait(state, WAIT);
                continue;
            }
            drop(state);
            let result = self.sweep(&shards);
            state = self.shared.state();
            state.contents.swept(&shards, result.is_ok());
            state.publish();
            self.shared.notify();
            if let Err(error) = result {
                tracing::warn!(shards = shards.len(), %error, "void items could not be deleted, and will be tried again");
                state = self.shared.wait(state, WAIT);
            }
        }
    }

    fn sweep(&self, shards: &[ShardId]) -> Result<(), HandoverError> {
        // A core may have decided, before the shards became void, about a request that it executes only now.
        if !self.shared.pass_rounds(&self.cpu) {
            let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(HandoverError::Call(error));
        }
        let shard_count = self.shared.shards.shard_count();
        let mut set = ShardSet::new(shard_count);
        shards.iter().for_each(|shard| set.insert(*shard));
        let cores = self.shared.connect_own()?;
        let partitions = shards
            .iter()
            .flat_map(|shard| shard.partitions(shard_count, cores.len()));
        let concerned: BTreeSet<usize> = partitions.collect();
        for (call, index) in cores.into_iter().zip(0..) {
            if !concerned.contains(&index) {
                continue;
            }
            let (mut core, mut cursor) = (Connection::new(call), 0);
            while cursor < END {
                core.allow_flush();
                let next = core.ask(&discard_message(&set, cursor), |reply| Ok(reply.number))?;
                if next <= cursor {
                    return Err(HandoverError::Malformed { from: "a core" });
                }
                cursor = next;
            }
        }
        Ok(())
    }
}
