//! What each thread does in the background: it takes notice of flushes, and searches tables for expired items when it is
//! time for that and nobody else does.

use super::recovery::{READ_BYTES, Walk};
use super::{Race, Shard};
use crate::error::RaceError;
use crate::layout::{FLUSHES_AT, Flushes, SWEPT_AT, TAIL_USED_BYTES};
use drover_index::race::{BUCKET_BYTES, BlockRef, Bucket, Slot, SlotKind};
use drover_memnode::block::{BLOCK_HEADER_BYTES, BlockMeta, decode_block, meta_of};
use drover_memnode::locks::Lock;
use drover_memnode::{Addr, ClientId, EpochPin};
use drover_rt::TaskCx;
use drover_verbs::Provider;

/// Headers of blocks that are READ in one list.
const HEADERS: usize = 16;

/// An entry that may be removed: where its slot is, and the word.
pub(super) type Entry = (u64, Slot, BlockRef);

impl<P: Provider> Race<P> {
    /// What each thread of a process should do in the background, as a task that never ends: takes notice of
    /// [flushes](Race::flush) by other clients, and removes expired items, of each table one client at a time.
    pub async fn attend(&self, cx: &TaskCx<P>) {
        loop {
            for shard in &self.0.shards {
                if self.nodes().node(shard.node).is_lost() {
                    continue;
                }
                if let Err(error) = self.attend_shard(cx, shard).await {
                    tracing::debug!(%error, node = shard.node, "looking after a table");
                }
            }
            cx.sleep(self.0.options.look_every).await;
        }
    }

    async fn attend_shard(&self, cx: &TaskCx<P>, shard: &Shard) -> Result<(), RaceError> {
        let (lock, swept_s, flushes) = self.read_tail(cx, shard).await?;
        shard.flushes.set(flushes);
        let now_s = self.nodes().node(shard.node).clock_s(cx.now());
        let is_due = u64::from(now_s) >= swept_s + u64::from(self.0.options.sweep_every_s)
            || u64::from(flushes.come(now_s)) > swept_s;
        if !is_due {
            return Ok(());
        }
        // One of before may still be there, if a connection has failed.
        let own = match shard.search_lock.get() {
            Lock::FREE => self.nodes().pool().new_lock(),
            left => left,
        };
        // Taken from nobody who may be alive.
        let is_held = lock != own && !lock.is_free();
        if is_held && !self.nodes().owner_is_dead(cx, shard.node, lock).await? {
            return Ok(());
        }
        shard.search_lock.set(own);
        if lock != own && !self.change_lock(cx, shard, lock, own).await? {
            shard.search_lock.set(Lock::FREE);
            return Ok(());
        }
        let swept = self.search(cx, shard, u64::from(now_s)).await;
        self.change_lock(cx, shard, own, Lock::FREE).await?;
        shard.search_lock.set(Lock::FREE);
        swept
    }

    fn tail(shard: &Shard, at: u64) -> Addr {
        Addr::new(shard.node, shard.table + shard.header.tail() + at)
    }

    async fn read_tail(&self, cx: &TaskCx<P>, shard: &Shard) -> Result<(Lock, u64, Flushes), RaceError> {
        let at = self.nodes().locate(Self::tail(shard, 0), TAIL_USED_BYTES)?;
        let ticket = cx.read(at.peer, cx.buffer(TAIL_USED_BYTES)?, at.remote)?;
        let bytes = cx.sync().await?.take(ticket);
        let words = bytes.as_chunks::<8>().0;
        let word = |at: u64| u64::from_le_bytes(words[at as usize / 8]);
        Ok((
            Lock::from_bits(word(0)),
            word(SWEPT_AT),
            Flushes::from_word(word(FLUSHES_AT)),
        ))
    }

    async fn change_lock(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        from: Lock,
        to: Lock,
    ) -> Result<bool, RaceError> {
        let at = self.nodes().locate_to_write(cx, Self::tail(shard, 0), 8)?;
        let ticket = cx.cas(at.peer, at.remote, from.bits(), to.bits())?;
        Ok(cx.sync().await?.value(ticket) == from.bits())
    }

    /// Releases the lock of a search by one of `dead`, which left nothing half done.
    pub(super) async fn end_search(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        dead: &[ClientId],
    ) -> Result<(), RaceError> {
        let (lock, ..) = self.read_tail(cx, shard).await?;
        if dead.contains(&lock.owner()) {
            self.change_lock(cx, shard, lock, Lock::FREE).await?;
        }
        Ok(())
    }

