//! [`Places`]: allocates memory for objects, by [`Extents`].

use drover_base::Ns;
use drover_store::{Extent, Extents, ExtentsOptions};

/// Objects are whole lines at multiples of 64; extents have a granularity of 16 bytes. So one byte of an extent is
/// four bytes here.
const SCALE: usize = 4;

/// Objects released from quarantine per write; more than a write adds.
const RELEASED_PER_WRITE: usize = 4;

/// Allocator of the objects' memory.
pub(super) struct Places(Extents);

impl Places {
    /// An allocator of `bytes` bytes; retired memory is not reused for `grace`.
    pub(super) fn new(bytes: usize, grace: Ns) -> Places {
        let options = ExtentsOptions {
            grace,
            ..ExtentsOptions::for_bytes(bytes / SCALE)
        };
        Places(Extents::new(options))
    }

    /// Allocates `bytes` bytes, whole lines; returns their offset.
    pub(super) fn alloc(&mut self, bytes: usize) -> Option<u64> {
        let extent = self.0.alloc(bytes / SCALE)?;
        Some(extent.offset * SCALE as u64)
    }

    /// Bytes in use, without free and retired memory.
    pub(super) fn used_bytes(&self) -> usize {
        self.0.used_bytes() * SCALE
    }

    /// Retires an object that readers may know, into quarantine.
    pub(super) fn retire(&mut self, offset: u64, bytes: u32, now: Ns) {
        self.0.retire(extent(offset, bytes), now);
    }

    /// Frees an object that was never published.
    pub(super) fn free(&mut self, offset: u64, bytes: u32) {
        self.0.free(extent(offset, bytes));
    }

    /// Releases memory that has been in quarantine long enough at `now`.
    pub(super) fn release(&mut self, now: Ns) {
        self.0.release(now, RELEASED_PER_WRITE);
    }

    /// Releases the memory that has been in quarantine longest, before its time. Its readers will find another version
    /// or incarnation.
    pub(super) fn release_early(&mut self) -> bool {
        self.0.release_early()
    }
}

fn extent(offset: u64, bytes: u32) -> Extent {
    Extent {
        offset: offset / SCALE as u64,
        len: bytes / SCALE as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lie_on_lines_whatever_their_size() {
        let mut places = Places::new(8 << 20, Ns(0));
        for lines in [1, 2, 3, 5, 15, 16, 17, 63, 64, 65, 100, 1000, 17_000] {
            for _ in 0..3 {
                let offset = places.alloc(lines * 64).expect("space");
                assert!(offset.is_multiple_of(64), "{lines} lines at {offset}");
                assert!(offset as usize + lines * 64 <= 8 << 20);
            }
        }
    }
}
