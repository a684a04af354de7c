//! How a thread takes chunks from a node and gives them back.
//!
//! ```text
//! far from the end, no returned chunks known:  READ of the two words, FAA        one round trip
//! else:  READ; pop: READ of the entry, CAS of the stack    or    FAA
//! then:  WRITE of the owner to the entry
//! ```
//! All under a pin: the client that sweeps knows after three epochs that a chunk without an owner is nobody's.

use super::Arena;
use crate::chunks::{ChunkEntry, ChunkKind, ChunkStack, Need, Supply};
use crate::client::ClientId;
use crate::header::{BUMP_AT, STACK_AT};
use crate::pool::MemoryError;
use drover_rt::TaskCx;
use drover_verbs::Provider;

/// Bytes of the two words.
const WORDS_BYTES: usize = 16;
/// A thread that knows of fewer chunks that were never taken looks before it takes one.
const FAR: u32 = 256;
/// Races for the stack that a request loses before it fails: each lost one means that another thread got a chunk.
const ATTEMPTS_MAX: usize = 1000;

impl<P: Provider> Arena<P> {
    /// Takes `count` chunks in a row and notes their owner; returns the index of the first.
    pub(super) async fn take_chunks(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        count: u32,
        kind: ChunkKind,
        link: u32,
        need: Need,
    ) -> Result<u32, MemoryError> {
        let (nodes, own) = (&self.0.nodes, self.0.nodes.node(node));
        nodes.check_lease(cx, node)?;
        let _pin = nodes.pin(node);
        if !own.own_chunks(count) {
            return Err(MemoryError::Quota { node });
        }
        let taken = self.take_counted(cx, node, count, need).await;
        let first = taken.inspect_err(|_| own.disown_chunks(count))?;
        let owner = nodes.pool().client();
        for chunk in first..first + count {
            let entry = match chunk == first {
                true => ChunkEntry { kind, link, owner },
                false => ChunkEntry {
                    kind: ChunkKind::RunPart,
                    link: 0,
                    owner,
                },
            };
            let at = nodes.table(node, own.header().geometry.chunk_entry(chunk));
            cx.write_inline(at.peer, &entry.encode().to_le_bytes(), at.remote)?;
        }
        cx.sync().await?;
        Ok(first)
    }

    async fn take_counted(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        count: u32,
        need: Need,
    ) -> Result<u32, MemoryError> {
        let part = &self.0.parts[node];
        let known = part.supply.get();
        if known.stack.count == 0 && known.fresh() > known.reserve().saturating_add(FAR).saturating_add(count)
        {
            return self.bump(cx, node, count, need).await;
        }
        for _ in 0..ATTEMPTS_MAX {
            let supply = self.look(cx, node).await?;
            if !supply.allows(count, need) {
                return Err(MemoryError::Full { node });
            }
            if count > 1 || supply.stack.top == 0 {
                match supply.fresh() >= count {
                    true => return self.bump(cx, node, count, need).await,
                    // Returned chunks do not lie in a row.
                    false => return Err(MemoryError::Full { node }),
                }
            }
            if let Some(chunk) = self.pop_chunk(cx, node, supply.stack).await? {
                return Ok(chunk);
            }
        }
        Err(MemoryError::Full { node })
    }

    /// READs the two words.
    async fn look(&self, cx: &TaskCx<P>, node: usize) -> Result<Supply, MemoryError> {
        let words = self.0.nodes.table(node, BUMP_AT);
        let ticket = cx.read(words.peer, cx.buffer(WORDS_BYTES)?, words.remote)?;
        let bytes = cx.sync().await?.take(ticket);
        Ok(self.learn(node, &bytes))
    }

    fn learn(&self, node: usize, bytes: &[u8]) -> Supply {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let supply = Supply {
            chunk_count: self.0.nodes.node(node).header().geometry.chunk_count(),
            bump: word(0),
            stack: ChunkStack::decode(word(8)),
        };
        let before = self.0.parts[node].supply.replace(supply);
        if supply.fill() > before.fill() {
            let server = self.0.nodes.node(node).server();
            tracing::warn!(
                server,
                node,
                used = supply.used(),
                of = supply.chunk_count,
                "a memory node fills up"
            );
        }
        supply
    }

