//! [`ShardStore`]: what a server executes requests on: a partition that is its own, or a store that all shards of the
//! service share.

use super::ServerOptions;
use crate::costs;
use drover_base::{Cpu, KeyHash, KeyHasher, Work};
use drover_kv::{Condition, Extension, StartError};
use drover_mem::LINE_BYTES;
use drover_store::{
    DeleteOutcome, ExtraOutcome, ExtraPut, FullyGuarded, ItemRef, Key, Mode, Partition, PartitionOptions,
    PartitionStats, PutOutcome, StripedGuards, StripedStore,
};
use drover_verbs::{Context, Provider};
use std::sync::{Arc, Mutex, PoisonError};

/// The items of a shard.
pub trait ShardStore: Sized + 'static {
    /// What the shards of a service have in common.
    type Common: Clone + Default + Send + Sync + 'static;
    /// What protects a store that all shards share.
    type Guards: StripedGuards;
    /// Whether all shards of a service have the same items.
    const IS_SHARED: bool;
    /// What a request costs, besides memory accesses and what the store charges itself: a GET, and any other one.
    const WORK: (Work, Work) = (costs::GET, costs::PUT);

    /// Opens an empty store, or that which another shard has opened.
    ///
    /// # Errors
    /// [`StartError`] if there is no memory.
    fn open<P: Provider>(
        ctx: &P::Context,
        options: &ServerOptions,
        hasher: &KeyHasher,
        common: &Self::Common,
    ) -> Result<Self, StartError>;

    /// Prefetches the bucket of `hash`.
    fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash);

    /// Prefetches the items that may be that of the key with `hash`.
    fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash);

    /// Calls `read` with the key's item, if there is one.
    fn get<C: Cpu, R>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        read: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R>;

    /// Stores an item that expires at `expire_s`, 0 = never.
    fn put<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, value: &[u8], expire_s: u32, now_s: u32) -> PutOutcome;

    /// Stores an item with the client's flags, if the condition of `extension` holds.
    fn put_extended<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        extension: Extension,
    ) -> PutOutcome;

    /// Removes the key's item, if `condition` holds.
    fn delete_if<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32, condition: Condition)
    -> DeleteOutcome;

    /// Sets the expiry of the key's item; whether there was one.
    fn touch<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool;

    /// Removes the key's item; whether there was one.
    fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool;

    /// Counters and sizes.
    fn stats(&self) -> PartitionStats;

    /// The store that all shards of the service share, if they do: it has locks, and clients READ long items in its memory.
    #[inline(always)]
    fn shared(&self) -> Option<&StripedStore<Self::Guards>> {
        None
    }
}

fn partition_options(options: &ServerOptions) -> PartitionOptions {
    PartitionOptions {
        mode: options.mode,
        log_bytes: (options.memory_bytes & !(LINE_BYTES - 1)).max(LINE_BYTES),
        bucket_count: options.bucket_count,
        elastic: options.mode == Mode::Store,
        hash_seed: None,
        value_bytes_max: options.item_bytes_max,
        pages: options.pages,
    }
}

impl ShardStore for Partition {
    type Common = ();
    type Guards = FullyGuarded;
    const IS_SHARED: bool = false;

    fn open<P: Provider>(
        _: &P::Context,
        options: &ServerOptions,
        _: &KeyHasher,
        (): &(),
    ) -> Result<Partition, StartError> {
        Ok(Partition::new(&partition_options(options))?)
    }

