//! [`Places`]: lines for objects, out of [`Extents`].

use drover_base::Ns;
use drover_store::{Extent, Extents, ExtentsOptions};

/// Objects are whole lines at multiples of 64, extents steps of 16 bytes: four bytes here are one there.
const SCALE: usize = 4;

/// Objects let out of quarantine for every write: more than a write puts in.
const RELEASED_PER_WRITE: usize = 4;

/// Where objects lie.
pub(super) struct Places(Extents);

impl Places {
    /// `bytes` of memory; what is given up is not used again for `grace`.
    pub(super) fn new(bytes: usize, grace: Ns) -> Places {
        let options = ExtentsOptions {
            grace,
            ..ExtentsOptions::for_bytes(bytes / SCALE)
        };
        Places(Extents::new(options))
    }

    /// An offset for `bytes`, whole lines.
    pub(super) fn alloc(&mut self, bytes: usize) -> Option<u64> {
        let extent = self.0.alloc(bytes / SCALE)?;
        Some(extent.offset * SCALE as u64)
    }

    /// Bytes of what is neither free nor given up.
    pub(super) fn used_bytes(&self) -> usize {
        self.0.used_bytes() * SCALE
    }

    /// Gives a place up that readers may know of.
    pub(super) fn retire(&mut self, offset: u64, bytes: u32, now: Ns) {
        self.0.retire(extent(offset, bytes), now);
    }

    /// Gives a place back that no reader has heard of.
    pub(super) fn free(&mut self, offset: u64, bytes: u32) {
        self.0.free(extent(offset, bytes));
    }

    /// Lets go what was given up long enough before `now`.
    pub(super) fn release(&mut self, now: Ns) {
        self.0.release(now, RELEASED_PER_WRITE);
    }

    /// Lets the place go that has waited longest: its readers will find another version there, or another incarnation.
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