    /// Takes chunks that were never taken.
    async fn bump(&self, cx: &TaskCx<P>, node: usize, count: u32, need: Need) -> Result<u32, MemoryError> {
        let (words, bump) = (
            self.0.nodes.table(node, BUMP_AT),
            self.0.nodes.table(node, BUMP_AT),
        );
        let look = cx.read(words.peer, cx.buffer(WORDS_BYTES)?, words.remote)?;
        let taken = cx.faa(bump.peer, bump.remote, u64::from(count))?;
        let (bytes, first) = {
            let mut done = cx.sync().await?;
            (done.take(look), done.value(taken))
        };
        let mut supply = self.learn(node, &bytes);
        // Others may have taken some between the two requests.
        supply.bump = first;
        drop(bytes);
        let end = first.saturating_add(u64::from(count));
        let chunk_count = u64::from(supply.chunk_count);
        let first_data = u64::from(self.0.nodes.node(node).header().geometry.first_data_chunk());
        if first < first_data {
            let what = "chunks in use";
            return Err(MemoryError::Tables { node, what });
        }
        if end <= chunk_count && supply.allows(count, need) {
            return Ok(first as u32);
        }
        // Past the end, or into the reserve: what there is goes to the stack, where essential requests find it.
        for chunk in first.min(chunk_count)..end.min(chunk_count) {
            self.push_chunk(cx, node, chunk as u32).await?;
        }
        Err(MemoryError::Full { node })
    }

    /// Takes the topmost chunk of `stack`; `None`: another thread was faster.
    async fn pop_chunk(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        stack: ChunkStack,
    ) -> Result<Option<u32>, MemoryError> {
        let nodes = &self.0.nodes;
        let geometry = nodes.node(node).header().geometry;
        let is_data = |chunk: u32| (geometry.first_data_chunk()..geometry.chunk_count()).contains(&chunk);
        if !is_data(stack.top) {
            let what = "top of the stack of returned chunks";
            return Err(MemoryError::Tables { node, what });
        }
        let at = nodes.table(node, geometry.chunk_entry(stack.top));
        let ticket = cx.read(at.peer, cx.buffer(8)?, at.remote)?;
        let word = {
            let bytes = cx.sync().await?.take(ticket);
            u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
        };
        // If the CAS succeeds, the chunk was on the stack all the time, and the entry was true.
        let entry = ChunkEntry::decode(word).filter(|entry| entry.kind == ChunkKind::Returned);
        let next = entry.map(|entry| entry.link);
        let Some(next) = next.filter(|&next| next == 0 || is_data(next)) else {
            return match self.look(cx, node).await?.stack == stack {
                true => Err(MemoryError::Tables {
                    node,
                    what: "entry of a returned chunk",
                }),
                false => Ok(None),
            };
        };
        let head = nodes.table(node, STACK_AT);
        let ticket = cx.cas(
            head.peer,
            head.remote,
            stack.encode(),
            stack.popped(next).encode(),
        )?;
        let found = cx.sync().await?.value(ticket);
        Ok((found == stack.encode()).then_some(stack.top))
    }

    /// Puts a chunk on the stack.
    pub(crate) async fn push_chunk(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        chunk: u32,
    ) -> Result<(), MemoryError> {
        let nodes = &self.0.nodes;
        let entry_at = nodes.table(node, nodes.node(node).header().geometry.chunk_entry(chunk));
        let head = nodes.table(node, STACK_AT);
        let part = &self.0.parts[node];
        let _pin = nodes.pin(node);
        loop {
            nodes.check_lease(cx, node)?;
            let mut supply = part.supply.get();
            let entry = ChunkEntry {
                kind: ChunkKind::Returned,
                link: supply.stack.top,
                owner: ClientId::NONE,
            };
            cx.write_inline(entry_at.peer, &entry.encode().to_le_bytes(), entry_at.remote)?;
            let pushed = supply.stack.pushed(chunk);
            let ticket = cx.cas(head.peer, head.remote, supply.stack.encode(), pushed.encode())?;
            let found = cx.sync().await?.value(ticket);
            let is_done = found == supply.stack.encode();
            supply.stack = match is_done {
                true => pushed,
                false => ChunkStack::decode(found),
            };
            part.supply.set(supply);
            if is_done {
                return Ok(());
            }
        }
    }
}
