//! [`Sweep`]: finds out what in the chunks of dead clients is free.

use super::Recovered;
use super::marks::{Marks, SweptChunk};
use crate::arena::Arena;
use crate::chunks::{CHUNK_BYTES, ChunkEntry, ChunkKind, ChunkStack};
use crate::client::ClientId;
use crate::clients::{ClientLine, ClientState};
use crate::header::{BUMP_AT, CLIENT_BYTES, SWEEP_AT};
use crate::lease::HURRY;
use crate::nodes::Nodes;
use crate::pool::MemoryError;
use drover_base::Ns;
use drover_mem::Limbo;
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::collections::BTreeSet;

/// Lines of the client table that one READ gets.
const LINES: usize = 128;
/// Attempts to find the stack of returned chunks unchanged while it is walked.
const WALKS_MAX: usize = 3;

/// READs the client table of node `node`.
async fn lines<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
) -> Result<Vec<ClientLine>, MemoryError> {
    let geometry = nodes.node(node).header().geometry;
    let count = geometry.client_count as usize;
    let mut lines = Vec::with_capacity(count);
    while lines.len() < count {
        let next = (count - lines.len()).min(LINES);
        let at = nodes.table(node, geometry.client_line(lines.len() as u16 + 1));
        let ticket = cx.read(at.peer, cx.buffer(next * CLIENT_BYTES)?, at.remote)?;
        let bytes = cx.sync().await?.take(ticket);
        for line in bytes.as_chunks::<CLIENT_BYTES>().0 {
            let line = ClientLine::decode(line);
            let what = "line of a client";
            lines.push(line.ok_or(MemoryError::Tables { node, what })?);
        }
    }
    Ok(lines)
}

/// Clients that were fenced and left something to repair.
pub(super) async fn dead_clients<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
) -> Result<Vec<ClientId>, MemoryError> {
    let lines = lines(cx, nodes, node).await?;
    let dead = lines.iter().flat_map(|line| {
        let is_fenced = line.state == ClientState::Fenced;
        [
            line.predecessor,
            if is_fenced { line.client } else { ClientId::NONE },
        ]
    });
    Ok(dead.filter(|client| !client.is_none()).collect())
}

/// Whether a client is gone, so that nobody uses the free blocks of its chunks: it is one of `dead`, or its line belongs
/// to nobody or to another. One that was fenced meanwhile must be repaired first.
fn is_gone(lines: &[ClientLine], dead: &[ClientId], owner: ClientId) -> bool {
    let line = usize::from(owner.id)
        .checked_sub(1)
        .and_then(|index| lines.get(index));
    let holds_line = line.is_some_and(|line| line.client == owner && line.state != ClientState::Free);
    !owner.is_none() && (!holds_line || dead.contains(&owner))
}

pub(super) struct Sweep<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    arena: &'a Arena<P>,
    node: usize,
    /// The node's word while this sweep lasts, odd.
    word: u64,
    marks: Marks,
    /// Chunks without an owner, as they were when it began.
    orphans: BTreeSet<u32>,
}

