//! Portable version without machine-specific instructions. Shared memory is accessed only by atomics on whole aligned
//! words, even for a single byte, because atomics of different sizes must not overlap. Private memory is read and
//! written directly: it may be a read-only slice, and its end need not be word-aligned.

use std::sync::atomic::{AtomicU64, Ordering};

/// Source of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    ptr: *const u8,
    /// Whether the memory has no concurrent writer.
    own: bool,
}

/// Memory of a mapping, which others may write meanwhile.
pub(crate) fn shared(ptr: *const u8) -> Source {
    Source { ptr, own: false }
}

/// Memory without concurrent writers.
pub(crate) fn own(ptr: *const u8) -> Source {
    Source { ptr, own: true }
}

impl Source {
    /// This source, `bytes` further.
    pub(crate) fn wrapping_add(self, bytes: usize) -> Source {
        Source {
            ptr: self.ptr.wrapping_add(bytes),
            own: self.own,
        }
    }

    /// # Safety
    /// One byte is readable, under the conditions of the constructor used.
    unsafe fn byte(self) -> u8 {
        if self.own {
            // SAFETY: readable, and no concurrent writer.
            return unsafe { self.ptr.read() };
        }
        // SAFETY: a byte of a mapping, which consists of whole words.
        let (word, at) = unsafe { word_of(self.ptr.cast_mut()) };
        word.load(Ordering::Relaxed).to_ne_bytes()[at]
    }

    /// 8 bytes, loaded as one word if they are aligned.
    ///
    /// # Safety
    /// As [`byte`](Source::byte), for 8 bytes.
    unsafe fn word(self) -> [u8; 8] {
        if self.own {
            // SAFETY: readable, and no concurrent writer.
            return unsafe { self.ptr.cast::<[u8; 8]>().read() };
        }
        // SAFETY: the first byte of those that the caller promises.
        if let (word, 0) = unsafe { word_of(self.ptr.cast_mut()) } {
            return word.load(Ordering::Relaxed).to_ne_bytes();
        }
        std::array::from_fn(|i| {
            // SAFETY: one of the 8 bytes.
            unsafe { self.wrapping_add(i).byte() }
        })
    }
}

/// Target of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    ptr: *mut u8,
    /// Whether the memory has no other user.
    own: bool,
}

/// Memory of a mapping, which others may use meanwhile.
pub(crate) fn shared_mut(ptr: *mut u8) -> Target {
    Target { ptr, own: false }
}

/// Memory without other users meanwhile.
pub(crate) fn own_mut(ptr: *mut u8) -> Target {
    Target { ptr, own: true }
}

impl Target {
    /// This target, `bytes` further.
    pub(crate) fn wrapping_add(self, bytes: usize) -> Target {
        Target {
            ptr: self.ptr.wrapping_add(bytes),
            own: self.own,
        }
    }

    /// # Safety
    /// One byte is writable, under the conditions of the constructor used.
    unsafe fn put_byte(self, byte: u8) {
        if self.own {
            // SAFETY: writable, and no other user.
            return unsafe { self.ptr.write(byte) };
        }
        // SAFETY: a byte of a mapping, which consists of whole words.
        let (word, at) = unsafe { word_of(self.ptr) };
        let with_byte = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            bytes[at] = byte;
            Some(u64::from_ne_bytes(bytes))
        };
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_byte);
    }

    /// Stores 8 bytes, as one word if they are aligned.
    ///
    /// # Safety
    /// As [`put_byte`](Target::put_byte), for 8 bytes.
    unsafe fn put_word(self, bytes: [u8; 8]) {
        if self.own {
            // SAFETY: writable, and no other user.
            return unsafe { self.ptr.cast::<[u8; 8]>().write(bytes) };
        }
        // SAFETY: the first byte of those that the caller promises.
        if let (word, 0) = unsafe { word_of(self.ptr) } {
            return word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        for (i, byte) in bytes.into_iter().enumerate() {
            // SAFETY: one of the 8 bytes.
            unsafe { self.wrapping_add(i).put_byte(byte) };
        }
    }
}

/// The aligned word that contains the byte at `ptr`, and the index of the byte in it.
///
/// # Safety
/// The word must be part of a mapping that lives as long as the reference is used. In a read-only mapping only loads
/// are allowed.
unsafe fn word_of<'a>(ptr: *mut u8) -> (&'a AtomicU64, usize) {
    let at = ptr.addr() & 7;
    // SAFETY: the caller's promise; aligned; all accesses are atomic.
    (unsafe { AtomicU64::from_ptr(ptr.wrapping_sub(at).cast()) }, at)
}

/// No portable prefetch exists.
pub(crate) fn prefetch(_addr: usize) {}

/// No portable prefetch exists.
pub(crate) fn prefetch_write(_addr: usize) {}

/// There is no instruction for CRC-32C.
#[inline(always)]
pub(crate) fn has_crc32c() -> bool {
    false
}

/// The state of a CRC-32C after `word`, from `state`.
#[inline]
pub(crate) fn crc32c_word(state: u64, word: u64) -> u64 {
    u64::from(!drover_base::crc32c_append(!(state as u32), &word.to_le_bytes()))
}

/// As [`crc32c_word`], for a byte.
#[inline]
pub(crate) fn crc32c_byte(state: u64, byte: u8) -> u64 {
    u64::from(!drover_base::crc32c_append(!(state as u32), &[byte]))
}

/// The 16 lowercase hexadecimal digits of `word` in ASCII, most significant first: eight digits per returned word, the
/// first in its lowest byte.
pub fn hex_digits(word: u64) -> [u64; 2] {
    [
        hex_digits_of_32((word >> 32) as u32),
        hex_digits_of_32(word as u32),
    ]
}

