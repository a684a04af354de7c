//! [`TableMemory`]: bytes that one owner writes and others may read while he does.

use drover_mem::Region;
use std::sync::atomic::{Ordering, fence};

/// Where a table lies: registered memory in production, a vector in tests, or something that watches every store.
/// Offsets outside are a bug and panic.
pub trait TableMemory {
    /// Bytes.
    fn bytes(&self) -> usize;

    /// Copies out of `offset`: only the owner calls this, so nothing changes meanwhile.
    fn load(&self, offset: usize, out: &mut [u8]);

    /// Copies to `offset`. Whoever sees any of it sees whatever was stored before.
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
        // Release: earlier stores, of records above all, are visible before any of this one.
        fence(Ordering::Release);
        self.copy_in_release(offset, bytes);
    }
}
