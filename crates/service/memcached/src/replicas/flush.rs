//! `flush_all` in a member with replicas: the core deletes what is its own and not what it keeps for others, and has its keepers do the same.

use crate::Executor;
use crate::handover::END;
use drover_base::{Cpu, KeyHash};
use drover_cluster::ShardId;
use drover_store::Sharing;

/// Buckets of a piece of a scan, whose names need little memory,
const PIECE_BUCKETS: u64 = 256;
/// unless there are more pieces than this.
const PIECES_MAX: u64 = 1 << 16;

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Deletes all items but those that the core keeps for other members; the copies of this core's own follow. Cost: reads the whole index.
    #[cold]
    pub(crate) fn flush_own(&mut self) {
        let Some(member) = &self.core.member else {
            return;
        };
        let shards = member.shards.clone();
        let all = (0..shards.shard_count() as u16).map(ShardId);
        let kept: Vec<bool> = all
            .clone()
            .map(|shard| shards.kept_copy(shard).is_some())
            .collect();
        self.delete_where(|hash| !kept[shards.shard_of(hash).index()]);
        if let Some(replicas) = self.core.replicas_mut() {
            let flushed = &mut replicas.replicator.flushed;
            flushed.clear();
            flushed.extend(all.filter(|shard| shards.sent_copy(*shard).is_some()));
        }
    }

    /// Deletes all items whose hash `is_meant`.
    pub(super) fn delete_where(&mut self, is_meant: impl Fn(KeyHash) -> bool) {
        let mut found = Vec::new();
        let pieces = self.server.settings.bucket_count.div_ceil(PIECE_BUCKETS);
        let piece = END >> pieces.clamp(1, PIECES_MAX).ilog2();
        for start in (0..END).step_by(piece as usize) {
            self.scan_names(start..start + piece, |name, _| {
                if is_meant(name.hash) {
                    name.put(&mut found);
                }
            });
            self.delete_named(&found);
            found.clear();
        }
    }
}
