//! The same without instructions of a machine's own. Memory that others may write meanwhile is read and written by
//! atomics, by whole words where they are aligned; memory of our own is read as it is, because it may be a slice
//! that nobody may write, and an atomic's reference could.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Where a copy reads.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    ptr: *const u8,
    /// Nobody writes there meanwhile.
    own: bool,
}

/// Memory that others may write meanwhile.
pub(crate) fn shared(ptr: *const u8) -> Source {
    Source { ptr, own: false }
}

/// Memory that nobody writes meanwhile.
pub(crate) fn own(ptr: *const u8) -> Source {
    Source { ptr, own: true }
}

impl Source {
    /// The same, `bytes` further.
    pub(crate) fn wrapping_add(self, bytes: usize) -> Source {
        Source {
            ptr: self.ptr.wrapping_add(bytes),
            own: self.own,
        }
    }

    /// # Safety
    /// Readable for a byte, by what its maker said of it.
    unsafe fn byte(self) -> u8 {
        if self.own {
            // SAFETY: readable, and nobody writes there.
            return unsafe { self.ptr.read() };
        }
        // SAFETY: a byte of memory that is shared, hence mapped for writing; all accesses are atomic.
        unsafe { AtomicU8::from_ptr(self.ptr.cast_mut()) }.load(Ordering::Relaxed)
    }

    /// 8 bytes; in one piece if they are aligned.
    ///
    /// # Safety
    /// As [`byte`](Source::byte), for 8 bytes.
    unsafe fn word(self) -> [u8; 8] {
        if self.own {
            // SAFETY: readable, and nobody writes there.
            return unsafe { self.ptr.cast::<[u8; 8]>().read() };
        }
        if is_aligned(self.ptr) {
            // SAFETY: as for `byte`; aligned.
            let word = unsafe { AtomicU64::from_ptr(self.ptr.cast_mut().cast()) };
            return word.load(Ordering::Relaxed).to_ne_bytes();
        }
        std::array::from_fn(|i| {
            // SAFETY: one of the 8 bytes.
            unsafe { self.wrapping_add(i).byte() }
        })
    }
}

/// Nothing to ask: the caches do as they please.
pub(crate) fn prefetch(_addr: usize) {}

/// As [`prefetch`].
pub(crate) fn prefetch_write(_addr: usize) {}

/// Nanoseconds of the monotonic clock.
pub fn timestamp() -> u64 {
    crate::native::monotonic_ns()
}

/// Copies `len` bytes. Bytes may be torn, but not words that are aligned on both sides and a multiple of 8 away
/// from the start; nothing is ordered except by what comes before and after.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
pub(crate) unsafe fn bulk_copy(to: *mut u8, from: Source, len: usize) {
    let words = len & !7;
    for at in (0..words).step_by(8) {
        // SAFETY: 8 bytes of the caller's range.
        let word = unsafe { from.wrapping_add(at).word() };
        // SAFETY: as above.
        unsafe { put_word(to.wrapping_add(at), word) };
    }
    for at in words..len {
        // SAFETY: a byte of the caller's range.
        let byte = unsafe { from.wrapping_add(at).byte() };
        // SAFETY: as above.
        unsafe { put_byte(to.wrapping_add(at), byte) };
    }
}

/// [`bulk_copy`] of whole words.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn copy_words(to: *mut u8, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len) };
}

/// [`bulk_copy`] of a cache line.
///
/// # Safety
/// As [`bulk_copy`], for 64 bytes.
pub(crate) unsafe fn copy_line(to: *mut u8, from: Source) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, crate::LINE_BYTES) };
}

/// [`bulk_copy`] of `len & 7` bytes.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn copy_under_8(to: *mut u8, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len & 7) };
}

/// [`bulk_copy`] of a short length.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn small_copy(to: *mut u8, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len) };
}

/// Whether `len` bytes at `shared` are those at `own`.
///
/// # Safety
/// Both readable for `len` bytes. Concurrent writers are allowed at `shared`.
pub(crate) unsafe fn equal(shared: *const u8, own: *const u8, len: usize) -> bool {
    let (shared, own) = (self::shared(shared), self::own(own));
    let words = len & !7;
    // SAFETY: 8 bytes of the caller's ranges.
    let word = |at| unsafe { shared.wrapping_add(at).word() == own.wrapping_add(at).word() };
    // SAFETY: a byte of the caller's ranges.
    let byte = |at| unsafe { shared.wrapping_add(at).byte() == own.wrapping_add(at).byte() };
    (0..words).step_by(8).all(word) && (words..len).all(byte)
}

