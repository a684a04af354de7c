//! [`TableMemory`]: bytes that one owner writes while others may read them.

use drover_mem::Region;
use std::sync::atomic::{Ordering, fence};

/// Memory of a table: registered memory in production, a vector or a recorder of stores in tests. Offsets outside are a
/// bug and panic.
pub trait TableMemory {
    /// Length of the memory in bytes.
    fn bytes(&self) -> usize;

    /// Copies the bytes at `offset` into `out`. Only the owner calls it, so there is no concurrent writer.
    fn load(&self, offset: usize, out: &mut [u8]);

    /// Copies `bytes` to `offset`. A reader that sees any of them also sees all earlier stores.
    fn store(&mut self, offset: usize, bytes: &[u8]);
}

impl TableMemory for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[offset..offset + out.len()]);
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        self[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl TableMemory for Region {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        self.copy_short_out(offset, out);
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        // Release: earlier stores, in particular of records, become visible before any part of this one.
        fence(Ordering::Release);
        self.copy_in_release(offset, bytes);
    }
}