impl<'a, P: Provider> Sweep<'a, P> {
    /// Marks the chunks of owners that are gone as swept, and announces that.
    pub(super) async fn begin(
        cx: &'a TaskCx<P>,
        arena: &'a Arena<P>,
        node: usize,
        dead: &[ClientId],
    ) -> Result<Sweep<'a, P>, MemoryError> {
        let nodes = arena.nodes();
        let mut found = Vec::new();
        arena
            .read_entries(cx, node, |chunk, entry| match entry.kind {
                ChunkKind::Blocks | ChunkKind::Run | ChunkKind::SweptBlocks | ChunkKind::SweptRun => {
                    found.push((chunk, entry));
                }
                _ => {}
            })
            .await?;
        // READ after the entries: a client that took a chunk had its line before.
        let lines = lines(cx, nodes, node).await?;
        let mut sweep = Sweep {
            cx,
            arena,
            node,
            word: 0,
            marks: Marks::new(node),
            orphans: BTreeSet::new(),
        };
        for (chunk, entry) in found {
            let kind = match entry.kind {
                ChunkKind::Blocks if is_gone(&lines, dead, entry.owner) => ChunkKind::SweptBlocks,
                ChunkKind::Run if is_gone(&lines, dead, entry.owner) => ChunkKind::SweptRun,
                // Of a sweep that was not finished.
                ChunkKind::SweptBlocks | ChunkKind::SweptRun => entry.kind,
                _ => continue,
            };
            let swept = ChunkEntry { kind, ..entry };
            // A client that has all of a chunk's free blocks may have given it back since the entry was READ.
            if sweep.swap_entry(chunk, entry, swept).await? {
                sweep.marks.add(chunk, swept);
            }
        }
        sweep.orphans = sweep.find_orphans().await?;
        let before = sweep.read_word(SWEEP_AT).await?;
        sweep.word = before.wrapping_add(1) | 1;
        sweep.write_word(SWEEP_AT, sweep.word).await?;
        Ok(sweep)
    }

    pub(super) fn marks(&mut self) -> &mut Marks {
        &mut self.marks
    }

    /// Waits until all threads of all clients have forgotten what they held of the swept chunks, and until no operation
    /// is left that began before; false if that takes longer than `patience`.
    pub(super) async fn wait(&self, patience: Ns) -> Result<bool, MemoryError> {
        let deadline = self.cx.now() + patience;
        if !self.wait_for_clients(self.word, deadline).await? {
            return Ok(false);
        }
        let nodes = self.arena.nodes();
        let epoch = nodes.reclaim(self.node).saturating_add(Limbo::<()>::LAG);
        while nodes.reclaim(self.node) < epoch {
            if self.cx.now() >= deadline {
                return Ok(false);
            }
            self.pause().await?;
        }
        Ok(true)
    }

    async fn wait_for_clients(&self, word: u64, deadline: Ns) -> Result<bool, MemoryError> {
        loop {
            self.arena.keep_up(self.cx, self.node).await?;
            let lines = lines(self.cx, self.arena.nodes(), self.node).await?;
            let is_live =
                |line: &&ClientLine| matches!(line.state, ClientState::Live | ClientState::Suspected);
            if lines.iter().filter(is_live).all(|line| line.purged >= word) {
                return Ok(true);
            }
            if self.cx.now() >= deadline {
                return Ok(false);
            }
            self.pause().await?;
        }
    }

    async fn pause(&self) -> Result<(), MemoryError> {
        let nodes = self.arena.nodes();
        nodes.check_lease(self.cx, self.node)?;
        let every = nodes.node(self.node).times().renew_every;
        self.cx.sleep(Ns(every.0 / HURRY)).await;
        Ok(())
    }

    /// Ends the sweep, and takes what is free.
    pub(super) async fn end(self, patience: Ns) -> Result<Recovered, MemoryError> {
        let (nodes, node) = (self.arena.nodes(), self.node);
        let own = nodes.node(node);
        let owner = nodes.pool().client();
        let mut done = Recovered {
            chunks_swept: self.marks.len(),
            ..Recovered::default()
        };
        self.arena.set_adopting(node, true);
        let mut free = Vec::new();
        let mut kept: Vec<(u32, &SweptChunk)> = Vec::new();
        for (chunk, swept) in self.marks.chunks() {
            // Or it was being given back when the sweep began.
            if self.read_entry(chunk).await? != Some(swept.entry) {
                continue;
            }
            let count = match swept.class() {
                Some(_) => 1,
                None => self.run_length(chunk, swept.entry).await?,
            };
            if swept.used_count() == 0 {
                free.extend(chunk..chunk + count);
                continue;
            }
            let (kind, link) = match swept.class() {
                Some(class) => (ChunkKind::Blocks, class.index() as u32),
                None => (ChunkKind::Run, count),
            };
            for part in chunk + 1..chunk + count {
                let kind = ChunkKind::RunPart;
                self.write_entry(part, ChunkEntry { kind, link: 0, owner })
                    .await?;
            }
            self.write_entry(chunk, ChunkEntry { kind, link, owner }).await?;
            own.adopt_chunks(count);
            kept.push((chunk, swept));
        }
        let orphans = self.find_orphans().await?;
        free.extend(self.orphans.intersection(&orphans));
        self.write_word(SWEEP_AT, self.word.wrapping_add(1)).await?;
        // Who still believes that they are swept drops what it frees of them.
        self.wait_for_clients(self.word.wrapping_add(1), self.cx.now() + patience)
            .await?;
        for (chunk, swept) in kept {
            if let Some(class) = swept.class() {
                self.arena
                    .adopt(node, class, chunk, |block| !swept.is_used(block));
                done.blocks_freed += class.per_chunk() - swept.used_count();
            }
        }
        self.arena.set_adopting(node, false);
        done.chunks_returned = free.len();
        for chunk in free {
            self.arena.push_chunk(self.cx, node, chunk).await?;
        }
        Ok(done)
    }

    /// Chunks of the run that begins at `first`: as many as its entry says, as far as their entries agree.
    async fn run_length(&self, first: u32, entry: ChunkEntry) -> Result<u32, MemoryError> {
        let chunk_count = self.arena.nodes().node(self.node).header().geometry.chunk_count();
        let mut count = 1;
        while count < entry.link && first + count < chunk_count {
            let part = self.read_entry(first + count).await?;
            let is_part =
                part.is_some_and(|part| part.kind == ChunkKind::RunPart && part.owner == entry.owner);
            if !is_part {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Chunks that were taken and have no owner, and are not on the stack: of a client that died between two requests, or
    /// of one that is between them.
    async fn find_orphans(&self) -> Result<BTreeSet<u32>, MemoryError> {
        let bump = self.read_word(BUMP_AT).await?;
        for _ in 0..WALKS_MAX {
            let Some(on_stack) = self.walk_stack().await? else {
                continue;
            };
            let mut orphans = BTreeSet::new();
            self.arena
                .read_entries(self.cx, self.node, |chunk, entry| {
                    let is_orphan = match entry.kind {
                        ChunkKind::Fresh => u64::from(chunk) < bump,
                        ChunkKind::Returned => !on_stack.contains(&chunk),
                        _ => false,
                    };
                    if is_orphan {
                        orphans.insert(chunk);
                    }
                })
                .await?;
            return Ok(orphans);
        }
        Ok(BTreeSet::new())
    }

    /// The chunks on the stack; `None` if it changed meanwhile, or makes no sense.
    async fn walk_stack(&self) -> Result<Option<BTreeSet<u32>>, MemoryError> {
        let word = self.read_word(BUMP_AT + 8).await?;
        let stack = ChunkStack::decode(word);
        let (mut found, mut next) = (BTreeSet::new(), stack.top);
        // No more than the stack says that it has, whatever the links say.
        for _ in 0..stack.count {
            let entry = match next {
                0 => None,
                chunk => self.read_entry(chunk).await?,
            };
            let Some(entry) = entry.filter(|entry| entry.kind == ChunkKind::Returned) else {
                return Ok(None);
            };
            found.insert(next);
            next = entry.link;
        }
        let is_same = self.read_word(BUMP_AT + 8).await? == word;
        Ok((is_same && next == 0).then_some(found))
    }

    async fn read_entry(&self, chunk: u32) -> Result<Option<ChunkEntry>, MemoryError> {
        let geometry = self.arena.nodes().node(self.node).header().geometry;
        if chunk >= geometry.chunk_count() {
            return Ok(None);
        }
        let word = self.read_word(geometry.chunk_entry(chunk)).await?;
        Ok(ChunkEntry::decode(word))
    }

    async fn write_entry(&self, chunk: u32, entry: ChunkEntry) -> Result<(), MemoryError> {
        let geometry = self.arena.nodes().node(self.node).header().geometry;
        self.write_word(geometry.chunk_entry(chunk), entry.encode()).await
    }

    /// Replaces an entry; false if it is not `from` any more.
    async fn swap_entry(&self, chunk: u32, from: ChunkEntry, to: ChunkEntry) -> Result<bool, MemoryError> {
        let nodes = self.arena.nodes();
        let _pin = nodes.pin(self.node);
        nodes.check_lease(self.cx, self.node)?;
        let geometry = nodes.node(self.node).header().geometry;
        let at = nodes.table(self.node, geometry.chunk_entry(chunk));
        let ticket = self.cx.cas(at.peer, at.remote, from.encode(), to.encode())?;
        Ok(self.cx.sync().await?.value(ticket) == from.encode())
    }

    async fn read_word(&self, offset: usize) -> Result<u64, MemoryError> {
        let at = self.arena.nodes().table(self.node, offset);
        let ticket = self.cx.read(at.peer, self.cx.buffer(8)?, at.remote)?;
        let bytes = self.cx.sync().await?.take(ticket);
        Ok(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")))
    }

    async fn write_word(&self, offset: usize, word: u64) -> Result<(), MemoryError> {
        let nodes = self.arena.nodes();
        let _pin = nodes.pin(self.node);
        nodes.check_lease(self.cx, self.node)?;
        let at = nodes.table(self.node, offset);
        self.cx.write_inline(at.peer, &word.to_le_bytes(), at.remote)?;
        self.cx.sync().await?;
        Ok(())
    }
}

const _: () = assert!(crate::header::STACK_AT == BUMP_AT + 8 && CHUNK_BYTES.is_multiple_of(8));
