//! [`Outgoing`]: shards that are being copied to their next owners, and what has changed of them.

use crate::requests::{Moving, push_noted};
use drover_cluster::{Epoch, Map, NotedKey, ServedShards, ShardId};
use std::collections::BTreeMap;

/// Most keys of one reply: some megabytes at the longest.
const KEYS_MAX: usize = 10_000;

/// What is being copied, by shard.
#[derive(Default)]
pub(crate) struct Outgoing(BTreeMap<ShardId, Copying>);

struct Copying {
    tenure: Epoch,
    /// Noted keys by core that were taken and did not fit into a reply.
    left: Vec<Vec<NotedKey>>,
}

impl Outgoing {
    /// A copy begins, perhaps again: what was noted for an earlier one is of no use.
    pub(crate) fn begin(&mut self, (shard, tenure): Moving, shards: &ServedShards) {
        let left = (0..shards.core_count()).map(|core| {
            shards.take_noted(core, shard);
            Vec::new()
        });
        let left = left.collect();
        self.0.insert(shard, Copying { tenure, left });
    }

    /// Whether changes of the shard are noted.
    pub(crate) fn is_noted(&self, shard: ShardId) -> bool {
        self.0.contains_key(&shard)
    }

    /// Whether nothing is being copied.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends copies that are not of a move of this map.
    pub(crate) fn follow(&mut self, map: &Map, shards: &ServedShards) {
        self.0.retain(|shard, copying| {
            let goes_on = map.moving(*shard).is_some_and(|it| it.tenure == copying.tenure);
            if !goes_on {
                for core in 0..shards.core_count() {
                    shards.take_noted(core, *shard);
                }
            }
            goes_on
        });
    }

    /// Takes noted keys of these moves, at most [`KEYS_MAX`], as the reply to
    /// [`Ask::Noted`](crate::requests::Ask::Noted).
    pub(crate) fn take(&mut self, moves: &[Moving], shards: &ServedShards) -> Vec<u8> {
        let mut taken: Vec<Vec<NotedKey>> = vec![Vec::new(); shards.core_count()];
        let mut space = KEYS_MAX;
        for (shard, tenure) in moves {
            let copying = self.0.get_mut(shard).filter(|it| it.tenure == *tenure);
            let Some(copying) = copying else { continue };
            for (core, left) in copying.left.iter_mut().enumerate() {
                if left.is_empty() {
                    left.extend(shards.take_noted(core, *shard));
                }
                let keys = left.drain(..left.len().min(space));
                space -= keys.len();
                taken[core].extend(keys);
            }
        }
        let mut reply = Vec::new();
        for (keys, core) in taken.iter().zip(0..) {
            push_noted(&mut reply, core, keys);
        }
        reply
    }
}