/// Which of the 8 words at `line` have `high` as their upper 16 bits: bit i for word i.
///
/// # Safety
/// `line` must be aligned to 64 and readable for 64 bytes during the call. Concurrent writers are allowed.
pub(crate) unsafe fn match_high16(line: *const u8, high: u16) -> u32 {
    let matches = |i: usize| {
        // SAFETY: word i of a line that the caller promises.
        let word = u64::from_le_bytes(unsafe { shared(line).wrapping_add(8 * i).word() });
        u32::from((word >> 48) as u16 == high) << i
    };
    (0..8).map(matches).sum()
}

/// # Safety
/// `to` must be writable for a byte.
unsafe fn put_byte(to: *mut u8, byte: u8) {
    // SAFETY: the caller's promise; all accesses are atomic.
    unsafe { AtomicU8::from_ptr(to) }.store(byte, Ordering::Relaxed);
}

/// In one piece if `to` is aligned.
///
/// # Safety
/// `to` must be writable for 8 bytes.
unsafe fn put_word(to: *mut u8, word: [u8; 8]) {
    if is_aligned(to) {
        // SAFETY: the caller's promise; aligned; all accesses are atomic.
        return unsafe { AtomicU64::from_ptr(to.cast()) }.store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
    for (i, byte) in word.into_iter().enumerate() {
        // SAFETY: one of the 8 bytes.
        unsafe { put_byte(to.wrapping_add(i), byte) };
    }
}

fn is_aligned(ptr: *const u8) -> bool {
    ptr.cast::<AtomicU64>().is_aligned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every alignment of both sides, lengths around a word and a line.
    #[test]
    fn copies_and_comparisons_agree_with_slices() {
        let bytes: [u8; 96] = std::array::from_fn(|i| (i as u8).wrapping_mul(41) | 1);
        for (from, to, len) in shapes() {
            for source in [shared, own] {
                let (mut there, mut want) = ([0; 96], [0; 96]);
                let mut here = bytes;
                // SAFETY: both ranges are inside their arrays, and no other thread knows them.
                unsafe {
                    bulk_copy(
                        there.as_mut_ptr().wrapping_add(to),
                        source(here.as_mut_ptr().wrapping_add(from)),
                        len,
                    )
                };
                want[to..to + len].copy_from_slice(&bytes[from..from + len]);
                assert_eq!(there, want, "{len} bytes from {from} to {to}");
            }
            let mut here = bytes;
            let (here, other) = (here.as_mut_ptr().wrapping_add(from), &bytes[from..from + len]);
            // SAFETY: as above.
            assert!(unsafe { equal(here, other.as_ptr(), len) });
            if let Some(last) = len.checked_sub(1) {
                // SAFETY: the last byte of the range.
                unsafe { *here.wrapping_add(last) ^= 1 };
                // SAFETY: as above.
                assert!(!unsafe { equal(here, other.as_ptr(), len) });
            }
        }
    }

    fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
        const LENS: &[usize] = if cfg!(miri) {
            &[0, 9]
        } else {
            &[0, 1, 7, 8, 9, 16, 31, 63, 64, 80]
        };
        (0..8).flat_map(|from| (0..8).flat_map(move |to| LENS.iter().map(move |&len| (from, to, len))))
    }

    /// The same words through the instructions of this machine.
    #[test]
    fn high_halves_match_as_the_machine_matches_them() {
        #[repr(align(64))]
        struct Line([u64; 8]);
        let mut line = Line(std::array::from_fn(|i| (i as u64 * 0x5555) << 48 | 0xffff));
        let at = line.0.as_mut_ptr().cast::<u8>().cast_const();
        for high in [0, 1, 0x5555, 0xaaaa, 0xffff] {
            // SAFETY: a live line of our own, aligned.
            let (here, there) = unsafe { (match_high16(at, high), crate::arch::match_high16(at, high)) };
            assert_eq!(here, there, "{high:#x}");
        }
    }
}
