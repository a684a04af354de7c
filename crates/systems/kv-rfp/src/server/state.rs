//! [`ShardState`]: the state of a server that all its clients share.

use super::connection::{BATCH, Batch, Connection};
use super::second_look::SecondLook;
use super::store::ShardStore;
use super::{ServerOptions, ServerStats};
use crate::layout::{Request, Status, item_bytes};
use crate::variant::Variant;
use drover_base::{KeyHash, KeyHasher, Ns};
use drover_kv::{BadMap, Extension, PartitionMap, Refusal, StartError};
use drover_mem::round_up;
use drover_one_sided::{Clock, Staging, Usage};
use drover_rpc::fetch::CalleeStats;
use drover_store::{DeleteOutcome, ItemRef, Key, PutOutcome, VALUE_BYTES_MAX};
use drover_verbs::{Access, Context, Provider, Wc};
use std::rc::Rc;

/// What a step puts bytes in.
pub(super) struct Buffers {
    /// A value on its way.
    pub(super) value: Vec<u8>,
    /// The longest result with a value, and a byte.
    pub(super) result: Box<[u8]>,
    /// Polled completions.
    pub(super) wcs: Box<[Wc]>,
}

/// The systems' part of a server: owns the partition, and executes requests on it.
pub struct ShardState<P: Provider, V: Variant> {
    pub(super) partition: V::Store,
    /// The memory of the items, if clients READ long ones there.
    pub(super) items: Option<P::Mr>,
    pub(super) stats: ServerStats,
    /// What the calls of all clients came to when the control channels were last polled, and of those that have gone.
    pub(super) calls: CalleeStats,
    pub(super) closed_calls: CalleeStats,
    pub(super) staging: Staging<P>,
    pub(super) options: ServerOptions,
    pub(super) second_look: SecondLook,
    pub(super) batch: Batch,
    /// Whether the batch's only request keeps the core from all clients but one: see [`one_by_one`](super::one_by_one).
    pub(super) is_occupied: bool,
    pub(super) buffers: Buffers,
    /// Connections whose sessions have ended while their clients may be READing items.
    leaving: Vec<Connection<P, V>>,
    ctx: Rc<P::Context>,
    /// Which shard owns a key.
    map: PartitionMap,
    pub(super) hasher: KeyHasher,
    clock: Clock,
}

/// Number of shards that own keys of their own, or 1 if all shards have one store.
fn owner_count<V: Variant>(options: &ServerOptions) -> usize {
    match V::Store::IS_SHARED {
        true => 1,
        false => usize::from(options.membership.shard_count),
    }
}

