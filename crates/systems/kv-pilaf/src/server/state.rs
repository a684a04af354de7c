//! [`ShardState`]: the state of a server that all its clients share.

use super::growth::{Growth, GrowthOptions, Slice};
use super::shard::{Reservation, Shard};
use super::{ServerOptions, ServerStats};
use crate::control::TableDescriptor;
use crate::layout::{Request, Status};
use drover_base::{Cpu, KeyHash, KeyHasher, Ns};
use drover_index::cuckoo::RECORD_BYTES_MAX;
use drover_kv::{Extension, Refusal, StartError};
use drover_mem::AllocError;
use drover_one_sided::{Clock, Usage};
use drover_store::ExtentsOptions;
use drover_verbs::{Access, Context, MemoryRegion, Provider};
use std::rc::Rc;

/// Pilaf's part of a server: owns table and records, and executes requests on them.
pub struct ShardState<P: Provider> {
    pub(super) shard: Shard,
    pub(super) growth: Growth<P>,
    pub(super) stats: ServerStats,
    pub(super) extents: P::Mr,
    pub(super) hasher: KeyHasher,
    pub(super) clock: Clock,
    pub(super) options: ServerOptions,
    /// Buffer for the message being executed.
    pub(super) message: Vec<u8>,
}

impl<P: Provider> ShardState<P> {
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<ShardState<P>, StartError> {
        let growth_options = GrowthOptions {
            entry_count_max: options.entry_count_max,
            grows_into_records: options.grows_into_records,
            lease: options.lease,
            pages: options.pages,
        };
        // Epoch of the first table. Each further table adds one, and the number never overflows.
        let epoch = (ctx.cpu().random() >> 1).max(1);
        let (growth, table) = Growth::<P>::new(ctx, growth_options, options.entry_count, epoch)?;
        let memory = ctx.alloc(options.memory_bytes, options.pages)?;
        let extents = ctx.register(&memory, Access::REMOTE_READ)?;
        let extents_options = ExtentsOptions {
            grace: options.grace,
            ..ExtentsOptions::for_bytes(options.memory_bytes)
        };
        let item_bytes_max = options.item_bytes_max.min(RECORD_BYTES_MAX);
        Ok(ShardState {
            shard: Shard::new(table, memory, extents_options, item_bytes_max, options.evicts),
            growth,
            stats: ServerStats::default(),
            extents,
            hasher,
            clock,
            options: ServerOptions {
                message_bytes: options.message_bytes.min(ctx.caps().send_bytes_max),
                item_bytes_max,
                ..options.clone()
            },
            message: Vec::new(),
        })
    }

    /// Number of entries, used or free, of the table that clients READ now.
    pub fn entry_count(&self) -> usize {
        self.shard.table.table().entry_count()
    }

    /// Number of replaced tables whose memory is still registered, because a client may READ them or they are not
    /// poisoned yet.
    pub fn retired_count(&self) -> usize {
        self.growth.retired_count()
    }

    /// Epoch of the table that clients READ.
    pub(super) fn epoch(&self) -> u64 {
        self.shard.table.table().epoch()
    }

    /// The table's location, for clients.
    pub(super) fn table(&self) -> Result<TableDescriptor, AllocError> {
        Ok(TableDescriptor {
            epoch: self.epoch(),
            entry_count: self.entry_count() as u64,
            memory: self.growth.table().export(&[])?,
        })
    }

    /// Does a slice of the table's growth.
    pub(super) fn grow(&mut self, now: Ns) -> Slice {
        let slice = self.growth.advance(&mut self.shard, self.stats.puts, now);
        self.stats.growths += u64::from(slice == Slice::GoneOver);
        slice
    }

