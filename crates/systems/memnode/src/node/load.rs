//! [`Loader`]: writes structures into a node's memory at the node itself, before clients come.

use crate::addr::Addr;
use crate::arena::VERSION_BITS;
use crate::chunks::{CHUNK_BYTES, ChunkEntry, ChunkKind};
use crate::classes::{CLASS_COUNT, Class, chunks_for};
use crate::client::ClientId;
use crate::header::{BUMP_AT, Geometry, VERSIONS_AT, root_offset};
use drover_mem::Region;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Why a loader cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The node has no memory left.
    #[error("the node is full: no {bytes} bytes left")]
    Full {
        /// Bytes asked for.
        bytes: usize,
    },
}

/// Allocates and writes at a node, without requests: for tests, benchmarks and tables of many keys. The blocks belong to
/// nobody. No client may be connected: the words that it changes are theirs to CAS.
pub struct Loader<'a> {
    region: &'a Region,
    geometry: Geometry,
    node: usize,
    /// Of each class: offset of the next block, and blocks left in its chunk.
    open: [(u64, usize); CLASS_COUNT],
    /// Versions left of the ranges that were taken.
    versions: Range<u64>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(region: &'a Region, geometry: Geometry, node: u32) -> Loader<'a> {
        Loader {
            region,
            geometry,
            node: node as usize,
            open: [(0, 0); CLASS_COUNT],
            versions: 0..0,
        }
    }

    fn take_chunks(&mut self, count: usize, kind: ChunkKind, link: u32) -> Option<u64> {
        let bump = self.region.load_u64(BUMP_AT, Ordering::Relaxed);
        let end = bump + count as u64;
        if end > u64::from(self.geometry.chunk_count()) {
            return None;
        }
        self.region.store_u64(BUMP_AT, end, Ordering::Relaxed);
        for chunk in bump..end {
            let entry = ChunkEntry {
                kind: if chunk == bump { kind } else { ChunkKind::RunPart },
                link: if chunk == bump { link } else { 0 },
                owner: ClientId::NONE,
            };
            let at = self.geometry.chunk_entry(chunk as u32);
            self.region.store_u64(at, entry.encode(), Ordering::Relaxed);
        }
        Some(bump * CHUNK_BYTES as u64)
    }

    /// Allocates `bytes` of zeroed memory.
    ///
    /// # Errors
    /// [`LoadError::Full`] if there is not enough left.
    pub fn alloc(&mut self, bytes: usize) -> Result<Addr, LoadError> {
        let full = LoadError::Full { bytes };
        let Some(class) = Class::of(bytes) else {
            let count = chunks_for(bytes);
            let offset = self
                .take_chunks(count, ChunkKind::Run, count as u32)
                .ok_or(full)?;
            return Ok(Addr::new(self.node, offset));
        };
        if self.open[class.index()].1 == 0 {
            let offset = self.take_chunks(1, ChunkKind::Blocks, class.index() as u32);
            self.open[class.index()] = (offset.ok_or(full)?, class.per_chunk());
        }
        let (offset, left) = &mut self.open[class.index()];
        let addr = Addr::new(self.node, *offset);
        (*offset, *left) = (*offset + class.bytes() as u64, *left - 1);
        Ok(addr)
    }

    /// A version that no block of this node ever had.
    pub fn version(&mut self) -> u64 {
        if self.versions.is_empty() {
            let range = self.region.load_u64(VERSIONS_AT, Ordering::Relaxed);
            self.region.store_u64(VERSIONS_AT, range + 1, Ordering::Relaxed);
            let first = range << VERSION_BITS;
            // Version 0 is for those who want to say "none".
            self.versions = first.max(1)..first + (1 << VERSION_BITS);
        }
        let version = self.versions.start;
        self.versions.start += 1;
        version
    }

    /// Writes `bytes` to `addr` of this node.
    ///
    /// # Panics
    /// If they leave the node's memory.
    pub fn write(&mut self, addr: Addr, bytes: &[u8]) {
        assert_eq!(addr.node(), self.node, "{addr} is of another node");
        self.region.copy_in(addr.offset() as usize, bytes);
    }

    /// Sets root `index`.
    ///
    /// # Panics
    /// If there is no such root.
    pub fn set_root(&mut self, index: usize, word: u64) {
        self.region.store_u64(root_offset(index), word, Ordering::Release);
    }
}
