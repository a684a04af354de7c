//! [`Marks`]: which blocks of the swept chunks are in use. No I/O.

use crate::addr::Addr;
use crate::chunks::{CHUNK_BYTES, ChunkEntry, ChunkKind};
use crate::classes::Class;
use std::collections::BTreeMap;

/// Words of the bits of a chunk of the shortest blocks.
const WORDS: usize = CHUNK_BYTES / 8 / 64;

/// A swept chunk, or a piece of several.
#[derive(Debug)]
pub(super) struct SweptChunk {
    pub(super) entry: ChunkEntry,
    /// A bit for each block in use; of a run: the first.
    bits: Box<[u64; WORDS]>,
}

impl SweptChunk {
    /// Its class; `None`: it is a run.
    pub(super) fn class(&self) -> Option<Class> {
        match self.entry.kind {
            ChunkKind::SweptBlocks => Class::from_index(self.entry.link as usize),
            _ => None,
        }
    }

    pub(super) fn is_used(&self, block: usize) -> bool {
        self.bits[block / 64] >> (block % 64) & 1 == 1
    }

    /// Number of blocks in use.
    pub(super) fn used_count(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// The swept chunks of a node, by index.
#[derive(Debug, Default)]
pub(super) struct Marks {
    node: usize,
    chunks: BTreeMap<u32, SweptChunk>,
}

impl Marks {
    pub(super) fn new(node: usize) -> Marks {
        Marks {
            node,
            chunks: BTreeMap::new(),
        }
    }

    /// Adds a chunk whose entry is of a swept kind.
    pub(super) fn add(&mut self, chunk: u32, entry: ChunkEntry) {
        let bits = Box::new([0; WORDS]);
        self.chunks.insert(chunk, SweptChunk { entry, bits });
    }

    /// Notes that the piece of `bytes` at `addr` is in use, if it is in a swept chunk.
    pub(super) fn mark(&mut self, addr: Addr, bytes: usize) {
        let (first, end) = (addr.offset(), addr.offset() + bytes.max(1) as u64);
        let chunk_of = |offset: u64| u32::try_from(offset / CHUNK_BYTES as u64).unwrap_or(u32::MAX);
        let Some(chunk) = self.chunks.get_mut(&chunk_of(first)) else {
            return;
        };
        if addr.node() != self.node {
            return;
        }
        let Some(class) = chunk.class() else {
            chunk.bits[0] |= 1;
            return;
        };
        // More than one block only if a structure names more than it was given: all of that is in use.
        let within = |offset: u64| (offset % CHUNK_BYTES as u64) as usize / class.bytes();
        let last = match chunk_of(end - 1) == chunk_of(first) {
            true => within(end - 1),
            false => class.per_chunk() - 1,
        };
        (within(first)..=last).for_each(|block| chunk.bits[block / 64] |= 1 << (block % 64));
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = (u32, &SweptChunk)> {
        self.chunks.iter().map(|(&index, chunk)| (index, chunk))
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientId;

    #[test]
    fn blocks_are_marked_and_nothing_else() {
        let entry = |kind, link| ChunkEntry {
            kind,
            link,
            owner: ClientId::NONE,
        };
        let class = Class::of(64).expect("a class");
        let mut marks = Marks::new(1);
        marks.add(5, entry(ChunkKind::SweptBlocks, class.index() as u32));
        marks.add(6, entry(ChunkKind::SweptRun, 3));
        let at = |node, chunk: u64, offset| Addr::new(node, chunk * CHUNK_BYTES as u64 + offset);
        marks.mark(at(1, 5, 128), 64);
        marks.mark(at(1, 5, 200), 1);
        marks.mark(at(0, 5, 0), 64);
        marks.mark(at(1, 4, 0), 64);
        marks.mark(Addr::from_bits(u64::MAX), usize::MAX >> 1);
        let found: Vec<_> = marks
            .chunks()
            .map(|(index, chunk)| (index, chunk.used_count()))
            .collect();
        assert_eq!(found, [(5, 2), (6, 0)]);
        marks.mark(at(1, 6, 0), 40_000);
        // Longer than the chunk: up to its end.
        marks.mark(at(1, 5, 255 * 64), 200);
        let found: Vec<_> = marks.chunks().map(|(_, chunk)| chunk.used_count()).collect();
        assert_eq!(found, [3, 1]);
        let (_, chunk) = marks.chunks().next().expect("the first");
        assert!(chunk.is_used(2) && chunk.is_used(3) && chunk.is_used(255) && !chunk.is_used(1));
    }
}
