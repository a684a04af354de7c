//! [`CountingAlloc`]: an allocator for tests that a hot path does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator with a counter. A test makes it its `#[global_allocator]` and compares
/// [`count`](CountingAlloc::count) before and after.
#[derive(Debug, Default)]
pub struct CountingAlloc {
    /// Relaxed: a statistic.
    count: AtomicU64,
}

impl CountingAlloc {
    /// A counter at zero.
    pub const fn new() -> CountingAlloc {
        CountingAlloc {
            count: AtomicU64::new(0),
        }
    }

    /// Allocations and reallocations so far, of all threads.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn note(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator, which fulfils the contract.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller fulfils `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller fulfils `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.note();
        // SAFETY: the caller fulfils `realloc`'s contract, and `ptr` came from the system's allocator.
        unsafe { System.realloc(ptr, layout, bytes) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts() {
        let alloc = CountingAlloc::new();
        let layout = Layout::new::<[u64; 4]>();
        // SAFETY: the layout is not empty.
        let ptr = unsafe { alloc.alloc(layout) };
        assert!(!ptr.is_null());
        // SAFETY: allocated above with this layout.
        let ptr = unsafe { alloc.realloc(ptr, layout, 64) };
        // SAFETY: reallocated above to 64 bytes of the same alignment.
        unsafe { alloc.dealloc(ptr, Layout::from_size_align(64, 8).expect("layout")) };
        assert_eq!(alloc.count(), 2);
    }
}
