//! [`Repair`]: what a dead client leaves in tables: splits that it has begun, and blocks that no slot leads to.
//!
//! Its tentative entries need no repair: readers ignore them, and other clients' inserts remove them.

use super::directory::read_directory;
use super::{Race, Shard};
use crate::error::RaceError;
use drover_index::race::{BUCKET_BYTES, SLOTS, Slot, SlotKind};
use drover_memnode::recovery::Repair;
use drover_memnode::{Addr, ClientId, MemoryError, Nodes};
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::collections::BTreeSet;

/// Bytes of a subtable that are READ at a time.
const READ_BYTES: usize = 16 * BUCKET_BYTES;

impl<P: Provider> Repair<P> for Race<P> {
    async fn repair(
        &self,
        cx: &TaskCx<P>,
        _: &Nodes<P>,
        node: usize,
        dead: ClientId,
    ) -> Result<(), MemoryError> {
        self.resume(cx, node, dead).await.map_err(memory_error)
    }

    async fn visit(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        node: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        let shard = &self.0.shards[node];
        let visited = self.visit_shard(cx, nodes, shard, mark).await;
        visited.map_err(memory_error)
    }
}

fn memory_error(error: RaceError) -> MemoryError {
    match error {
        RaceError::Memory(error) => error,
        // A repair has no deadline and inserts no key: only a request's failure is left.
        _ => MemoryError::Tables {
            node: 0,
            what: "a table cannot be repaired",
        },
    }
}

impl<P: Provider> Race<P> {
    /// Names the table, its subtables, and the blocks of all their entries. Splits move entries to subtables with a
    /// higher number only, so in the order of numbers none is overlooked; new subtables are visited, too.
    async fn visit_shard(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        shard: &Shard,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), RaceError> {
        let node = shard.node;
        mark(Addr::new(node, shard.table), shard.header.table_bytes());
        let mut seen = BTreeSet::new();
        loop {
            let depth = shard.directory.borrow().global().depth;
            let directory = read_directory(cx, nodes, node, shard.table, depth, &self.0.options).await?;
            let before = seen.len();
            for entry in directory.entries() {
                if seen.insert(entry.subtable) {
                    mark(
                        Addr::new(node, entry.subtable),
                        shard.header.shape.bytes() as usize,
                    );
                    self.visit_subtable(cx, nodes, shard, entry.subtable, mark)
                        .await?;
                }
            }
            if seen.len() == before {
                return Ok(());
            }
        }
    }

    async fn visit_subtable(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        shard: &Shard,
        subtable: u64,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), RaceError> {
        let bytes = shard.header.shape.bytes() as usize;
        for from in (0..bytes).step_by(READ_BYTES) {
            let len = READ_BYTES.min(bytes - from);
            let at = nodes.locate(Addr::new(shard.node, subtable + from as u64), len)?;
            let ticket = cx.read(at.peer, cx.buffer(len)?, at.remote)?;
            let read = cx.sync().await?.take(ticket);
            for line in read.as_chunks::<BUCKET_BYTES>().0 {
                // Whatever the header says, its slots may lead to blocks.
                let slots = line.as_chunks::<8>().0[1..].iter();
                debug_assert_eq!(slots.len(), SLOTS);
                for word in slots {
                    let slot = Slot::from_word(u64::from_le_bytes(*word));
                    if let (SlotKind::Live | SlotKind::Tentative, Some(block)) = (slot.kind(), slot.block()) {
                        mark(Addr::new(shard.node, block.addr), block.bytes());
                    }
                }
            }
        }
        Ok(())
    }
}
