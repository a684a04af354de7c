//! [`BufferPool`]: private staging memory, registered once; a [`Buffer`] is a slice while we hold it.

use crate::{AllocError, PageWish, Region};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A pool of equally long buffers. Owns the one region they are cut from, which peers must not be able to address;
/// clones share it. While a posted request refers to a buffer, the [`Buffer`] must be kept, and neither read nor
/// written, until the completion.
#[derive(Clone)]
pub struct BufferPool {
    inner: Rc<Inner>,
}

struct Inner {
    region: Region,
    piece_bytes: usize,
    free: RefCell<Vec<u32>>,
}

impl BufferPool {
    /// Creates a pool of `count` buffers of `piece_bytes` each, rounded up to whole cache lines (at least one). `alloc`
    /// gets the total in bytes and returns a writable region of at least that length: a fabric may need shared memory
    /// or huge pages. A pool of 0 buffers also needs memory for one.
    ///
    /// # Errors
    /// The error that `alloc` returns.
    ///
    /// # Panics
    /// If the region is shorter or not writable, or the total exceeds the address space.
    pub fn new(
        piece_bytes: usize,
        count: usize,
        alloc: impl FnOnce(usize) -> Result<Region, AllocError>,
    ) -> Result<BufferPool, AllocError> {
        let piece_bytes = crate::round_up(piece_bytes.max(1), crate::LINE_BYTES);
        let bytes = piece_bytes.checked_mul(count.max(1));
        let bytes = bytes.expect("a pool fits in the address space");
        let region = alloc(bytes)?;
        // Buffers are slices of the region without further checks.
        assert!(
            region.len() >= bytes && region.is_writable(),
            "a pool needs {bytes} writable bytes and got {} (writable: {})",
            region.len(),
            region.is_writable()
        );
        let free = (0..count as u32).rev().collect();
        Ok(BufferPool {
            inner: Rc::new(Inner {
                region,
                piece_bytes,
                free: RefCell::new(free),
            }),
        })
    }

    /// Creates a pool as [`new`](BufferPool::new) does, in private memory of 4 KiB pages.
    ///
    /// # Errors
    /// [`AllocError`] if the system does not provide the memory.
    ///
    /// # Panics
    /// If the total exceeds the address space.
    pub fn private(piece_bytes: usize, count: usize) -> Result<BufferPool, AllocError> {
        BufferPool::new(piece_bytes, count, |bytes| {
            Region::private(bytes, PageWish::Small)
        })
    }

    /// Takes a free buffer at its full length (the `piece_bytes` of [`new`](BufferPool::new), rounded up to cache
    /// lines), or returns `None` if all are in use. A buffer used before still holds its old bytes.
    pub fn take(&self) -> Option<Buffer> {
        let index = self.inner.free.borrow_mut().pop()?;
        Some(Buffer {
            pool: self.inner.clone(),
            index,
            len: self.inner.piece_bytes,
        })
    }

    /// Number of buffers that are free now.
    pub fn free_count(&self) -> usize {
        self.inner.free.borrow().len()
    }

    /// Whether `buffer` was taken from this pool or a clone of it.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        Rc::ptr_eq(&self.inner, &buffer.pool)
    }

    /// The memory of all buffers. Register it without remote rights: a peer must not be able to address it.
    pub fn region(&self) -> &Region {
        &self.inner.region
    }
}

/// A buffer of a [`BufferPool`], used as a slice of bytes; returns to the pool on drop.
pub struct Buffer {
    pool: Rc<Inner>,
    index: u32,
    len: usize,
}

impl Buffer {
    /// Offset of the buffer in the pool's region, in bytes.
    pub fn offset(&self) -> usize {
        self.index as usize * self.pool.piece_bytes
    }

    /// Sets the length of the slice to `len` bytes, shorter or longer than before.
    ///
    /// # Panics
    /// If `len` is more than the full length of the pool's buffers.
    pub fn truncate(&mut self, len: usize) {
        assert!(
            len <= self.pool.piece_bytes,
            "{len} bytes in a buffer of {}",
            self.pool.piece_bytes
        );
        self.len = len;
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let base = self.pool.region.ptr(self.offset());
        // SAFETY: the piece is ours alone while this Buffer exists outside a request: the pool's region is
        // registered with local rights only and requests own the Buffer they name until their completion.
        unsafe { std::slice::from_raw_parts(base, self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let base = self.pool.region.ptr(self.offset());
        // SAFETY: as for `deref`; `&mut self` makes the slice unique.
        unsafe { std::slice::from_raw_parts_mut(base, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(self.index);
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes at {})", self.len, self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_disjoint_and_come_back() {
        let pool = BufferPool::private(100, 3).expect("memory");
        let mut all: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 3);
        for (i, buffer) in all.iter_mut().enumerate() {
            buffer.fill(i as u8);
        }
        assert!(
            all.iter()
                .enumerate()
                .all(|(i, b)| b.iter().all(|&x| x == i as u8))
        );
        drop(all);
        assert_eq!(pool.free_count(), 3);
    }

    #[test]
    #[should_panic(expected = "a pool needs 8192 writable bytes and got 4096 (writable: true)")]
    fn a_region_that_is_too_short_is_refused() {
        let _ = BufferPool::new(4096, 2, |bytes| Region::private(bytes / 2, PageWish::Small));
    }

    #[test]
    #[should_panic(expected = "a pool fits in the address space")]
    fn a_pool_beyond_the_address_space_is_refused() {
        let _ = BufferPool::private(1 << 40, 1 << 40);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    #[should_panic(expected = "(writable: false)")]
    fn a_region_that_may_only_be_read_is_refused() {
        let _ = BufferPool::new(4096, 1, |bytes| {
            let ours = Region::shared(bytes, PageWish::Small)?;
            let fd = ours.share(true)?.expect("it is shared");
            Region::from_fd(fd, bytes, false)
        });
    }
}
