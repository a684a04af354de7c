//! [`Keeper`]: how a core takes what other members send it to keep.

use super::message::{CopyMessage, CopySource, ListedShard};
use crate::Executor;
use drover_base::Cpu;
use drover_cluster::{Epoch, ServedShards, ShardId};
use drover_store::Sharing;
use std::collections::BTreeMap;

/// What a core knows of those that send it copies.
#[derive(Default)]
pub(crate) struct Keeper {
    /// Number of the last message of each source, for as long as the process lives: a late one must not overwrite what is newer.
    last: BTreeMap<CopySource, u64>,
    /// Copies that began up to this epoch were lost.
    lost_until: Epoch,
}

impl Keeper {
    /// The core has lost all items: copies must begin again.
    pub(super) fn lost_all(&mut self, epoch: Epoch) {
        self.lost_until = epoch;
    }

    /// Whether a message is later than all of its source before; it is the last one now.
    fn is_new(&mut self, source: CopySource, number: u64) -> bool {
        let last = self.last.entry(source).or_default();
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }

    fn keeps(&self, shards: &ServedShards, listed: &ListedShard) -> bool {
        listed.shard.index() < shards.shard_count()
            && listed.tenure > self.lost_until
            && shards.kept_copy(listed.shard) == Some(listed.tenure)
    }
}

/// Shards of a message by what becomes of them.
struct Sorted {
    taken: Vec<ShardId>,
    flushed: Vec<ShardId>,
    refused: Vec<ShardId>,
}

impl Sorted {
    fn new(keeper: &Keeper, shards: &ServedShards, listed: &[ListedShard]) -> Sorted {
        let (mut taken, mut flushed, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for it in listed {
            match keeper.keeps(shards, it) {
                true => taken.push(it.shard),
                false => refused.push(it.shard),
            }
            if it.is_flushed {
                flushed.push(it.shard);
            }
        }
        taken.sort_unstable();
        // A shard may be listed for two tenures, if one copy has followed another while the message was made.
        taken.retain(|shard| !refused.contains(shard));
        flushed.retain(|shard| taken.contains(shard));
        Sorted {
            taken,
            flushed,
            refused,
        }
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Takes a message of another member, and appends the shards that are refused. Returns the number of the reply; `None`: it is malformed.
    pub(super) fn take_copies(&mut self, body: &[u8], refused: &mut Vec<u8>) -> Option<u64> {
        let message = CopyMessage::of(body)?;
        let source = message.source;
        let member = self.core.member.as_mut()?;
        let keeper = &mut member.replicas.as_mut()?.keeper;
        if !keeper.is_new(source, message.number) {
            return Some(0);
        }
        let shards = member.shards.clone();
        let mut sorted = Sorted::new(keeper, &shards, &message.shards);
        self.partition.raise_version(message.version);
        if !sorted.flushed.is_empty() {
            self.delete_where(|hash| {
                let is_senders =
                    hash.partition_index(usize::from(source.core_count)) == usize::from(source.core);
                is_senders && sorted.flushed.contains(&shards.shard_of(hash))
            });
        }
        for entry in message.entries {
            let shard = shards.shard_of(entry.name.hash);
            let is_taken = sorted.taken.binary_search(&shard).is_ok();
            if is_taken && !self.store_entry(&entry) && !sorted.refused.contains(&shard) {
                // Without space for it the copy is none, and must not be acknowledged.
                sorted.refused.push(shard);
            }
        }
        for shard in sorted.refused {
            refused.extend_from_slice(&shard.0.to_le_bytes());
        }
        Some(1)
    }
}
