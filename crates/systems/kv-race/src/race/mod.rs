//! [`Race`]: a thread's handle to the tables of a pool.

mod attend;
mod directory;
mod evict;
mod flush;
mod open;
mod operation;
mod pieces;
mod read;
mod recovery;
mod split;
mod write;

pub use read::Found;
use write::Successor;
pub use write::{ItemMeta, Updated};

use crate::error::RaceError;
use crate::layout::{Flushes, TableHeader};
use crate::mistake::Mistake;
use crate::options::RaceOptions;
use drover_base::{Condition, Cpu, KeyHasher, Work};
use drover_index::race::Directory;
use drover_kv::{KEY_BYTES_MAX, SizeLimits};
use drover_memnode::block::VALUE_BYTES_MAX;
use drover_memnode::locks::Lock;
use drover_memnode::{Arena, Nodes};
use drover_rt::{SingleFlight, TaskCx};
use drover_verbs::{Context, Provider};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// A thread's handle to the tables of a pool, of each node one or several, each with the keys of its share of the hash
/// values. Clones are handles of the same, for the tasks of the thread.
pub struct Race<P: Provider>(Rc<Inner<P>>);

impl<P: Provider> Clone for Race<P> {
    fn clone(&self) -> Race<P> {
        Race(self.0.clone())
    }
}

struct Inner<P: Provider> {
    arena: Arena<P>,
    options: RaceOptions,
    hasher: KeyHasher,
    /// The first table of each node, then the second ones, and so on.
    shards: Box<[Shard]>,
    /// READs of directories, by shard.
    refreshing: SingleFlight<P, usize, ()>,
    reads: ReadOrder,
    /// Whose core is charged; none where nothing has a price.
    core: OnceCell<Rc<P::Context>>,
    /// State of the draws of items to evict.
    draws: Cell<u64>,
    stats: Cell<RaceStats>,
    /// Whether a split has failed: its locks are held still, and nobody takes them from a client that lives.
    has_left_locks: Cell<bool>,
    /// Lock that was found held last, and how often in a row.
    met: Cell<(u64, u32)>,
}

/// Counters of a thread's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RaceStats {
    /// Subtables that were split, by this thread.
    pub splits: u64,
    /// READs of a directory.
    pub refreshes: u64,
    /// Waits for a split: for a frozen slot, a pending bucket, a lock.
    pub waits: u64,
    /// Blocks that were READ for another key with the same fingerprint.
    pub collisions: u64,
    /// Inserts that gave way to another client's.
    pub gave_way: u64,
    /// Locks of dead clients whose splits this thread finished.
    pub resumed: u64,
    /// Expired and flushed items that a search has removed.
    pub expired: u64,
    /// Items that were removed to make room.
    pub evicted: u64,
    /// Looks that began anew, since what was READ was torn or has changed.
    pub rereads: u64,
}

impl<P: Provider> Inner<P> {
    fn count(&self, count: impl FnOnce(&mut RaceStats)) {
        let mut stats = self.stats.get();
        count(&mut stats);
        self.stats.set(stats);
    }
}

/// What the fabric says about READs.
#[derive(Clone, Copy, Debug)]
struct ReadOrder {
    /// Whether a READ may see words of a bucket from different times.
    is_torn: bool,
    /// Whether a READ sees a CAS that was posted before it.
    sees_earlier: bool,
}

/// The table of a node.
struct Shard {
    index: usize,
    node: usize,
    /// Offset of the table in the node's memory.
    table: u64,
    header: TableHeader,
    directory: RefCell<Directory>,
    /// As last READ.
    flushes: Cell<Flushes>,
    /// The lock of searches, if this thread may hold it.
    search_lock: Cell<Lock>,
}

impl<P: Provider> Race<P> {
    /// Charges what this thread's operations do besides their requests to the core of `ctx`, the thread's context. On
    /// hardware that changes nothing; in a simulation without it, only requests take time.
    pub fn charge_to(&self, ctx: &Rc<P::Context>) {
        // The first one stays.
        let _ = self.0.core.set(ctx.clone());
    }

    #[inline(always)]
    fn charge(&self, work: Work) {
        if let Some(ctx) = self.0.core.get() {
            ctx.cpu().charge(work.cost, 1);
        }
    }

    fn nodes(&self) -> &Nodes<P> {
        self.0.arena.nodes()
    }

    fn shards_of(&self, node: usize) -> impl Iterator<Item = &Shard> {
        self.0.shards.iter().filter(move |shard| shard.node == node)
    }

    /// The value of `key`, unless it has none or has expired.
    ///
    /// # Errors
    /// [`RaceError`]; never [`Indeterminate`](RaceError::Indeterminate). Expired items are known by the clock of their node, which is
    /// read with every renewal of the lease: without a lease, [`MemoryError::LeaseOver`](drover_memnode::MemoryError::LeaseOver), or
    /// [`MemoryError::NodeLost`](drover_memnode::MemoryError::NodeLost).
    pub async fn get(&self, cx: &TaskCx<P>, key: &[u8]) -> Result<Option<Found>, RaceError> {
        let mut operation = self.begin(cx, key)?;
        self.nodes().check_lease(cx, operation.shard.node)?;
        operation.get().await
    }

