//! [`MaskedRegion`]: a power-of-two range whose offsets are masked into place, for indexes and logs.

use crate::{AllocError, LINE_BYTES, PageWish, Region, arch};
use drover_base::{Cpu, Line};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above this many bytes a copy goes through the string instruction instead of words.
const BULK_BYTES: usize = 512;

/// The first 2^n bytes of a [`Region`], addressed by *virtual* offsets: every offset is taken modulo the
/// length and rounded down to a word. So no access can be outside and none pays for a check, which is what
/// a circular log and a bucket table want anyway. All accesses are Relaxed and cost what plain ones cost;
/// words are little-endian in memory whatever the machine.
#[derive(Clone)]
pub struct MaskedRegion {
    /// Keeps the mapping alive.
    region: Region,
    base: NonNull<u8>,
    /// Length - 8: clears the bits above the length and the three below a word.
    mask: usize,
}

// SAFETY: as for Region: an address range that `region` keeps mapped, touched only by atomics and opaque copies.
unsafe impl Send for MaskedRegion {}
// SAFETY: as above.
unsafe impl Sync for MaskedRegion {}

impl MaskedRegion {
    /// The first `bytes` of `region`.
    ///
    /// # Panics
    /// If `bytes` is not a power of two of at least one line, or does not fit, or the region is read-only.
    pub fn new(region: Region, bytes: usize) -> MaskedRegion {
        assert!(
            bytes.is_power_of_two() && bytes >= LINE_BYTES,
            "{bytes} is not a power of two of at least a line"
        );
        assert!(
            region.contains(0, bytes),
            "{bytes} bytes of a region of {}",
            region.len()
        );
        assert!(region.is_writable(), "a masked view of a read-only region");
        let base = NonNull::new(region.ptr(0)).expect("a mapping is never at null");
        MaskedRegion {
            region,
            base,
            mask: bytes - 8,
        }
    }

    /// Private zeroed memory. Errors: [`AllocError`]. Panics as [`new`](MaskedRegion::new).
    pub fn private(bytes: usize, wish: PageWish) -> Result<MaskedRegion, AllocError> {
        Ok(MaskedRegion::new(Region::private(bytes, wish)?, bytes))
    }

    /// Bytes, a power of two.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.mask + 8
    }

    /// The memory behind it.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The line of `offset`, for [`Cpu::touch`] and [`Cpu::prefetch`].
    #[inline(always)]
    pub fn line(&self, offset: u64) -> Line {
        Line(self.ptr(offset) as usize)
    }

    /// Asks for the line of `offset`.
    #[inline(always)]
    pub fn prefetch<C: Cpu>(&self, cpu: &C, offset: u64) {
        cpu.prefetch(self.line(offset));
    }

    /// The word at `offset`.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Relaxed))
    }

    /// Stores the word at `offset`.
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64) {
        self.word(offset).store(value.to_le(), Ordering::Relaxed);
    }

    /// Which of the 8 words of the line at `offset` have `high` as their upper 16 bits: bit i for word i.
    /// About 14 instructions and no branch.
    #[inline(always)]
    pub fn match_high16(&self, offset: u64, high: u16) -> u32 {
        let line = self
            .base
            .as_ptr()
            .wrapping_add(offset as usize & self.mask & !(LINE_BYTES - 1));
        // SAFETY: the masked offset is a multiple of 64 below a length that is one too, so the line is inside.
        unsafe { arch::match_high16(line, high) }
    }

    /// Copies `bytes` to `offset`, a multiple of 8, and zeroes what is left of the last word.
    ///
    /// # Panics
    /// If the words would run over the end of the range.
    #[inline(always)]
    pub fn copy_in_padded(&self, offset: u64, bytes: &[u8]) {
        let start = self.contiguous(offset, bytes.len());
        if bytes.len() >= BULK_BYTES {
            return self.copy_in_bulk(start, bytes);
        }
        self.copy_in_words(start, bytes);
    }

    #[inline(always)]
    fn copy_in_words(&self, start: usize, bytes: &[u8]) {
        let mut at = start as u64;
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.store(at, u64::from_le_bytes(word.try_into().expect("chunk of 8")));
            at += 8;
        }
        let tail = words.remainder();
        if !tail.is_empty() {
            self.store(at, partial_word(tail));
        }
    }

    #[inline(never)]
    fn copy_in_bulk(&self, start: usize, bytes: &[u8]) {
        let whole = bytes.len() & !7;
        // SAFETY: `contiguous` checked that [start, start + len) is inside; a slice cannot overlap a Region.
        unsafe { arch::bulk_copy(self.base.as_ptr().wrapping_add(start), bytes.as_ptr(), whole) };
        self.copy_in_words(start + whole, &bytes[whole..]);
    }

    /// Copies out of `offset`, a multiple of 8. Bytes written meanwhile may be torn at word granularity.
    ///
    /// # Panics
    /// If the words would run over the end of the range.
    #[inline(always)]
    pub fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let start = self.contiguous(offset, out.len());
        if out.len() >= BULK_BYTES {
            return self.copy_out_bulk(start, out);
        }
        let mut at = start as u64;
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.load(at).to_le_bytes());
            at += 8;
        }
        let tail = words.into_remainder();
        if !tail.is_empty() {
            let word = self.load(at).to_le_bytes();
            tail.copy_from_slice(&word[..tail.len()]);
        }
    }

    #[inline(never)]
    fn copy_out_bulk(&self, start: usize, out: &mut [u8]) {
        // SAFETY: `contiguous` checked that [start, start + len) is inside; a slice cannot overlap a Region.
        unsafe {
            arch::bulk_copy(
                out.as_mut_ptr(),
                self.base.as_ptr().wrapping_add(start),
                out.len(),
            )
        };
    }

    /// True if the bytes at `offset`, a multiple of 8 and padded with zeros to a whole word as
    /// [`copy_in_padded`](MaskedRegion::copy_in_padded) leaves them, are `bytes`. Never panics: a range that
    /// runs over the end goes on at the start.
    #[inline(always)]
    pub fn equals_padded(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = offset;
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            if self.load(at) != u64::from_le_bytes(word.try_into().expect("chunk of 8")) {
                return false;
            }
            at += 8;
        }
        let tail = words.remainder();
        tail.is_empty() || self.load(at) == partial_word(tail)
    }

    /// `offset` as a place in memory from which `len` bytes, rounded up to words, are in one piece.
    #[inline(always)]
    fn contiguous(&self, offset: u64, len: usize) -> usize {
        let start = offset as usize & self.mask;
        assert!(len <= self.len() - start, "a copy runs over the end of the range");
        start
    }

    #[inline(always)]
    fn ptr(&self, offset: u64) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset as usize & self.mask)
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: the masked offset is a multiple of 8 and at most length - 8, `new` checked that the length is
        // mapped and `region` keeps it so; the base is page-aligned; all accesses are atomic or opaque copies.
        unsafe { AtomicU64::from_ptr(self.ptr(offset).cast()) }
    }
}

