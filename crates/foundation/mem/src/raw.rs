//! [`RawRegion`]: a [`Region`] in a register, for the loops of fabrics.

use crate::region::copy;
use crate::{LINE_BYTES, Region, arch};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Copies of more bytes use the string instruction instead of words.
const WORDS_MAX: usize = 512;

/// The address of a [`Region`], without checks. It is a copy: through a reference to the `Region` the compiler would have
/// to assume that each store changes the address, and load it again.
#[derive(Clone, Copy, Debug)]
pub struct RawRegion<'a> {
    base: NonNull<u8>,
    region: &'a Region,
}

impl<'a> RawRegion<'a> {
    pub(crate) fn new(base: NonNull<u8>, region: &'a Region) -> RawRegion<'a> {
        RawRegion { base, region }
    }

    /// The region itself.
    #[inline(always)]
    pub fn region(self) -> &'a Region {
        self.region
    }

    #[inline(always)]
    fn ptr(self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The word at `offset`.
    ///
    /// # Safety
    /// `offset` is a multiple of 8, and the word is inside the region, which is writable if the word is stored to.
    #[inline(always)]
    pub unsafe fn word(self, offset: usize) -> &'a AtomicU64 {
        debug_assert!(offset & 7 == 0 && self.region.contains(offset, 8));
        // SAFETY: inside and aligned (the base is page-aligned), says the caller; `region` keeps it mapped.
        unsafe { AtomicU64::from_ptr(self.ptr(offset).cast()) }
    }

    /// Prefetches the cache line that contains `offset`. Harmless outside the region.
    #[inline(always)]
    pub fn prefetch_read(self, offset: usize) {
        arch::prefetch(self.ptr(offset) as usize);
    }

    /// Prefetches the cache line that contains `offset` in order to write it soon. Harmless outside the region.
    #[inline(always)]
    pub fn prefetch_write(self, offset: usize) {
        arch::prefetch_write(self.ptr(offset) as usize);
    }

    /// As [`Region::copy_in_release`], but relies on the caller's check of the range.
    ///
    /// # Safety
    /// `[offset, offset + bytes.len())` is inside this region, which is writable.
    #[inline(always)]
    pub unsafe fn copy_in_release(self, offset: usize, bytes: &[u8]) {
        debug_assert!(self.region.contains(offset, bytes.len()) && self.region.is_writable());
        let (len, end) = (bytes.len(), offset.wrapping_add(bytes.len()));
        let (body, last) = match bytes.split_last_chunk::<8>() {
            Some(parts) if (len | end) & 7 == 0 && len <= LINE_BYTES + 8 => parts,
            // SAFETY: the caller's promise.
            _ => return unsafe { self.copy_in_release_long(offset, bytes) },
        };
        let (to, from) = (arch::shared_mut(self.ptr(offset)), arch::own(body.as_ptr()));
        // By words, because loads of words forward from the stores that have just built `bytes`.
        // SAFETY: the caller's promise; `bytes` is a live slice that cannot overlap a Region.
        unsafe { arch::copy_few_words(to, from, body.len()) };
        // SAFETY: the last word of the range, which ends at a multiple of 8.
        unsafe { self.publish(end - 8, last) };
    }

    /// As [`copy_in_release`](RawRegion::copy_in_release), for lengths that it does not treat itself.
    ///
    /// # Safety
    /// As [`copy_in_release`](RawRegion::copy_in_release).
    #[inline(never)]
    unsafe fn copy_in_release_long(self, offset: usize, bytes: &[u8]) {
        let (len, end) = (bytes.len(), offset.wrapping_add(bytes.len()));
        let (body, last) = match bytes.split_last_chunk::<8>() {
            Some(parts) if (len | end) & 7 == 0 && len <= WORDS_MAX => parts,
            _ => return self.region.copy_in_release_odd(offset, bytes),
        };
        let (to, from) = (arch::shared_mut(self.ptr(offset)), arch::own(body.as_ptr()));
        // SAFETY: the caller's promise; `bytes` is a live slice that cannot overlap a Region.
        unsafe { arch::copy_words(to, from, body.len()) };
        // SAFETY: the last word of the range, which ends at a multiple of 8.
        unsafe { self.publish(end - 8, last) };
    }

    /// Stores the last word of a range.
    ///
    /// # Safety
    /// As [`word`](RawRegion::word).
    #[inline(always)]
    unsafe fn publish(self, offset: usize, last: &[u8; 8]) {
        // SAFETY: the caller's promise.
        let word = unsafe { self.word(offset) };
        // Release: publishes the body; pairs with the Acquire load of the thread that polls the last word.
        word.store(u64::from_ne_bytes(*last), Ordering::Release);
    }

