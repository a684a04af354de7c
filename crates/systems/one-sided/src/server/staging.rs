//! [`Staging`]: buffers of a server for long values in transfer from or to clients' memory.

use drover_kv::StartError;
use drover_mem::PageWish;
use drover_verbs::{Access, Context, MemoryRegion, Provider, Sge};

/// Number of buffers: long values in transfer at a time, for all clients together. *(our choice)*
const STAGES: usize = 4;

/// Buffers for values in transfer from or to clients' memory. Clients cannot READ them.
pub struct Staging<P: Provider> {
    mr: P::Mr,
    bytes: usize,
    free: Vec<u8>,
}

impl<P: Provider> Staging<P> {
    /// Creates buffers of `bytes` bytes each.
    ///
    /// # Errors
    /// [`StartError`] if memory cannot be allocated or registered.
    pub fn new(ctx: &P::Context, bytes: usize, pages: PageWish) -> Result<Staging<P>, StartError> {
        Ok(Staging {
            mr: ctx.register(&ctx.alloc(STAGES * bytes, pages)?, Access::LOCAL)?,
            bytes,
            free: (0..STAGES as u8).collect(),
        })
    }

    /// Lends a buffer, by its number; `None`: all are in use.
    pub fn lend(&mut self) -> Option<u8> {
        self.free.pop()
    }

    /// Takes a buffer back.
    pub fn take_back(&mut self, stage: u8) {
        self.free.push(stage);
    }

    /// The first `len` bytes of a buffer.
    pub fn sge(&self, stage: u8, len: usize) -> Sge {
        self.mr.sge(usize::from(stage) * self.bytes, len)
    }

    /// Copies the first `out.len()` bytes of a buffer to `out`.
    pub fn copy_out(&self, stage: u8, out: &mut [u8]) {
        self.mr.region().copy_out(usize::from(stage) * self.bytes, out);
    }

    /// Copies `bytes` to the start of a buffer.
    pub fn copy_in(&self, stage: u8, bytes: &[u8]) {
        self.mr.region().copy_in(usize::from(stage) * self.bytes, bytes);
    }
}