fn hex_digits_of_32(word: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut nibbles = u64::from(word);
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (nibbles + ONES * 6) >> 4 & ONES;
    (nibbles + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'9' - 1)).swap_bytes()
}

/// Nanoseconds of the monotonic clock, in place of a time-stamp counter.
pub fn timestamp() -> u64 {
    crate::native::monotonic_ns()
}

/// Copies `len` bytes. Bytes may be torn, but not words that are aligned on both sides and a multiple of 8 away from
/// the start; the copy itself orders nothing.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
pub(crate) unsafe fn bulk_copy(to: Target, from: Source, len: usize) {
    let words = len & !7;
    for at in (0..words).step_by(8) {
        // SAFETY: 8 bytes of the caller's range.
        let word = unsafe { from.wrapping_add(at).word() };
        // SAFETY: as above.
        unsafe { to.wrapping_add(at).put_word(word) };
    }
    for at in words..len {
        // SAFETY: a byte of the caller's range.
        let byte = unsafe { from.wrapping_add(at).byte() };
        // SAFETY: as above.
        unsafe { to.wrapping_add(at).put_byte(byte) };
    }
}

/// [`bulk_copy`] of whole words.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn copy_words(to: Target, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len) };
}

/// [`bulk_copy`] of at most 64 bytes.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn copy_few_words(to: Target, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len) };
}

/// [`bulk_copy`] of a cache line.
///
/// # Safety
/// As [`bulk_copy`], for 64 bytes.
pub(crate) unsafe fn copy_line(to: Target, from: Source) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, crate::LINE_BYTES) };
}

/// [`bulk_copy`] of 40 bytes.
///
/// # Safety
/// As [`bulk_copy`], for 40 bytes.
pub(crate) unsafe fn copy_40(to: Target, from: Source) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, 40) };
}

/// [`bulk_copy`] of `len & 7` bytes.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn copy_under_8(to: Target, from: Source, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { bulk_copy(to, from, len & 7) };
}

/// [`bulk_copy`] of a short length.
///
/// # Safety
/// As [`bulk_copy`].
pub(crate) unsafe fn small_copy(to: Target, from: Source, len: usize) {
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
    let word = |at| {
        // SAFETY: 8 bytes of the caller's range.
        let here = unsafe { shared.wrapping_add(at).word() };
        // SAFETY: as above.
        here == unsafe { own.wrapping_add(at).word() }
    };
    let byte = |at| {
        // SAFETY: a byte of the caller's range.
        let here = unsafe { shared.wrapping_add(at).byte() };
        // SAFETY: as above.
        here == unsafe { own.wrapping_add(at).byte() }
    };
    (0..words).step_by(8).all(word) && (words..len).all(byte)
}

/// Words at `line` whose upper 16 bits equal `high`: bit i of the result for word i.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that consist of whole aligned words, like a mapping.
    #[repr(align(64))]
    #[derive(Clone, PartialEq, Debug)]
    struct Words([u8; 96]);

    impl Words {
        fn at(&mut self, offset: usize) -> *mut u8 {
            self.0.as_mut_ptr().wrapping_add(offset)
        }
    }

    /// Every alignment of both sides, lengths around a word and a line.
    #[test]
    fn copies_and_comparisons_agree_with_slices() {
        let bytes = Words(std::array::from_fn(|i| (i as u8).wrapping_mul(41) | 1));
        for (from, to, len) in shapes() {
            let mut want = Words([0; 96]);
            want.0[to..to + len].copy_from_slice(&bytes.0[from..from + len]);
            for (source, target) in [
                (
                    own as fn(*const u8) -> Source,
                    shared_mut as fn(*mut u8) -> Target,
                ),
                (shared, own_mut),
                (shared, shared_mut),
            ] {
                let (mut here, mut there) = (bytes.clone(), Words([0; 96]));
                // SAFETY: both ranges are inside their arrays of whole words, which only this test uses.
                unsafe { bulk_copy(target(there.at(to)), source(here.at(from)), len) };
                assert_eq!(there, want, "{len} bytes from {from} to {to}");
            }
            let mut here = bytes.clone();
            let other = &bytes.0[from..from + len];
            // SAFETY: as above.
            assert!(unsafe { equal(here.at(from), other.as_ptr(), len) });
            if len > 0 {
                here.0[from + len - 1] ^= 1;
                // SAFETY: as above.
                assert!(!unsafe { equal(here.at(from), other.as_ptr(), len) });
            }
        }
    }

    fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
        const LENS: &[usize] = if cfg!(miri) {
            &[9]
        } else {
            &[0, 1, 7, 8, 9, 16, 31, 63, 64, 80]
        };
        (0..8).flat_map(|from| (0..8).flat_map(move |to| LENS.iter().map(move |&len| (from, to, len))))
    }

    /// Compares with this machine's own instructions, where it has any.
    #[test]
    fn high_halves_match_as_the_machine_matches_them() {
        let mut line = Words([0xff; 96]);
        for (i, word) in line.0.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&((i as u64 * 0x5555) << 48 | 0xffff).to_le_bytes());
        }
        for high in [0, 1, 0x5555, 0xaaaa, 0xffff] {
            // SAFETY: a live line of our own, aligned.
            let here = unsafe { match_high16(line.at(0), high) };
            // SAFETY: as above.
            let there = unsafe { crate::arch::match_high16(line.at(0), high) };
            assert_eq!(here, there, "{high:#x}");
        }
    }
}