impl<P: Provider, V: Variant> ShardState<P, V> {
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
        common: &<V::Store as ShardStore>::Common,
    ) -> Result<ShardState<P, V>, StartError> {
        let item_bytes_max = options.item_bytes_max.min(VALUE_BYTES_MAX);
        let options = ServerOptions {
            item_bytes_max,
            ..options.clone()
        };
        let slot_bytes = options.slot_bytes;
        let partition = V::Store::open::<P>(ctx, &options, &hasher, common)?;
        let items = partition
            .shared()
            .map(|store| ctx.register(store.region(), Access::REMOTE_READ));
        Ok(ShardState {
            items: items.transpose()?,
            partition,
            stats: ServerStats::default(),
            calls: CalleeStats::default(),
            closed_calls: CalleeStats::default(),
            staging: Staging::new(&**ctx, round_up(item_bytes_max, 4096), options.pages)?,
            second_look: SecondLook::default(),
            batch: Batch::new(),
            is_occupied: false,
            buffers: Buffers {
                value: Vec::new(),
                result: vec![0; slot_bytes + 1].into(),
                wcs: vec![Wc::default(); BATCH].into(),
            },
            leaving: Vec::new(),
            ctx: ctx.clone(),
            map: PartitionMap::even(owner_count::<V>(&options)),
            options,
            hasher,
            clock,
        })
    }

    /// Which shard owns a key.
    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// Requests for keys of partitions that the shard does not own by `map` are sent elsewhere from now on. Call it by
    /// [`Server::change`](drover_one_sided::Server::change), so that clients get the map. Items stay where they are: a shard that
    /// gives a partition away hands its items over first, and answers nothing about them meanwhile.
    ///
    /// # Errors
    /// [`BadMap`]: the map is not newer, or has owners that the service does not have. Nothing has changed.
    pub fn set_map(&mut self, map: PartitionMap) -> Result<(), BadMap> {
        map.check(owner_count::<V>(&self.options), Some(&self.map))?;
        self.map = map;
        Ok(())
    }

    /// Whether the shard owns the key with this hash.
    #[inline]
    pub(super) fn owns(&self, hash: KeyHash) -> bool {
        V::Store::IS_SHARED || self.map.owner(hash) == usize::from(self.options.membership.shard)
    }

    /// Closes a connection, or keeps it until that is possible.
    pub(super) fn close_connection(&mut self, conn: Connection<P, V>) {
        let ctx = self.ctx.clone();
        let leaving = conn.close(&ctx, self);
        self.leaving.extend(leaving);
    }

    /// Closes the connections for which that is possible now.
    pub(super) fn close_leaving(&mut self) {
        for conn in std::mem::take(&mut self.leaving) {
            self.close_connection(conn);
        }
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
        let now_s = self.now_s(now);
        let expire_s = match request.ttl_s {
            0 => 0,
            ttl_s => now_s.saturating_add(ttl_s),
        };
        let outcome = match request.extension {
            None => self.partition.put(cpu, key, value, expire_s, now_s),
            Some(extension) => self
                .partition
                .put_extended(cpu, key, value, expire_s, now_s, extension),
        };
        match outcome {
            PutOutcome::Stored { .. } => Status::Stored,
            PutOutcome::TooLarge => Status::TooLarge,
            PutOutcome::Present { .. } => Status::Exists,
            PutOutcome::Absent => Status::NotFound,
            PutOutcome::Full => self.refuse(),
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
        let mut value = std::mem::take(&mut self.buffers.value);
        value.resize(request.value_bytes, 0);
        self.staging.copy_out(stage, &mut value);
        let status = self.put(cpu, request, self.key(key), &value, now);
        self.buffers.value = value;
        status
    }

    pub(super) fn touch(&mut self, cpu: &P::Cpu, request: &Request, key: Key<'_>, now: Ns) -> Status {
        let now_s = self.now_s(now);
        let expire_s = match request.ttl_s {
            0 => 0,
            ttl_s => now_s.saturating_add(ttl_s),
        };
        match self.partition.touch(cpu, key, expire_s, now_s) {
            true => Status::Touched,
            false => Status::NotFound,
        }
    }

    pub(super) fn delete(&mut self, cpu: &P::Cpu, request: &Request, key: Key<'_>, now: Ns) -> Status {
        let now_s = self.now_s(now);
        if let Some(Extension { condition, .. }) = request.extension {
            return match self.partition.delete_if(cpu, key, now_s, condition) {
                DeleteOutcome::Deleted => Status::Deleted,
                DeleteOutcome::Present { .. } => Status::Exists,
                DeleteOutcome::Absent => Status::NotFound,
            };
        }
        match self.partition.delete(cpu, key, now_s) {
            true => Status::Deleted,
            false => Status::NotFound,
        }
    }

    /// Calls `read` with the item of `key`, if there is one.
    #[inline]
    pub(super) fn get<R>(
        &mut self,
        cpu: &P::Cpu,
        key: Key<'_>,
        now: Ns,
        read: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        let now_s = self.now_s(now);
        self.partition.get(cpu, key, now_s, read)
    }

    #[inline]
    pub(super) fn now_s(&self, now: Ns) -> u32 {
        let now_s = self.clock.now_s(now);
        match self.partition.shared() {
            Some(store) => store.latest_s(now_s),
            None => now_s,
        }
    }

    /// A key with its hash.
    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = self.hasher.hash(bytes);
        Key { hash, bytes }
    }
}
