//! [`ShardState`]: the state of a server that all its clients share.

use super::connection::Batch;
use super::second_look::SecondLook;
use super::{ServerOptions, ServerStats};
use crate::layout::{Request, Status, item_bytes};
use drover_base::{KeyHasher, Ns};
use drover_kv::{Refusal, StartError};
use drover_mem::{LINE_BYTES, round_up};
use drover_one_sided::{Clock, Staging, Usage};
use drover_rpc::fetch::CalleeStats;
use drover_store::{ItemRef, Key, Mode, Partition, PartitionOptions, PutOutcome, VALUE_BYTES_MAX};
use drover_verbs::Provider;
use std::marker::PhantomData;
use std::rc::Rc;

/// The systems' part of a server: owns the partition, and executes requests on it.
pub struct ShardState<P: Provider, V> {
    pub(super) partition: Partition,
    pub(super) stats: ServerStats,
    /// What the calls of all clients came to when the control channels were last polled, and of those that have gone.
    pub(super) calls: CalleeStats,
    pub(super) closed_calls: CalleeStats,
    pub(super) staging: Staging<P>,
    pub(super) options: ServerOptions,
    pub(super) second_look: SecondLook,
    pub(super) batch: Batch,
    /// Whether a client's request keeps the core from all others: see [`one_by_one`](super::one_by_one).
    pub(super) is_occupied: bool,
    /// A value on its way, or a result with one.
    pub(super) value: Vec<u8>,
    hasher: KeyHasher,
    pub(super) clock: Clock,
    variant: PhantomData<V>,
}

impl<P: Provider, V> ShardState<P, V> {
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<ShardState<P, V>, StartError> {
        let item_bytes_max = options.item_bytes_max.min(VALUE_BYTES_MAX);
        let partition = Partition::new(&PartitionOptions {
            mode: options.mode,
            log_bytes: (options.memory_bytes & !(LINE_BYTES - 1)).max(LINE_BYTES),
            bucket_count: options.bucket_count,
            elastic: options.mode == Mode::Store,
            hash_seed: None,
            value_bytes_max: item_bytes_max,
            pages: options.pages,
        })?;
        Ok(ShardState {
            partition,
            stats: ServerStats::default(),
            calls: CalleeStats::default(),
            closed_calls: CalleeStats::default(),
            staging: Staging::new(&**ctx, round_up(item_bytes_max, 4096), options.pages)?,
            options: ServerOptions {
                item_bytes_max,
                ..options.clone()
            },
            second_look: SecondLook::default(),
            batch: Batch::new(),
            is_occupied: false,
            value: Vec::new(),
            hasher,
            clock,
            variant: PhantomData,
        })
    }

    /// Whether an item is short enough.
    pub(super) fn admits(&self, key: &[u8], value_bytes: usize) -> bool {
        item_bytes(key.len(), value_bytes) <= self.options.item_bytes_max
    }

    #[inline]
    pub(super) fn put(
        &mut self,
        cpu: &P::Cpu,
        request: &Request,
        key: Key<'_>,
        value: &[u8],
        now: Ns,
    ) -> Status {
        if !self.admits(key.bytes, value.len()) {
            return Status::TooLarge;
        }
        let (now_s, expire_s) = (self.clock.now_s(now), self.clock.expire_s(request.ttl_s, now));
        match self.partition.put(cpu, key, value, expire_s, now_s) {
            PutOutcome::Stored { .. } => Status::Stored,
            PutOutcome::TooLarge => Status::TooLarge,
            _ => self.refuse(),
        }
    }

    #[cold]
    fn refuse(&mut self) -> Status {
        let partition = self.partition.stats();
        let usage = Usage {
            shard: self.options.membership.shard,
            items: partition.items as usize,
            places: partition.slots as usize,
            used_bytes: partition.bytes as usize,
            record_bytes: partition.bytes_max as usize,
        };
        self.stats.refusals.note(Refusal::Full, &usage);
        Status::Full
    }

    /// Executes a PUT whose value has arrived in `stage`.
    pub(super) fn put_staged(
        &mut self,
        cpu: &P::Cpu,
        request: &Request,
        key: &[u8],
        stage: u8,
        now: Ns,
    ) -> Status {
        let mut value = std::mem::take(&mut self.value);
        value.resize(request.value_bytes, 0);
        self.staging.copy_out(stage, &mut value);
        let status = self.put(cpu, request, self.key(key), &value, now);
        self.value = value;
        status
    }

    pub(super) fn delete(&mut self, cpu: &P::Cpu, key: Key<'_>, now: Ns) -> Status {
        match self.partition.delete(cpu, key, self.clock.now_s(now)) {
            true => Status::Deleted,
            false => Status::NotFound,
        }
    }

    /// The item of `key`.
    #[inline]
    pub(super) fn get(&mut self, cpu: &P::Cpu, key: Key<'_>, now: Ns) -> Option<ItemRef<'_>> {
        self.partition.get(cpu, key, self.clock.now_s(now))
    }

    /// A key with its hash.
    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = self.hasher.hash(bytes);
        Key { hash, bytes }
    }
}
