//! [`ShardState`]: the state of a server that all its clients share.

use super::shard::Shard;
use super::{ServerOptions, ServerStats};
use crate::layout::{Request, Status};
use drover_base::{Cpu, KeyHash, KeyHasher, Ns};
use drover_index::hopscotch::{HopscotchTable, TableOptions};
use drover_kv::{Extension, Refusal, StartError};
use drover_mem::round_up;
use drover_one_sided::{Clock, Staging, Usage};
use drover_verbs::{Access, Context, MemoryRegion, Provider};

/// Longest item, bytes: an object's length has 24 bits.
pub(crate) const ITEM_BYTES_MAX: usize = 8 << 20;

/// FaRM-KV's part of a server: owns table and objects, and executes requests on them.
pub struct ShardState<P: Provider> {
    pub(super) shard: Shard,
    pub(super) stats: ServerStats,
    pub(super) staging: Staging<P>,
    pub(super) table: TableOptions,
    pub(super) slots: P::Mr,
    pub(super) objects: P::Mr,
    pub(super) options: ServerOptions,
    hasher: KeyHasher,
    clock: Clock,
    /// Buffer for a value on its way from or to a stage.
    value: Vec<u8>,
}

impl<P: Provider> ShardState<P> {
    pub(super) fn new(
        ctx: &P::Context,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<ShardState<P>, StartError> {
        let table = TableOptions {
            geometry: options.geometry,
            kind: options.kind,
            home_count: options.home_count,
            block_count: options.block_count,
            epoch: ctx.cpu().random().max(1),
        };
        let readable = |bytes| -> Result<P::Mr, StartError> {
            Ok(ctx.register(&ctx.alloc(bytes, options.pages)?, Access::REMOTE_READ)?)
        };
        let slots = readable(table.bytes())?;
        let objects = readable(options.memory_bytes)?;
        let item_bytes_max = options.item_bytes_max.min(ITEM_BYTES_MAX);
        let shard = Shard::new(
            HopscotchTable::new(slots.region().clone(), &table),
            objects.region().clone(),
            options.memory_bytes,
            options.grace,
            item_bytes_max,
            options.evicts,
        );
        Ok(ShardState {
            shard,
            stats: ServerStats::default(),
            staging: Staging::new(ctx, round_up(item_bytes_max, 4096), options.pages)?,
            table,
            slots,
            objects,
            options: ServerOptions {
                item_bytes_max,
                ..options.clone()
            },
            hasher,
            clock,
            value: Vec::new(),
        })
    }

    /// Number of keys in overflow; each costs its readers at least one more READ.
    pub fn overflow_len(&self) -> usize {
        self.shard.overflow_len()
    }

    /// Number of slots of the table, used or free, without those of overflow blocks.
    pub fn slot_count(&self) -> usize {
        self.table.slot_count()
    }

    pub(super) fn put(&mut self, request: &Request, key: &[u8], value: &[u8], now: Ns) -> Status {
        let hash = self.hasher.hash(key);
        let now_s = self.clock.now_s(now);
        let expire_s = self.clock.expire_s(request.ttl_s, now);
        if let Some(Extension { condition, .. }) = request.extension
            && let Err(status) = self.shard.check(hash, now_s, condition)
        {
            return status;
        }
        let extension = request.extension;
        match self
            .shard
            .put(hash, key, value, (expire_s, extension), (now, now_s))
        {
            Ok(()) => Status::Stored,
            Err(refusal) => self.refuse(refusal),
        }
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Status {
        let usage = Usage {
            shard: self.options.membership.shard,
            items: self.shard.len(),
            places: self.slot_count(),
            used_bytes: self.shard.used_bytes(),
            record_bytes: self.options.memory_bytes,
        };
        self.stats.refusals.note(refusal, &usage);
        refusal.into()
    }

    /// Executes a PUT whose value has arrived in `stage`.
    pub(super) fn put_staged(&mut self, request: &Request, key: &[u8], stage: u8, now: Ns) -> Status {
        let mut value = std::mem::take(&mut self.value);
        value.resize(request.value_bytes, 0);
        self.staging.copy_out(stage, &mut value);
        let status = self.put(request, key, &value, now);
        self.value = value;
        status
    }

    pub(super) fn delete(&mut self, request: &Request, key: &[u8], now: Ns) -> Status {
        let (hash, now_s) = (self.hasher.hash(key), self.clock.now_s(now));
        if let Some(Extension { condition, .. }) = request.extension
            && let Err(status) = self.shard.check(hash, now_s, condition)
        {
            return status;
        }
        match self.shard.remove(hash, now, now_s) {
            true => Status::Deleted,
            false => Status::NotFound,
        }
    }

    pub(super) fn touch(&mut self, request: &Request, key: &[u8], now: Ns) -> Status {
        let (hash, now_s) = (self.hasher.hash(key), self.clock.now_s(now));
        let expire_s = self.clock.expire_s(request.ttl_s, now);
        match self.shard.touch(hash, key, expire_s, (now, now_s)) {
            Ok(true) => Status::Touched,
            Ok(false) => Status::NotFound,
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// What answers a GET of `key`: the value, behind version and flags if they are asked for. `None`: there is no such
    /// key.
    pub(super) fn answer(&mut self, request: &Request, key: &[u8], now: Ns) -> Result<Option<&[u8]>, Status> {
        let (hash, now_s) = (self.hash(key), self.clock.now_s(now));
        if request.is_detailed {
            return self.detailed_answer(hash, key, (now, now_s));
        }
        Ok(self.shard.get(hash, key, now_s))
    }

    #[cold]
    fn detailed_answer(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        times: (Ns, u32),
    ) -> Result<Option<&[u8]>, Status> {
        let answer = &mut self.value;
        answer.clear();
        match self.shard.get_item(hash, key, times) {
            Ok(Some((info, value))) => {
                answer.extend_from_slice(&info.to_bytes());
                answer.extend_from_slice(value);
                Ok(Some(&self.value))
            }
            Ok(None) => Ok(None),
            Err(refusal) => Err(self.refuse(refusal)),
        }
    }

    /// Copies what answers a GET of `key` to `stage`; returns its length.
    pub(super) fn stage(
        &mut self,
        request: &Request,
        key: &[u8],
        stage: u8,
        now: Ns,
    ) -> Result<usize, Status> {
        let (hash, now_s) = (self.hash(key), self.clock.now_s(now));
        let answer = match request.is_detailed {
            true => self.detailed_answer(hash, key, (now, now_s))?.map(<[u8]>::len),
            false => None,
        };
        let bytes = match answer {
            Some(_) => Some(&self.value[..]),
            None => self.shard.get(hash, key, now_s),
        };
        let bytes = bytes.ok_or(Status::NotFound)?;
        self.staging.copy_in(stage, bytes);
        Ok(bytes.len())
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }
}