    #[inline]
    fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        Partition::prefetch_bucket(self, cpu, hash, false);
    }

    #[inline]
    fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        Partition::prefetch_item(self, cpu, hash);
    }

    #[inline]
    fn get<C: Cpu, R>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        read: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        Partition::get(self, cpu, key, now_s).map(read)
    }

    #[inline]
    fn put<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, value: &[u8], expire_s: u32, now_s: u32) -> PutOutcome {
        Partition::put(self, cpu, key, value, expire_s, now_s)
    }

    fn put_extended<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        extension: Extension,
    ) -> PutOutcome {
        let put = ExtraPut {
            value: &[value],
            expire_s,
            flags: extension.flags,
            condition: extension.condition,
            keep: extension.keep,
            ..ExtraPut::default()
        };
        match self.put_extra(cpu, key, &put, now_s) {
            // Versions of items without a CAS number of their own have 31 bits.
            ExtraOutcome::Stored { cas } => PutOutcome::Stored { version: cas as u32 },
            ExtraOutcome::Present { cas } => PutOutcome::Present { version: cas as u32 },
            ExtraOutcome::Absent => PutOutcome::Absent,
            ExtraOutcome::Full => PutOutcome::Full,
            ExtraOutcome::TooLarge => PutOutcome::TooLarge,
        }
    }

    fn delete_if<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        condition: Condition,
    ) -> DeleteOutcome {
        Partition::delete_if(self, cpu, key, now_s, condition)
    }

    fn touch<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        Partition::set_expiry(self, cpu, key, expire_s, now_s)
    }

    #[inline]
    fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        Partition::delete(self, cpu, key, now_s)
    }

    fn stats(&self) -> PartitionStats {
        Partition::stats(self)
    }
}

/// The store of a service, once its first shard has opened it.
#[derive(Debug)]
pub struct OpenedOnce<G>(Arc<Mutex<Option<Arc<StripedStore<G>>>>>);

impl<G> Default for OpenedOnce<G> {
    fn default() -> OpenedOnce<G> {
        OpenedOnce(Arc::default())
    }
}

impl<G> Clone for OpenedOnce<G> {
    fn clone(&self) -> OpenedOnce<G> {
        OpenedOnce(self.0.clone())
    }
}

impl<G: StripedGuards> ShardStore for Arc<StripedStore<G>> {
    type Common = OpenedOnce<G>;
    type Guards = G;
    const IS_SHARED: bool = true;
    const WORK: (Work, Work) = (costs::SHARED_GET, costs::SHARED_PUT);

    fn open<P: Provider>(
        ctx: &P::Context,
        options: &ServerOptions,
        hasher: &KeyHasher,
        common: &OpenedOnce<G>,
    ) -> Result<Self, StartError> {
        // A shard that panicked here has opened nothing.
        let mut opened = common.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let options = partition_options(options);
        let region = ctx.alloc(StripedStore::<G>::memory_bytes(&options), options.pages)?;
        let store = Arc::new(StripedStore::in_region(&options, hasher.clone(), region));
        *opened = Some(store.clone());
        Ok(store)
    }

    #[inline]
    fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        StripedStore::prefetch_bucket(self, cpu, hash);
    }

    #[inline]
    fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        StripedStore::prefetch_item(self, cpu, hash);
    }

    #[inline]
    fn get<C: Cpu, R>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        read: impl FnOnce(ItemRef<'_>) -> R,
    ) -> Option<R> {
        StripedStore::get(self, cpu, key, now_s, read)
    }

    #[inline]
    fn put<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, value: &[u8], expire_s: u32, now_s: u32) -> PutOutcome {
        StripedStore::put(self, cpu, key, value, expire_s, now_s)
    }

    fn put_extended<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        extension: Extension,
    ) -> PutOutcome {
        let Extension {
            flags,
            condition,
            keep,
        } = extension;
        self.put_if(cpu, key, value, (expire_s, flags, keep), now_s, condition)
    }

    fn delete_if<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
        condition: Condition,
    ) -> DeleteOutcome {
        StripedStore::delete_if(self, cpu, key, now_s, condition)
    }

    fn touch<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, expire_s: u32, now_s: u32) -> bool {
        self.set_expiry(cpu, key, expire_s, now_s)
    }

    #[inline]
    fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        StripedStore::delete(self, cpu, key, now_s)
    }

    fn stats(&self) -> PartitionStats {
        StripedStore::stats(self)
    }

    #[inline(always)]
    fn shared(&self) -> Option<&StripedStore<G>> {
        Some(self)
    }
}