    /// Allocates a record and writes all of it except the value, with the expiry and flags `kept`, if there are some.
    pub(super) fn draft(
        &mut self,
        request: &Request,
        key: &[u8],
        kept: Option<(u32, u32)>,
        now: Ns,
    ) -> Result<Reservation, Status> {
        let expire_s = self.clock.expire_s(request.ttl_s, now);
        let flags = request.extension.map_or(0, |extension| extension.flags);
        let terms = kept.unwrap_or((expire_s, flags));
        let draft = self.shard.draft(key, request.value_bytes, terms, now);
        draft.map_err(|refusal| self.refuse(refusal))
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Status {
        let usage = Usage {
            shard: self.options.membership.shard,
            items: self.shard.len(),
            places: self.entry_count(),
            used_bytes: self.shard.used_bytes(),
            record_bytes: self.shard.record_bytes(),
        };
        self.stats.refusals.note(refusal, &usage);
        refusal.into()
    }

    /// Publishes a draft whose value is complete. If the table has no entry for the key, the table grows; if it may
    /// not grow, a cache evicts another key.
    pub(super) fn publish(&mut self, hash: KeyHash, draft: Reservation, now: Ns) -> Status {
        while self.shard.publish(hash, &draft, now).is_err() {
            if !self.growth.hurry(&mut self.shard, now) && !self.shard.evict(now) {
                self.shard.drop_draft(draft);
                return self.refuse(Refusal::TableFull);
            }
        }
        Status::Stored
    }

    /// Executes a PUT whose value came with the message.
    pub(super) fn put(
        &mut self,
        hash: KeyHash,
        request: &Request,
        key: &[u8],
        value: &[u8],
        now: Ns,
    ) -> Status {
        // The draft may evict the key.
        let kept = match self.check_put(hash, request, key, now) {
            Ok(kept) => kept,
            Err(status) => return status,
        };
        match self.draft(request, key, kept, now) {
            Ok(draft) => {
                self.shard.write_value(&draft, value);
                self.publish(hash, draft, now)
            }
            Err(status) => status,
        }
    }

    /// Checks the condition of a PUT; returns the expiry and flags that the key keeps, if it does.
    fn check_put(
        &self,
        hash: KeyHash,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Result<Option<(u32, u32)>, Status> {
        let Some(Extension { condition, keep, .. }) = request.extension else {
            return Ok(None);
        };
        let now_s = self.clock.now_s(now);
        self.shard.check(hash, key, now_s, condition)?;
        Ok(keep.then(|| self.shard.terms(hash, key, now_s)).flatten())
    }

    /// Publishes the draft of a PUT, whose value the server has READ, if its condition holds.
    pub(super) fn publish_pulled(
        &mut self,
        hash: KeyHash,
        mut draft: Reservation,
        request: &Request,
        now: Ns,
    ) -> Status {
        let mut space = [0; drover_kv::KEY_BYTES_MAX];
        let key = self.shard.draft_key(&draft, &mut space);
        match self.check_put(hash, request, key, now) {
            Ok(Some(kept)) => self.shard.set_terms(&mut draft, kept),
            Ok(None) => {}
            Err(status) => {
                self.shard.drop_draft(draft);
                return status;
            }
        }
        self.publish(hash, draft, now)
    }

    pub(super) fn delete(&mut self, hash: KeyHash, request: &Request, key: &[u8], now: Ns) -> Status {
        let now_s = self.clock.now_s(now);
        if let Some(Extension { condition, .. }) = request.extension
            && let Err(status) = self.shard.check(hash, key, now_s, condition)
        {
            return status;
        }
        match self.shard.remove(hash, key, now, now_s) {
            true => Status::Deleted,
            false => Status::NotFound,
        }
    }

    /// Writes the record of `key` again, with another expiry.
    pub(super) fn touch(&mut self, hash: KeyHash, request: &Request, key: &[u8], now: Ns) -> Status {
        let (now_s, expire_s) = (self.clock.now_s(now), self.clock.expire_s(request.ttl_s, now));
        match self.shard.draft_touched(hash, key, expire_s, (now, now_s)) {
            None => Status::NotFound,
            Some(Err(refusal)) => self.refuse(refusal),
            Some(Ok(draft)) => match self.publish(hash, draft, now) {
                Status::Stored => Status::Touched,
                refused => refused,
            },
        }
    }
}
