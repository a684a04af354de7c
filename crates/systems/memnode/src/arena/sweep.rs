//! What a thread does while somebody sweeps the chunks of dead clients: it forgets what it holds of them, and takes
//! nothing of them back.

use super::lists::Freed;
use super::{Arena, Part, Refill};
use crate::chunks::{CHUNK_BYTES, ChunkEntry, ChunkKind, ENTRY_BYTES};
use crate::locks::Lock;
use crate::pool::MemoryError;
use drover_base::Ns;
use drover_mem::Limbo;
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::collections::BTreeSet;

/// Bytes of the chunk table that one READ gets.
const READ_BYTES: usize = 1024;

/// What a thread knows of a sweep at one node.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Chunks that are swept.
    chunks: BTreeSet<u32>,
    /// What was freed while it was not known which chunks are swept.
    held: Vec<(u64, Freed)>,
    /// The sweep that has ended last.
    past: Option<Past>,
}

/// A sweep that has ended. Operations that began before that was noticed may have unlinked pieces before the mark pass came by:
/// what they free was found free by the client that swept.
#[derive(Debug)]
struct Past {
    /// Its chunks; `None`: this thread did not know them, so they may be any.
    chunks: Option<BTreeSet<u32>>,
    /// Epoch in which its end was noticed.
    epoch: u64,
}

impl Past {
    /// Whether the client that swept may have what an operation frees that began in `epoch`.
    fn took(&self, epoch: u64, freed: &Freed) -> bool {
        let chunk = chunk_of(freed.offset);
        epoch <= self.epoch && self.chunks.as_ref().is_none_or(|chunks| chunks.contains(&chunk))
    }
}

impl Part {
    /// Takes a freed piece while a sweep is under way, or has just ended; `was_linked`: others may have seen it.
    #[cold]
    pub(super) fn free_in_sweep(&self, epoch: u64, freed: Freed, was_linked: bool) {
        let mut swept = self.swept.borrow_mut();
        let past = swept.past.as_ref().filter(|_| was_linked);
        if past.is_some_and(|past| past.took(epoch, &freed)) {
            // Otherwise two clients would use it.
        } else if self.sweep.unknown().is_some() {
            swept.held.push((epoch, freed));
        } else if !swept.chunks.contains(&chunk_of(freed.offset)) {
            self.lists.borrow_mut().free(epoch, freed);
        }
    }

    /// Whether pieces that are freed need a closer look.
    #[inline]
    pub(super) fn is_in_sweep(&self) -> bool {
        self.sweep.unknown().is_some() || self.in_sweep.get()
    }
}

fn chunk_of(offset: u64) -> u32 {
    (offset / CHUNK_BYTES as u64) as u32
}

impl<P: Provider> Arena<P> {
    /// READs the chunk table of node `node`, and calls `take` with each entry that makes sense. The task must have no
    /// staged requests.
    pub(crate) async fn read_entries(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        mut take: impl FnMut(u32, ChunkEntry),
    ) -> Result<(), MemoryError> {
        let geometry = self.0.nodes.node(node).header().geometry;
        let (mut chunk, end) = (geometry.first_data_chunk(), geometry.chunk_count());
        while chunk < end {
            let count = ((end - chunk) as usize).min(READ_BYTES / ENTRY_BYTES);
            let at = self.0.nodes.table(node, geometry.chunk_entry(chunk));
            let ticket = cx.read(at.peer, cx.buffer(count * ENTRY_BYTES)?, at.remote)?;
            let bytes = cx.sync().await?.take(ticket);
            for (index, word) in bytes.as_chunks::<ENTRY_BYTES>().0.iter().enumerate() {
                if let Some(entry) = ChunkEntry::decode(u64::from_le_bytes(*word)) {
                    take(chunk + index as u32, entry);
                }
            }
            chunk += count as u32;
        }
        Ok(())
    }