    /// As [`Region::copy_in`], but relies on the caller's check of the range, and may split words: for memory that
    /// readers access only after a notification.
    ///
    /// # Safety
    /// `[offset, offset + bytes.len())` is inside this region, which is writable.
    #[inline(always)]
    pub unsafe fn copy_short_in(self, offset: usize, bytes: &[u8]) {
        debug_assert!(self.region.contains(offset, bytes.len()) && self.region.is_writable());
        // SAFETY: the caller's promise; the mapping outlives the call, and a slice cannot overlap a Region.
        unsafe {
            arch::small_copy(
                arch::shared_mut(self.ptr(offset)),
                arch::own(bytes.as_ptr()),
                bytes.len(),
            )
        };
    }

    /// As [`copy_short_in`](RawRegion::copy_short_in), for 40 bytes: six instructions.
    ///
    /// # Safety
    /// `[offset, offset + 40)` is inside this region, which is writable.
    #[inline(always)]
    pub unsafe fn copy_40_in(self, offset: usize, bytes: &[u8; 40]) {
        debug_assert!(self.region.contains(offset, 40) && self.region.is_writable());
        // SAFETY: the caller's promise; the mapping outlives the call, and an array cannot overlap a Region.
        unsafe { arch::copy_40(arch::shared_mut(self.ptr(offset)), arch::own(bytes.as_ptr())) };
    }

    /// As [`Region::copy_to`], but relies on the caller's check of both ranges.
    ///
    /// # Safety
    /// `[offset, offset + len)` is inside this region, `[to_offset, to_offset + len)` inside `to`, which is writable.
    #[inline(always)]
    pub unsafe fn copy_to(self, offset: usize, to: RawRegion<'_>, to_offset: usize, len: usize) {
        debug_assert!(self.region.contains(offset, len));
        debug_assert!(to.region.contains(to_offset, len) && to.region.is_writable());
        let (from, target) = (
            arch::shared(self.ptr(offset)),
            arch::shared_mut(to.ptr(to_offset)),
        );
        // SAFETY: the caller's promise; both mappings outlive the call.
        unsafe { copy(target, from, len, to_offset) };
    }

    /// As [`Region::copy_to_release`], but relies on the caller's check of both ranges.
    ///
    /// # Safety
    /// As [`copy_to`](RawRegion::copy_to).
    #[inline(always)]
    pub unsafe fn copy_to_release(self, offset: usize, to: RawRegion<'_>, to_offset: usize, len: usize) {
        let end = to_offset.wrapping_add(len);
        let last = (if end & 7 == 0 { 8 } else { end & 7 }).min(len);
        let body = len - last;
        // SAFETY: the caller's promise, for all but the last bytes.
        unsafe { self.copy_to(offset, to, to_offset, body) };
        fence(Ordering::Release);
        let from = arch::shared(self.ptr(offset + body));
        let target = arch::shared_mut(to.ptr(to_offset + body));
        if last == 8 {
            // SAFETY: the last word of the range, which ends at its boundary.
            return unsafe { arch::copy_words(target, from, 8) };
        }
        // SAFETY: the last bytes of the range, fewer than 8.
        unsafe { arch::copy_under_8(target, from, last) };
    }

    /// As [`Region::copy_to`], but relies on the caller's check of both ranges, and may split words, as
    /// [`copy_short_in`](RawRegion::copy_short_in).
    ///
    /// # Safety
    /// `[offset, offset + len)` is inside this region, `[to_offset, to_offset + len)` inside `to`, which is writable.
    #[inline(always)]
    pub unsafe fn copy_short_to(self, offset: usize, to: RawRegion<'_>, to_offset: usize, len: usize) {
        debug_assert!(self.region.contains(offset, len));
        debug_assert!(to.region.contains(to_offset, len) && to.region.is_writable());
        // SAFETY: the caller's promise; both mappings outlive the call.
        unsafe {
            arch::small_copy(
                arch::shared_mut(to.ptr(to_offset)),
                arch::shared(self.ptr(offset)),
                len,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageWish;

    /// Copies of every length at every distance from a word's start change these bytes and no others.
    #[test]
    fn short_copies_write_their_range_only() {
        let (bytes, region): ([u8; 64], _) = (
            std::array::from_fn(|i| i as u8),
            Region::private(4096, PageWish::Small).expect("memory"),
        );
        let target = Region::private(4096, PageWish::Small).expect("memory");
        for len in 0..=bytes.len() {
            for at in 0..16 {
                let mut want = [0xff; 128];
                want[at..at + len].copy_from_slice(&bytes[..len]);
                for region in [&region, &target] {
                    region.copy_in(0, &[0xff; 128]);
                }
                // SAFETY: at most 80 bytes of 4096, all of them writable.
                unsafe { region.raw().copy_short_in(at, &bytes[..len]) };
                // SAFETY: as above.
                unsafe { region.raw().copy_short_to(at, target.raw(), at, len) };
                for region in [&region, &target] {
                    let mut got = [0; 128];
                    region.copy_out(0, &mut got);
                    assert_eq!(got, want, "{len} bytes at {at}");
                }
            }
        }
    }
}
