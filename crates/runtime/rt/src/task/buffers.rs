//! [`Buffers`]: registered memory of a pool: buffers in size classes, words for results of atomics, and the lengths of
//! regions that are known.

use super::error::StageError;
use super::options::TaskOptions;
use crate::ResourceError;
use drover_mem::{Buffer, BufferPool, PageWish};
use drover_verbs::{Access, Context, MemoryRegion, Provider, RemoteAddr, RemoteRegion, Sge};

/// Bytes of the word that receives the result of an atomic.
pub(super) const WORD_BYTES: usize = 8;

/// Registered buffers of one length.
pub(super) struct Pieces<P: Provider> {
    pub(super) pool: BufferPool,
    mr: P::Mr,
    pub(super) bytes: usize,
}

impl<P: Provider> Pieces<P> {
    pub(super) fn new(ctx: &P::Context, bytes: usize, count: usize) -> Result<Pieces<P>, ResourceError> {
        let pool = BufferPool::new(bytes, count, |bytes| ctx.alloc(bytes, PageWish::Small))?;
        let mr = ctx.register(pool.region(), Access::LOCAL)?;
        let bytes = pool.take().map_or(bytes, |buffer| buffer.len());
        Ok(Pieces { pool, mr, bytes })
    }

    #[inline(always)]
    pub(super) fn sge(&self, buffer: &Buffer) -> Sge {
        self.mr.sge(buffer.offset(), buffer.len())
    }
}

/// The memory of a pool's requests.
pub(super) struct Buffers<P: Provider> {
    /// By length, shortest first.
    classes: Vec<Pieces<P>>,
    words: Pieces<P>,
    /// Keys and lengths of the regions that are known.
    regions: Vec<(u32, u64)>,
}

impl<P: Provider> Buffers<P> {
    pub(super) fn new(ctx: &P::Context, options: &TaskOptions) -> Result<Buffers<P>, ResourceError> {
        let mut wanted = options.buffers;
        wanted.sort_unstable_by_key(|class| class.bytes);
        let wanted = wanted.iter().filter(|class| class.count > 0);
        let classes = wanted.map(|class| Pieces::new(ctx, class.bytes, class.count));
        Ok(Buffers {
            classes: classes.collect::<Result<_, _>>()?,
            words: Pieces::new(ctx, WORD_BYTES, options.atomic_count_max)?,
            regions: Vec::new(),
        })
    }

    /// Takes a buffer of `len` bytes, the shortest that is free and long enough.
    #[inline]
    pub(super) fn take(&self, len: usize) -> Result<Buffer, StageError> {
        for class in &self.classes {
            if len > class.bytes {
                continue;
            }
            if let Some(mut buffer) = class.pool.take() {
                buffer.truncate(len);
                return Ok(buffer);
            }
        }
        Err(self.none_for(len))
    }

    #[cold]
    fn none_for(&self, bytes: usize) -> StageError {
        let limit = self.classes.last().map_or(0, |class| class.bytes);
        match bytes > limit {
            true => StageError::TooLong { bytes, limit },
            false => StageError::NoBuffer { bytes },
        }
    }

    /// Takes the word for the result of an atomic.
    pub(super) fn word(&self) -> Result<(Buffer, Sge), StageError> {
        let mut word = self.words.pool.take().ok_or(StageError::NoWord)?;
        word.truncate(WORD_BYTES);
        let sge = self.words.sge(&word);
        Ok((word, sge))
    }

    /// # Panics
    /// If the buffer is of another pool.
    #[inline]
    pub(super) fn sge(&self, buffer: &Buffer) -> Sge {
        let class = self.classes.iter().find(|class| class.pool.owns(buffer));
        class
            .expect("a buffer of another pool is not registered here")
            .sge(buffer)
    }

    pub(super) fn free_count(&self) -> usize {
        self.classes.iter().map(|class| class.pool.free_count()).sum()
    }

    pub(super) fn add_region(&mut self, region: &RemoteRegion) {
        self.regions.retain(|known| known.0 != region.rkey);
        self.regions.push((region.rkey, region.len));
    }

    /// Checks that `bytes` bytes at `remote` are inside their region, if it is known.
    #[inline]
    pub(super) fn check_range(&self, remote: RemoteAddr, bytes: u64) -> Result<(), StageError> {
        for &(rkey, region_bytes) in &self.regions {
            if rkey == remote.rkey {
                let end = remote.offset.checked_add(bytes);
                return match end.is_some_and(|end| end <= region_bytes) {
                    true => Ok(()),
                    false => Err(StageError::OutOfRange {
                        offset: remote.offset,
                        bytes,
                        region_bytes,
                    }),
                };
            }
        }
        Ok(())
    }
}