    /// Takes notice of a sweep at node `node`, if there is one: forgets what the thread holds of the swept chunks. Cheap
    /// if there is none.
    ///
    /// # Errors
    /// [`MemoryError`] if a request failed.
    pub async fn keep_up(&self, cx: &TaskCx<P>, node: usize) -> Result<(), MemoryError> {
        let part = &self.0.parts[node];
        let Some(sweep) = part.sweep.unknown() else {
            self.forget_past(node);
            return Ok(());
        };
        let Some(_refill) = Refill::begin(&part.refilling) else {
            return Ok(());
        };
        let mut chunks = BTreeSet::new();
        let end = self.0.nodes.node(node).header().geometry.chunk_count();
        if sweep % 2 == 1 {
            self.read_entries(cx, node, |chunk, entry| match entry.kind {
                ChunkKind::SweptBlocks => {
                    chunks.insert(chunk);
                }
                // With its parts: the thread may be about to give them back one by one.
                ChunkKind::SweptRun => chunks.extend(chunk..chunk.saturating_add(entry.link.max(1)).min(end)),
                _ => {}
            })
            .await?;
        }
        self.forget(node, |chunk| chunks.contains(&chunk));
        let mut swept = part.swept.borrow_mut();
        let before = std::mem::replace(&mut swept.chunks, chunks);
        if sweep % 2 == 0 {
            let was_known = part.sweep.reached() == sweep.wrapping_sub(1);
            swept.past = Some(Past {
                chunks: was_known.then_some(before),
                epoch: self.0.nodes.pin(node).epoch(),
            });
        }
        for (epoch, freed) in std::mem::take(&mut swept.held) {
            let is_taken = swept.past.as_ref().is_some_and(|past| past.took(epoch, &freed));
            if !is_taken && !swept.chunks.contains(&chunk_of(freed.offset)) {
                part.lists.borrow_mut().free(epoch, freed);
            }
        }
        part.in_sweep
            .set(!swept.chunks.is_empty() || swept.past.is_some());
        part.sweep.reach(sweep);
        Ok(())
    }

    /// Forgets the last sweep once no operation is left that began before its end was noticed.
    fn forget_past(&self, node: usize) {
        let part = &self.0.parts[node];
        let mut swept = part.swept.borrow_mut();
        let reclaim = self.0.nodes.reclaim(node);
        if swept
            .past
            .as_ref()
            .is_some_and(|past| past.epoch + Limbo::<()>::LAG <= reclaim)
        {
            swept.past = None;
            part.in_sweep.set(!swept.chunks.is_empty());
        }
    }

    /// What each thread of a process should do in the background, as a task that never ends: takes notice of sweeps, and
    /// gives surplus chunks back, every `every`.
    pub async fn maintain(&self, cx: &TaskCx<P>, every: Ns) {
        loop {
            for node in 0..self.0.parts.len() {
                if let Err(error) = self.maintain_node(cx, node).await {
                    tracing::debug!(%error, node, "keeping memory of a node in order");
                }
            }
            cx.sleep(every).await;
        }
    }

    /// The word with which this thread takes the recovery lock of node `node`: the one of the last attempt as long as that may
    /// still be there.
    pub(crate) fn recovery_lock(&self, node: usize) -> Lock {
        let recovery = &self.0.parts[node].recovery;
        if recovery.get().is_free() {
            recovery.set(self.0.nodes.pool().new_lock());
        }
        recovery.get()
    }

    /// This thread certainly does not hold the recovery lock of node `node`.
    pub(crate) fn recovery_lock_is_gone(&self, node: usize) {
        self.0.parts[node].recovery.set(Lock::FREE);
    }

    pub(crate) fn set_adopting(&self, node: usize, is_adopting: bool) {
        self.0.parts[node].is_adopting.set(is_adopting);
    }

    /// Whether a recovery of node `node` has failed after chunks had become this client's, so that their free blocks are found
    /// only when it is gone.
    pub fn has_lost_blocks(&self, node: usize) -> bool {
        self.0.parts[node].is_adopting.get()
    }