    /// Writes the value of `key`, whether or not it has one.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn put(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
    ) -> Result<(), RaceError> {
        let written = self.store(cx, key, value, meta, Condition::Always).await?;
        debug_assert!(written.is_done());
        Ok(())
    }

    /// Writes the value of `key` if `condition` holds.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn put_if(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        condition: Condition,
    ) -> Result<Updated, RaceError> {
        self.store(cx, key, value, meta, condition).await
    }

    /// Writes the value of `key` if it has none. Returns whether it was written.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn add(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
    ) -> Result<bool, RaceError> {
        let written = self.store(cx, key, value, meta, Condition::IfAbsent).await?;
        Ok(written.is_done())
    }

    /// Writes the value of `key` if it has one. Returns whether it was written.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn update(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
    ) -> Result<bool, RaceError> {
        let written = self.store(cx, key, value, meta, Condition::IfPresent).await?;
        Ok(written.is_done())
    }

    /// Replaces the value of `key`, if it has one, by what `change` appends to the empty vector that it gets; the old value is its
    /// first argument. It may be called several times. Returns whether there was a value.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn modify(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        meta: ItemMeta,
        mut change: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<bool, RaceError> {
        let mut change = |found: &Found, value: &mut Vec<u8>| {
            change(found.value(), value);
            Successor::changed(meta)
        };
        let changed = self
            .change(cx, key, Condition::Always, &mut Vec::new(), &mut change)
            .await?;
        Ok(changed.is_done())
    }

    async fn change(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        condition: Condition,
        scratch: &mut Vec<u8>,
        change: &mut impl FnMut(&Found, &mut Vec<u8>) -> Successor,
    ) -> Result<Updated, RaceError> {
        let mut guard = cx.conflict_guard().await;
        let mut operation = self.begin(cx, key)?;
        loop {
            match operation.modify(condition, scratch, change, &mut guard).await {
                Err(error) if self.can_evict(&error) => operation = operation.make_room(error).await?,
                changed => return changed,
            }
        }
    }

    /// As [`put_if`](Race::put_if), but a key that has a value keeps its expiry and flags, which are READ first. `scratch` is
    /// memory for the value.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn put_keeping(
        &self,
        cx: &TaskCx<P>,
        (key, value): (&[u8], &[u8]),
        meta: ItemMeta,
        condition: Condition,
        scratch: &mut Vec<u8>,
    ) -> Result<Updated, RaceError> {
        let mut keep = |found: &Found, space: &mut Vec<u8>| {
            space.extend_from_slice(value);
            Successor::changed(ItemMeta {
                flags: found.flags,
                expire_s: found.expire_s,
            })
        };
        loop {
            if condition != Condition::IfAbsent {
                let changed = self.change(cx, key, condition, scratch, &mut keep).await?;
                if changed != Updated::Missing || condition != Condition::Always {
                    return Ok(changed);
                }
            }
            let added = self.store(cx, key, value, meta, Condition::IfAbsent).await?;
            if added.is_done() || condition == Condition::IfAbsent {
                return Ok(added);
            }
        }
    }

    /// Sets the time at which the value of `key` expires, if it has one; it keeps its version. `scratch` is memory for the
    /// value. Returns whether there was a value.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn touch(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        expire_s: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, RaceError> {
        let mut change = |found: &Found, value: &mut Vec<u8>| {
            value.extend_from_slice(found.value());
            let flags = found.flags;
            Successor {
                meta: ItemMeta { flags, expire_s },
                // Who has the value still has it: a touch does not make `cas` lose.
                version: Some(found.version),
            }
        };
        let changed = self
            .change(cx, key, Condition::Always, scratch, &mut change)
            .await?;
        Ok(changed.is_done())
    }

    /// When an item of `key` expires that is written now and lives for `ttl_s` seconds, in [`ItemMeta`]'s terms; 0: never.
    pub fn expire_s(&self, cx: &TaskCx<P>, key: &[u8], ttl_s: u32) -> u32 {
        if ttl_s == 0 {
            return 0;
        }
        let shard = self.0.hasher.hash(key).partition_index(self.0.shards.len());
        let now_s = self.nodes().node(self.0.shards[shard].node).clock_s(cx.now());
        now_s.saturating_add(ttl_s)
    }

    /// What this thread's operations have met.
    pub fn stats(&self) -> RaceStats {
        self.0.stats.get()
    }

    /// Removes `key`. Returns whether it had a value, not expired.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn delete(&self, cx: &TaskCx<P>, key: &[u8]) -> Result<bool, RaceError> {
        Ok(self.delete_if(cx, key, Condition::Always).await?.is_done())
    }

    /// Removes `key` if `condition` holds and it has a value.
    ///
    /// # Errors
    /// [`RaceError`].
    pub async fn delete_if(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        condition: Condition,
    ) -> Result<Updated, RaceError> {
        let mut guard = cx.conflict_guard().await;
        self.begin(cx, key)?.delete(condition, &mut guard).await
    }

    /// Longest item that the tables accept: key and value, bytes.
    pub fn item_bytes_max(&self) -> usize {
        let limits = self.0.shards.iter().map(|shard| shard.header.item_bytes_max);
        limits.min().unwrap_or(u32::MAX) as usize
    }

    /// What the tables accept under a key of `key_bytes`.
    pub fn size_limits(&self, key_bytes: usize) -> SizeLimits {
        let space = self.item_bytes_max().saturating_sub(key_bytes);
        SizeLimits {
            key_bytes: KEY_BYTES_MAX,
            value_bytes: space.min(VALUE_BYTES_MAX),
        }
    }

    /// Whether a split of this thread has failed for good, because a request or the lease did. Its locks are released when
    /// this process has been shut out of the pool, which it should ask for: it enters the pool again.
    pub fn has_left_locks(&self) -> bool {
        self.0.has_left_locks.get()
    }

    /// The thread's memory in the pool.
    pub fn arena(&self) -> &Arena<P> {
        &self.0.arena
    }

    /// Whether this client makes a deliberate mistake, as campaigns of simulations ask for.
    #[inline]
    fn makes(&self, mistake: Mistake) -> bool {
        self.0.options.mistake == Some(mistake)
    }
}

impl<P: Provider> std::fmt::Debug for Race<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Race({} tables on {})", self.0.shards.len(), P::NAME)
    }
}
