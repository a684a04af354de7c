//! [`Chunks`]: memory for long values, divided alike here and at a peer, between which they move over RC.

use crate::{Imports, ResourceError};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, Export, MemoryRegion, Pieces, PostError, Provider, QpKind, QpOptions, QueuePair,
    RemoteRegion, SendList, SendWr, WrId,
};
use std::rc::Rc;

/// More memory than this, in bytes, is refused: the peer's numbers make no sense.
const MEMORY_BYTES_MAX: usize = 1 << 32;
/// Most requests that all transfers together may have posted. Where chunks are very long, values move in longer pieces.
const REQUESTS_MAX: usize = 1024;

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the peer's chunk to ours, by READ.
    Read,
    /// From our chunk to the peer's, by WRITE.
    Write,
}

impl Direction {
    /// The verb, for log lines.
    pub fn verb(self) -> &'static str {
        match self {
            Direction::Read => "READ",
            Direction::Write => "WRITE",
        }
    }
}

/// How memory for long values is divided: long chunks, numbered from 0 on, and then short ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkMap {
    /// Bytes of a long chunk.
    pub long_bytes: usize,
    /// Number of long chunks.
    pub long_count: usize,
    /// Bytes of a short chunk.
    pub short_bytes: usize,
    /// Number of short chunks.
    pub short_count: usize,
}

impl ChunkMap {
    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.long_count + self.short_count
    }

    /// Bytes of all chunks.
    pub fn bytes(&self) -> usize {
        self.long_count * self.long_bytes + self.short_count * self.short_bytes
    }

    /// Offset and length of a chunk, in bytes; `None` if there is no such chunk.
    #[inline]
    pub fn place(&self, chunk: u32) -> Option<(usize, usize)> {
        let chunk = chunk as usize;
        if chunk < self.long_count {
            return Some((chunk * self.long_bytes, self.long_bytes));
        }
        let short = chunk - self.long_count;
        let start = self.long_count * self.long_bytes + short * self.short_bytes;
        (short < self.short_count).then_some((start, self.short_bytes))
    }
}

/// Chunks of registered memory here, each with a twin at the peer, and the RC queue pair that moves bytes between
/// twins. Chunk n of one side is the twin of chunk n of the other. It owns the memory here, the queue pair and the
/// import of the peer's memory.
pub struct Chunks<P: Provider> {
    qp: P::Qp,
    remote: RemoteRegion,
    local: P::Mr,
    map: ChunkMap,
    pieces: Pieces,
    free_long: Vec<u32>,
    free_short: Vec<u32>,
    list: SendList,
    /// Declared after the queue pair, which uses `remote`.
    _imports: Imports<P>,
}

impl<P: Provider> Chunks<P> {
    /// Allocates and registers the chunks of `map` here, imports the peer's memory `region`, which holds
    /// their twins, and connects a new RC queue pair to the peer's queue pair `rc`. Completions go to `cq`. Returns the
    /// chunks and the export of the new queue pair, to which the peer must connect its own.
    ///
    /// # Errors
    /// [`ResourceError::Unusable`] if the region is too short or not both readable and writable, or if all chunks
    /// together have 0 bytes or more than 4 GiB; else the error of the step that failed.
    pub fn new(
        ctx: &Rc<P::Context>,
        cq: &P::Cq,
        (region, rc): (&Export, &Export),
        map: ChunkMap,
    ) -> Result<(Chunks<P>, Export), ResourceError> {
        let bytes = map.bytes();
        let mut imports = Imports::new(ctx);
        let remote = imports.region(region)?;
        let may_move = remote.access.remote_read && remote.access.remote_write;
        if !may_move || !(1..=MEMORY_BYTES_MAX).contains(&bytes) || remote.len < bytes as u64 {
            let what = "memory for long values";
            return Err(ResourceError::Unusable { what });
        }
        let local = ctx.alloc(bytes, PageWish::Small)?;
        let local = ctx.register(&local, Access::LOCAL)?;
        let requests_max = REQUESTS_MAX.min(ctx.caps().send_depth_max);
        let pieces = Pieces::new(map.long_bytes, requests_max / 2 / map.count());
        let requests = |count, bytes| count * pieces.count(bytes);
        let depth = requests(map.long_count, map.long_bytes) + requests(map.short_count, map.short_bytes);
        let mut qp = ctx.create_qp(&QpOptions {
            send_depth: 2 * depth,
            recv_depth: 1,
            ..QpOptions::new(QpKind::Rc, cq, ctx.caps())
        })?;
        qp.connect(rc)?;
        let export = qp.export()?;
        let chunks = Chunks {
            qp,
            remote,
            local,
            map,
            pieces,
            free_long: (0..map.long_count as u32).rev().collect(),
            free_short: (map.long_count as u32..map.count() as u32).rev().collect(),
            list: SendList::with_capacity(pieces.count(map.long_bytes), 0),
            _imports: imports,
        };
        Ok((chunks, export))
    }

