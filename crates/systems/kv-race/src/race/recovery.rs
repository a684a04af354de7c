//! [`Repair`]: what dead clients leave in tables: splits that they have begun, entries that they have not confirmed, and
//! blocks that no slot leads to.

use super::directory::read_directory;
use super::{Race, Shard};
use crate::error::RaceError;
use drover_index::race::{BUCKET_BYTES, Slot, SlotKind, UNITS_MAX};
use drover_mem::Buffer;
use drover_memnode::block::decode_block;
use drover_memnode::recovery::Repair;
use drover_memnode::{Addr, ClientId, MemoryError, Nodes};
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::collections::{BTreeSet, VecDeque};

/// Bytes of a subtable that are READ at a time.
pub(super) const READ_BYTES: usize = 16 * BUCKET_BYTES;

/// A walk over all subtables.
#[derive(Debug, Default)]
pub(super) struct Walk {
    seen: BTreeSet<u64>,
    waiting: VecDeque<u64>,
}

impl<P: Provider> Repair<P> for Race<P> {
    async fn repair(
        &self,
        cx: &TaskCx<P>,
        _: &Nodes<P>,
        node: usize,
        dead: &[ClientId],
    ) -> Result<(), MemoryError> {
        let repaired = async {
            for shard in self.shards_of(node) {
                self.resume(cx, shard, dead).await?;
                self.end_search(cx, shard, dead).await?;
                self.clear_unconfirmed(cx, shard, dead).await?;
            }
            Ok(())
        };
        repaired.await.map_err(|error| memory_error(node, error))
    }

    async fn visit(
        &self,
        cx: &TaskCx<P>,
        _: &Nodes<P>,
        node: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        for shard in self.shards_of(node) {
            let visited = self.visit_shard(cx, shard, mark).await;
            visited.map_err(|error| memory_error(node, error))?;
        }
        Ok(())
    }
}

fn memory_error(node: usize, error: RaceError) -> MemoryError {
    match error {
        RaceError::Memory(error) => error,
        // A repair has no deadline and inserts no key: only a request's failure is left.
        _ => MemoryError::Tables {
            node,
            what: "a table cannot be repaired",
        },
    }
}

impl<P: Provider> Race<P> {
    /// Removes the tentative entries of the clients `dead`. Readers ignore them, and an insert of the same key would remove them; but
    /// until one comes they keep a slot and a block.
    async fn clear_unconfirmed(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        dead: &[ClientId],
    ) -> Result<(), RaceError> {
        let _pin = self.nodes().pin(shard.node);
        let mut walk = Walk::default();
        let mut tentative = Vec::new();
        while let Some(subtable) = self.next_subtable(cx, shard, &mut walk).await? {
            let mut note = |offset, slot: Slot| {
                if slot.kind() == SlotKind::Tentative {
                    tentative.push((offset, slot));
                }
            };
            self.read_slots(cx, shard, subtable, &mut note).await?;
        }
        for (offset, slot) in tentative {
            let Some(block) = slot.block() else { continue };
            let at = self
                .nodes()
                .locate(Addr::new(shard.node, block.addr), block.bytes())?;
            let ticket = cx.read(at.peer, cx.buffer(block.bytes())?, at.remote)?;
            let bytes = cx.sync().await?.take(ticket);
            if decode_block(&bytes).is_ok_and(|block| dead.contains(&block.meta.owner)) {
                let slot_at = Addr::new(shard.node, offset);
                let at = self.nodes().locate_to_write(cx, slot_at, 8)?;
                cx.cas(at.peer, at.remote, slot.word(), Slot::EMPTY.word())?;
                cx.sync().await?;
            }
        }
        Ok(())
    }

    /// Names the table, its subtables, and the blocks of all their entries.
    async fn visit_shard(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), RaceError> {
        let node = shard.node;
        mark(Addr::new(node, shard.table), shard.header.table_bytes());
        let mut walk = Walk::default();
        while let Some(subtable) = self.next_subtable(cx, shard, &mut walk).await? {
            mark(Addr::new(node, subtable), shard.header.shape.bytes() as usize);
            // What slots lead to is not used again meanwhile.
            let _pin = self.nodes().pin(node);
            let mut long = Vec::new();
            let mut mark_block = |_, slot: Slot| {
                if let (SlotKind::Live | SlotKind::Tentative, Some(block)) = (slot.kind(), slot.block()) {
                    mark(Addr::new(node, block.addr), block.bytes());
                    if usize::from(block.units) == UNITS_MAX {
                        long.push(block);
                    }
                }
            };
            self.read_slots(cx, shard, subtable, &mut mark_block).await?;
            for block in long {
                let at = self.nodes().locate(Addr::new(node, block.addr), block.bytes())?;
                let ticket = cx.read(at.peer, cx.buffer(block.bytes())?, at.remote)?;
                let bytes = cx.sync().await?.take(ticket);
                let block = decode_block(&bytes).map_err(|_| MemoryError::Tables {
                    node,
                    what: "a block of the table is broken",
                })?;
                self.walk(cx, shard, block.chain(), mark).await?;
            }
        }
        Ok(())
    }

    /// The next subtable of a walk. Splits move entries to subtables with a higher number only, so in the order of numbers
    /// none is overlooked; subtables that are new by the end come, too.
    pub(super) async fn next_subtable(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        walk: &mut Walk,
    ) -> Result<Option<u64>, RaceError> {
        if walk.waiting.is_empty() {
            let depth = shard.directory.borrow().global().depth;
            let read = read_directory(cx, self.nodes(), shard.node, shard.table, depth, &self.0.options);
            let directory = read.await?;
            let subtables = directory.entries().iter().map(|entry| entry.subtable);
            walk.waiting
                .extend(subtables.filter(|subtable| walk.seen.insert(*subtable)));
        }
        Ok(walk.waiting.pop_front())
    }

    /// Calls `each` with offset and word of each slot of a subtable.
    async fn read_slots(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        subtable: u64,
        each: &mut dyn FnMut(u64, Slot),
    ) -> Result<(), RaceError> {
        let bytes = shard.header.shape.bytes() as usize;
        for from in (0..bytes).step_by(READ_BYTES) {
            let first = subtable + from as u64;
            let read = self
                .read_buckets(cx, shard, first, READ_BYTES.min(bytes - from))
                .await?;
            let words = (0..).zip(read.as_chunks::<8>().0);
            // Whatever a bucket's first word, its header, says: its slots may lead to blocks.
            let slots = words.filter(|(index, _)| index % (BUCKET_BYTES / 8) != 0);
            slots.for_each(|(index, word)| {
                each(
                    first + index as u64 * 8,
                    Slot::from_word(u64::from_le_bytes(*word)),
                );
            });
        }
        Ok(())
    }

    /// READs some buckets.
    pub(super) async fn read_buckets(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        first: u64,
        bytes: usize,
    ) -> Result<Buffer, RaceError> {
        let at = self.nodes().locate(Addr::new(shard.node, first), bytes)?;
        let ticket = cx.read(at.peer, cx.buffer(bytes)?, at.remote)?;
        Ok(cx.sync().await?.take(ticket))
    }
}