    /// Removes the items of a table that do not count any more.
    async fn search(&self, cx: &TaskCx<P>, shard: &Shard, began_s: u64) -> Result<(), RaceError> {
        let at = self.nodes().locate_to_write(cx, Self::tail(shard, SWEPT_AT), 8)?;
        cx.write_inline(at.peer, &began_s.to_le_bytes(), at.remote)?;
        let mut walk = Walk::default();
        let bytes = shard.header.shape.bytes() as usize;
        while let Some(subtable) = self.next_subtable(cx, shard, &mut walk).await? {
            for from in (0..bytes).step_by(READ_BYTES) {
                // Epochs go on between two READs.
                let pin = self.nodes().pin(shard.node);
                let first = subtable + from as u64;
                let entries = self
                    .entries(cx, shard, first, READ_BYTES.min(bytes - from))
                    .await?;
                for entries in entries.chunks(HEADERS) {
                    let metas = self.read_metas(cx, shard, entries).await?;
                    for (entry, meta) in entries.iter().zip(metas) {
                        if !self.is_live(cx, shard, &meta)
                            && self.remove(cx, shard, &pin, *entry, false).await?
                        {
                            self.0.count(|stats| stats.expired += 1);
                        }
                    }
                }
                drop(pin);
                cx.yield_now().await;
            }
        }
        Ok(())
    }

    /// The entries of some buckets that may be removed: confirmed ones that are not being moved.
    pub(super) async fn entries(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        first: u64,
        bytes: usize,
    ) -> Result<Vec<Entry>, RaceError> {
        let read = self.read_buckets(cx, shard, first, bytes).await?;
        let mut entries = Vec::new();
        for (at, bytes) in (0u64..).zip(read.as_chunks::<BUCKET_BYTES>().0) {
            // Nobody but a split changes pending ones.
            let Some(bucket) = Bucket::from_bytes(bytes)
                .ok()
                .filter(|bucket| !bucket.header.pending)
            else {
                continue;
            };
            for (index, slot) in bucket.slots.into_iter().enumerate() {
                let offset = first + at * BUCKET_BYTES as u64 + Bucket::slot_offset(index) as u64;
                let block = slot.block().filter(|_| slot.kind() == SlotKind::Live);
                if let Some(block) = block.filter(|_| !slot.is_frozen()) {
                    entries.push((offset, slot, block));
                }
            }
        }
        Ok(entries)
    }

    /// READs what belongs to the items of these entries.
    pub(super) async fn read_metas(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        entries: &[Entry],
    ) -> Result<Vec<BlockMeta>, RaceError> {
        let mut tickets = Vec::with_capacity(entries.len());
        for (_, _, block) in entries {
            let addr = Addr::new(shard.node, block.addr);
            let at = self.nodes().locate(addr, BLOCK_HEADER_BYTES)?;
            tickets.push(cx.read(at.peer, cx.buffer(BLOCK_HEADER_BYTES)?, at.remote)?);
        }
        let mut completed = cx.sync().await?;
        let metas = tickets.into_iter().map(|ticket| {
            let bytes = completed.take(ticket);
            meta_of(&bytes).expect("as many bytes as it takes")
        });
        Ok(metas.collect())
    }

    /// Removes an entry, unless its item counts (then only if `always`) or the slot has changed. Returns whether it was removed.
    pub(super) async fn remove(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        pin: &EpochPin<P>,
        (offset, slot, block): Entry,
        always: bool,
    ) -> Result<bool, RaceError> {
        let at = self
            .nodes()
            .locate(Addr::new(shard.node, block.addr), block.bytes())?;
        let ticket = cx.read(at.peer, cx.buffer(block.bytes())?, at.remote)?;
        let bytes = cx.sync().await?.take(ticket);
        let Ok(item) = decode_block(&bytes) else {
            return Ok(false);
        };
        if !always && self.is_live(cx, shard, &item.meta) {
            return Ok(false);
        }
        let chain = item.chain();
        let at = self
            .nodes()
            .locate_to_write(cx, Addr::new(shard.node, offset), 8)?;
        let ticket = cx.cas(at.peer, at.remote, slot.word(), Slot::EMPTY.word())?;
        if cx.sync().await?.value(ticket) != slot.word() {
            return Ok(false);
        }
        self.free(cx, shard, pin, block, chain).await;
        Ok(true)
    }
}