    async fn maintain_node(&self, cx: &TaskCx<P>, node: usize) -> Result<(), MemoryError> {
        if self.0.nodes.node(node).is_lost() {
            return Ok(());
        }
        self.keep_up(cx, node).await?;
        if self.has_surplus(node) {
            self.give_back(cx, node).await?;
        }
        Ok(())
    }

    /// Takes over chunk `chunk` of node `node`, whose blocks of class `class` are free where `is_free` says so.
    pub(crate) fn adopt(
        &self,
        node: usize,
        class: crate::classes::Class,
        chunk: u32,
        is_free: impl Fn(usize) -> bool,
    ) {
        let mut lists = self.0.parts[node].lists.borrow_mut();
        let first = u64::from(chunk) * CHUNK_BYTES as u64;
        for block in (0..class.per_chunk()).filter(|&block| is_free(block)) {
            lists.put(class, first + (block * class.bytes()) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::lists::{Lists, Size};
    use crate::chunks::{ChunkStack, Supply};
    use crate::classes::Class;
    use crate::sweeps::ProcessSweeps;
    use drover_base::sync::Arc;
    use std::cell::{Cell, RefCell};

    const SWEPT: u64 = 5;
    const OTHER: u64 = 6;

    /// A block of 64 bytes in this chunk.
    fn block(chunk: u64) -> Freed {
        Freed {
            offset: chunk * CHUNK_BYTES as u64 + 128,
            size: Size::of(64),
        }
    }

    /// A part whose thread noticed in epoch 20 that a sweep of chunk `SWEPT` had ended; `knew`: it had noticed the sweep before.
    fn after_a_sweep(knew: bool) -> Part {
        let past = Past {
            chunks: knew.then(|| BTreeSet::from([SWEPT as u32])),
            epoch: 20,
        };
        let supply = Supply {
            chunk_count: 8,
            bump: 8,
            stack: ChunkStack::default(),
        };
        Part {
            lists: RefCell::new(Lists::default()),
            supply: Cell::new(supply),
            versions: RefCell::new(0..0),
            refilling: Cell::new(false),
            sweep: Arc::new(ProcessSweeps::new(2)).thread(),
            in_sweep: Cell::new(true),
            swept: RefCell::new(Swept {
                past: Some(past),
                ..Swept::default()
            }),
            recovery: Cell::new(Lock::FREE),
            is_adopting: Cell::new(false),
        }
    }

    /// Whether the thread may use `freed` again, ever.
    fn is_kept(part: &Part, freed: Freed) -> bool {
        let class = Class::of(64).expect("a class");
        part.lists.borrow_mut().take(class, u64::MAX) == Some(freed.offset)
    }

    /// The client that swept may have found a block free that was unlinked before the mark pass came by, and the operation that unlinked
    /// it may free it when the end of the sweep was noticed already: it must not be used by both. Only the next sweep finds it if nobody
    /// has it.
    #[test]
    fn a_block_unlinked_before_the_end_of_a_sweep_was_noticed_is_left_to_the_next_one() {
        for (chunk, began, knew, may_keep) in [
            (SWEPT, 19, true, false),
            (SWEPT, 20, true, false),
            // It began when the sweep was over.
            (SWEPT, 21, true, true),
            // Nobody looked at this chunk.
            (OTHER, 20, true, true),
            // It may be one of those that were swept.
            (OTHER, 20, false, false),
            (OTHER, 21, false, true),
        ] {
            let part = after_a_sweep(knew);
            part.free_in_sweep(began, block(chunk), true);
            let what = format!("chunk {chunk}, began in epoch {began}, knew of the sweep: {knew}");
            assert_eq!(is_kept(&part, block(chunk)), may_keep, "{what}");
        }
    }

    /// The mark pass waited for operations that had a block which they had not linked yet, so this one was got later, of a chunk that was
    /// not swept.
    #[test]
    fn a_block_that_was_never_linked_is_kept() {
        let part = after_a_sweep(false);
        part.free_in_sweep(20, block(OTHER), false);
        assert!(is_kept(&part, block(OTHER)));
    }
}
