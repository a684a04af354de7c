//! [`CountingAlloc`]: an allocator that lets tests check that a hot path does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Initialised by a constant and without a destructor, so that reading it allocates nothing and it can be read at
    /// any time.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter per thread. A test program makes it its `#[global_allocator]`; a test looks at
/// [`count`](CountingAlloc::count) before and after. Tests that run in other threads meanwhile do not disturb it.
#[derive(Debug, Default)]
pub struct CountingAlloc;

impl CountingAlloc {
    /// Creates a handle to the allocator. All handles share the counters, one per thread.
    pub const fn new() -> CountingAlloc {
        CountingAlloc
    }

    /// Number of allocations and reallocations (not of bytes or deallocations) that the calling thread has made through
    /// this allocator since the thread started.
    pub fn count(&self) -> u64 {
        COUNT.get()
    }

    fn note(&self) {
        COUNT.set(COUNT.get() + 1);
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
        let before = alloc.count();
        let layout = Layout::new::<[u64; 4]>();
        // SAFETY: the layout is not empty.
        let ptr = unsafe { alloc.alloc(layout) };
        assert!(!ptr.is_null());
        // SAFETY: allocated above with this layout.
        let ptr = unsafe { alloc.realloc(ptr, layout, 64) };
        // SAFETY: reallocated above to 64 bytes of the same alignment.
        unsafe { alloc.dealloc(ptr, Layout::from_size_align(64, 8).expect("layout")) };
        assert_eq!(alloc.count() - before, 2);
    }

    #[test]
    fn other_threads_are_not_counted() {
        let alloc = CountingAlloc::new();
        let before = alloc.count();
        let of_the_other = std::thread::spawn(|| {
            let layout = Layout::new::<u64>();
            // SAFETY: the layout is not empty.
            let ptr = unsafe { CountingAlloc::new().alloc(layout) };
            // SAFETY: allocated above with this layout.
            unsafe { CountingAlloc::new().dealloc(ptr, layout) };
            CountingAlloc::new().count()
        });
        assert_eq!(of_the_other.join().expect("no panic"), 1);
        assert_eq!(alloc.count(), before);
    }
}
