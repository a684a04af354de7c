//! [`Desk`]: what all clients of a server share.

use super::ServerStats;
use super::growth::{Growth, Slice};
use super::shard::{Draft, Shard};
use crate::layout::{Request, Status};
use drover_base::{KeyHash, KeyHasher, Ns};
use drover_kv::Refusal;
use drover_verbs::Provider;

/// The shard, and what it takes to answer.
pub(super) struct Desk<P: Provider> {
    pub(super) shard: Shard,
    pub(super) growth: Growth<P>,
    pub(super) stats: ServerStats,
    pub(super) extents: P::Mr,
    pub(super) hasher: KeyHasher,
    started: Ns,
    /// A message being taken apart.
    pub(super) message: Vec<u8>,
}

impl<P: Provider> Desk<P> {
    pub(super) fn new(
        shard: Shard,
        growth: Growth<P>,
        hasher: KeyHasher,
        extents: P::Mr,
        started: Ns,
    ) -> Desk<P> {
        Desk {
            shard,
            growth,
            stats: ServerStats::default(),
            extents,
            hasher,
            started,
            message: Vec::new(),
        }
    }

    /// Seconds of the server's clock; from 1 on, since 0 means never.
    pub(super) fn now_s(&self, now: Ns) -> u32 {
        now.since(self.started).as_s() as u32 + 1
    }

    /// A slice of the table's growth.
    pub(super) fn grow(&mut self, now: Ns) -> Slice {
        let slice = self.growth.advance(&mut self.shard, self.stats.puts, now);
        self.stats.growths += u64::from(slice == Slice::GoneOver);
        slice
    }

    /// Room for a record, and all of it but the value.
    pub(super) fn draft(&mut self, request: &Request, key: &[u8], now: Ns) -> Result<Draft, Status> {
        let expire_s = match request.ttl_s {
            0 => 0,
            ttl_s => self.now_s(now).saturating_add(ttl_s),
        };
        let draft = self.shard.draft(key, request.value_bytes, expire_s, now);
        draft.map_err(|refusal| match refusal {
            Refusal::TooLarge => Status::TooLarge,
            Refusal::Full => Status::Full,
            _ => Status::BadRequest,
        })
    }

    /// Makes a draft whose value is there the record of its key. A key without a place makes the table grow, a cache that
    /// may not grow forget another one.
    pub(super) fn publish(&mut self, hash: KeyHash, draft: Draft, now: Ns) -> Status {
        while self.shard.publish(hash, &draft, now).is_err() {
            if !self.growth.hurry(&mut self.shard, now) && !self.shard.evict(now) {
                self.shard.drop_draft(draft);
                return Status::Full;
            }
        }
        Status::Stored
    }

    /// A PUT whose value came with it.
    pub(super) fn put(
        &mut self,
        hash: KeyHash,
        request: &Request,
        key: &[u8],
        value: &[u8],
        now: Ns,
    ) -> Status {
        match self.draft(request, key, now) {
            Ok(draft) => {
                self.shard.write_value(&draft, value);
                self.publish(hash, draft, now)
            }
            Err(status) => status,
        }
    }
}
