//! Memory accesses of a device: by words where both sides are aligned, never through a reference.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Copies `len` bytes from an address of this process.
pub fn load(addr: usize, len: usize) -> Vec<u8> {
    let byte = |n| {
        let at = (addr + n) as *mut u8;
        // SAFETY: the caller checked that a registration, or an inline payload, covers it.
        unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Acquire)
    };
    (0..len).map(byte).collect()
}

/// Writes `bytes` to an address of this process, whole words as words.
pub fn store(addr: usize, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let at = addr + done;
        if at.is_multiple_of(8)
            && let Some(word) = bytes[done..].first_chunk()
        {
            word_at(at).store(u64::from_ne_bytes(*word), Ordering::Release);
            done += 8;
            continue;
        }
        // SAFETY: the caller checked that a registration covers it.
        unsafe { AtomicU8::from_ptr(at as *mut u8) }.store(bytes[done], Ordering::Release);
        done += 1;
    }
}

/// The word at an address, a multiple of 8.
pub fn word_at<'a>(addr: usize) -> &'a AtomicU64 {
    // SAFETY: the caller checked that a registration covers it; all accesses are atomic.
    unsafe { AtomicU64::from_ptr(addr as *mut u64) }
}