impl std::fmt::Debug for MaskedRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "MaskedRegion({} bytes, {})",
            self.len(),
            self.region.page_kind()
        )
    }
}

/// Fewer than 8 bytes as the low end of a word.
#[inline(always)]
fn partial_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(bytes: usize) -> MaskedRegion {
        MaskedRegion::private(bytes, PageWish::Small).expect("memory")
    }

    #[test]
    fn every_offset_is_inside() {
        let m = region(128);
        m.store(u64::MAX, 5);
        assert_eq!((m.load(120), m.load(127), m.load(120 + 128)), (5, 5, 5));
        m.region().store_u64(128, 9, Ordering::Relaxed);
        assert_eq!(m.load(128), 0, "what lies behind the range is not part of it");
    }

    #[test]
    #[should_panic(expected = "runs over the end")]
    fn a_copy_stays_in_one_piece() {
        region(128).copy_in_padded(120, &[1; 9]);
    }

    proptest! {
        #[test]
        fn high_halves_match_like_a_loop(picks in prop::array::uniform8(0usize..5), pick in 0usize..5, base in 0u64..2) {
            const HIGHS: [u16; 5] = [0, 1, 0x7fff, 0x8000, 0xffff];
            let m = region(128);
            for (i, &p) in picks.iter().enumerate() {
                m.store(base * 64 + 8 * i as u64, (u64::from(HIGHS[p]) << 48) | 0xffff_ffff);
            }
            let want = (0..8).filter(|&i| picks[i] == pick).map(|i| 1 << i).sum::<u32>();
            prop_assert_eq!(m.match_high16(base * 64, HIGHS[pick]), want);
        }

        #[test]
        fn padded_copies_round_trip(offset in 0u64..20, len in 0usize..700, seed in any::<u8>()) {
            let m = region(1024);
            for at in (0..1024).step_by(8) {
                m.store(at, u64::MAX);
            }
            let bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(37) ^ seed).collect();
            m.copy_in_padded(offset * 8, &bytes);
            let mut out = vec![0; len];
            m.copy_out(offset * 8, &mut out);
            prop_assert_eq!(&out, &bytes);
            prop_assert!(m.equals_padded(offset * 8, &bytes));
            let mut padded = vec![9; crate::round_up(len, 8)];
            m.copy_out(offset * 8, &mut padded);
            prop_assert!(padded[len..].iter().all(|&b| b == 0));
            prop_assert_eq!(m.load(offset * 8 + padded.len() as u64), u64::MAX);
            if len > 0 {
                let mut other = bytes;
                other[len - 1] ^= 1;
                prop_assert!(!m.equals_padded(offset * 8, &other));
            }
        }
    }
}