    /// Length of a chunk, bytes.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn len_of(&self, chunk: u32) -> usize {
        self.place(chunk).1
    }

    /// Takes a chunk for `bytes` that is not in use, a short one if one is free and long enough; `None` if none is.
    pub fn take(&mut self, bytes: usize) -> Option<u32> {
        let short = (bytes <= self.map.short_bytes).then(|| self.free_short.pop());
        short.flatten().or_else(|| self.free_long.pop())
    }

    /// Takes a short chunk that is not in use; `None` if all are.
    pub fn take_short(&mut self) -> Option<u32> {
        self.free_short.pop()
    }

    /// Gives back a chunk that was taken. No transfer of it may be under way.
    pub fn give_back(&mut self, chunk: u32) {
        match (chunk as usize) < self.map.long_count {
            true => self.free_long.push(chunk),
            false => self.free_short.push(chunk),
        }
    }

    /// Copies `value` to our chunk. A value longer than a chunk overwrites the next ones.
    ///
    /// # Panics
    /// The value reaches beyond the memory of all chunks.
    pub fn fill(&self, chunk: u32, value: &[u8]) {
        self.local.region().copy_in(self.start(chunk), value);
    }

    /// Copies the first `value.len()` bytes of our chunk to `value`.
    ///
    /// # Panics
    /// They reach beyond the memory of all chunks.
    pub fn copy_out(&self, chunk: u32, value: &mut [u8]) {
        self.local.region().copy_out(self.start(chunk), value);
    }

    /// Posts the transfer of the first `len` bytes of a chunk from or to its twin, as one or more messages. If it
    /// succeeds, it has one completion, with the id `wr_id`; if it fails, every message that fails has one, with the
    /// same id.
    ///
    /// # Errors
    /// The queue pair refuses a message, for example because more than two transfers per chunk are under way; the
    /// messages before it are posted.
    ///
    /// # Panics
    /// The bytes reach beyond the memory of all chunks.
    pub fn transfer(
        &mut self,
        cpu: &P::Cpu,
        chunk: u32,
        len: usize,
        direction: Direction,
        wr_id: WrId,
    ) -> Result<(), PostError> {
        let start = self.start(chunk);
        self.list.clear();
        let remote = self.remote.at(start);
        let local = self.local.sge(start, len);
        let whole = match direction {
            Direction::Read => SendWr::read(remote, local),
            Direction::Write => SendWr::write(remote, local),
        };
        let whole = whole.signaled(wr_id);
        self.pieces.of(whole).for_each(|wr| self.list.push(wr));
        self.qp.post_send(cpu, &self.list)
    }

    fn start(&self, chunk: u32) -> usize {
        self.place(chunk).0
    }

    fn place(&self, chunk: u32) -> (usize, usize) {
        self.map.place(chunk).expect("a chunk that was taken")
    }
}
