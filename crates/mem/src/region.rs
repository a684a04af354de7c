//! [`Region`]: a range of memory that somebody else may read and write while we do.

use crate::arch;
use crate::map::{AllocError, Mapping, PageKind, PageWish};
use drover_base::{Cpu, Line};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Above this many bytes a copy goes through the string instruction instead of words.
const BULK_BYTES: usize = 512;

/// A mapped range of memory, cheap to clone. No slice of it ever exists: devices and peers may change any
/// byte at any time. Offsets count from its start; one that reaches outside is a bug and panics.
#[derive(Clone)]
pub struct Region {
    mapping: Arc<Mapping>,
}

impl Region {
    /// Memory of this process only (a store's log, buffers of a fabric that registers anything).
    /// The length is rounded up to whole pages. Errors: [`AllocError`].
    pub fn private(bytes: usize, wish: PageWish) -> Result<Region, AllocError> {
        Ok(Region {
            mapping: Arc::new(Mapping::private(bytes, wish)?),
        })
    }

    /// Memory that can be passed to other processes: a memfd, named nowhere, gone with its last user.
    pub fn shared(bytes: usize, wish: PageWish) -> Result<Region, AllocError> {
        Ok(Region {
            mapping: Arc::new(Mapping::shared(bytes, wish)?),
        })
    }

    /// Maps memory that a peer passed us. `writable` asks for more than the peer may have granted: then it fails.
    pub fn from_fd(fd: OwnedFd, bytes: usize, writable: bool) -> Result<Region, AllocError> {
        Ok(Region {
            mapping: Arc::new(Mapping::from_fd(fd, bytes, writable)?),
        })
    }

    /// A descriptor to pass to a peer; `None` for private memory. A read-only one cannot be mapped for
    /// writing by anybody, ever (the memory is sealed; existing mappings, ours, keep writing).
    pub fn share(&self, writable: bool) -> Result<Option<OwnedFd>, AllocError> {
        self.mapping.share(writable)
    }

    /// Bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Which pages back it.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.kind
    }

    /// Whether this process may store to it.
    pub fn is_writable(&self) -> bool {
        self.mapping.writable
    }

    /// Its address in this process, as a number (for keys, cache models and devices).
    #[inline]
    pub fn addr(&self) -> usize {
        self.mapping.base.as_ptr() as usize
    }

    /// The line of `offset`, for [`Cpu::touch`] and [`Cpu::prefetch`].
    #[inline]
    pub fn line(&self, offset: usize) -> Line {
        Line(self.addr() + offset)
    }

    /// Asks for the line of `offset`.
    #[inline(always)]
    pub fn prefetch<C: Cpu>(&self, cpu: &C, offset: usize) {
        cpu.prefetch(self.line(offset));
    }

    /// The word at `offset`, a multiple of 8.
    #[inline(always)]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    /// Stores the word at `offset`, a multiple of 8.
    #[inline(always)]
    pub fn store_u64(&self, offset: usize, value: u64, order: Ordering) {
        self.writable_word(offset).store(value, order);
    }

    /// CAS of the word at `offset`: the value before, whether or not it was `current`.
    #[inline]
    pub fn compare_swap_u64(&self, offset: usize, current: u64, new: u64) -> u64 {
        match self
            .writable_word(offset)
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(old) | Err(old) => old,
        }
    }

    /// FAA of the word at `offset`: the value before.
    #[inline]
    pub fn fetch_add_u64(&self, offset: usize, add: u64) -> u64 {
        self.writable_word(offset).fetch_add(add, Ordering::AcqRel)
    }

    /// Copies `bytes` to `offset`, by words where both ends are aligned. No ordering of its own: publish
    /// with a Release store afterwards.
    #[inline]
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        self.check_writable(offset, bytes.len());
        if bytes.len() >= BULK_BYTES {
            // SAFETY: bounds and rights checked above; `bytes` is a live slice that cannot overlap a Region.
            unsafe { arch::bulk_copy(self.ptr(offset), bytes.as_ptr(), bytes.len()) };
            return;
        }
        let lead = bytes.len().min(offset.wrapping_neg() & 7);
        let (head, rest) = bytes.split_at(lead);
        for (i, &byte) in head.iter().enumerate() {
            self.byte(offset + i).store(byte, Ordering::Relaxed);
        }
        let mut at = offset + lead;
        let mut words = rest.chunks_exact(8);
        for word in &mut words {
            let value = u64::from_le_bytes(word.try_into().expect("chunk of 8"));
            self.unchecked_word(at).store(value.to_le(), Ordering::Relaxed);
            at += 8;
        }
        for (i, &byte) in words.remainder().iter().enumerate() {
            self.byte(at + i).store(byte, Ordering::Relaxed);
        }
    }

    /// Copies out of `offset`. Bytes written meanwhile may be torn at word granularity: check a version or a
    /// checksum where that matters. Load a flag with Acquire before.
    #[inline]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        if out.len() >= BULK_BYTES {
            // SAFETY: bounds checked above; `out` is exclusively ours and cannot overlap a Region.
            unsafe { arch::bulk_copy(out.as_mut_ptr(), self.ptr(offset), out.len()) };
            return;
        }
        let lead = out.len().min(offset.wrapping_neg() & 7);
        let (head, rest) = out.split_at_mut(lead);
        for (i, byte) in head.iter_mut().enumerate() {
            *byte = self.byte(offset + i).load(Ordering::Relaxed);
        }
        let mut at = offset + lead;
        let mut words = rest.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.unchecked_word(at).load(Ordering::Relaxed).to_ne_bytes());
            at += 8;
        }
        for (i, byte) in words.into_remainder().iter_mut().enumerate() {
            *byte = self.byte(at + i).load(Ordering::Relaxed);
        }
    }

    /// Copies between regions (which may be the same one if the ranges do not overlap), as a DMA engine would.
    pub fn copy_to(&self, offset: usize, to: &Region, to_offset: usize, len: usize) {
        self.check(offset, len);
        to.check_writable(to_offset, len);
        // SAFETY: bounds and rights checked above; both mappings outlive the call.
        unsafe { arch::bulk_copy(to.ptr(to_offset), self.ptr(offset), len) };
    }

    /// Fills `len` bytes from `offset` with zeros.
    pub fn zero(&self, offset: usize, len: usize) {
        const ZEROS: [u8; 256] = [0; 256];
        let mut at = 0;
        while at < len {
            let n = (len - at).min(ZEROS.len());
            self.copy_in(offset + at, &ZEROS[..n]);
            at += n;
        }
    }

    /// True if `[offset, offset + len)` lies inside. For addresses that came from a peer.
    #[inline]
    pub fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len() && len <= self.len() - offset
    }

    #[inline(always)]
    fn check(&self, offset: usize, len: usize) {
        assert!(
            self.contains(offset, len),
            "[{offset}, +{len}) outside a region of {} bytes",
            self.len()
        );
    }

    #[inline(always)]
    fn check_writable(&self, offset: usize, len: usize) {
        self.check(offset, len);
        assert!(self.mapping.writable, "store to a read-only region");
    }

    #[inline(always)]
    pub(crate) fn ptr(&self, offset: usize) -> *mut u8 {
        self.mapping.base.as_ptr().wrapping_add(offset)
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset & 7 == 0, "offset {offset} is not aligned to 8");
        self.check(offset, 8);
        self.unchecked_word(offset)
    }

    #[inline(always)]
    fn writable_word(&self, offset: usize) -> &AtomicU64 {
        assert!(self.mapping.writable, "store to a read-only region");
        self.word(offset)
    }

    /// The word at `offset`, which the caller has checked to be inside and aligned.
    #[inline(always)]
    fn unchecked_word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers checked bounds and alignment (the base is page-aligned); all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.ptr(offset).cast()) }
    }

    /// The byte at `offset`, which the caller has checked to be inside.
    #[inline(always)]
    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: callers checked bounds; all accesses are atomic.
        unsafe { AtomicU8::from_ptr(self.ptr(offset)) }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({} bytes, {})", self.len(), self.page_kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn read_only_share_cannot_be_mapped_for_writing() {
        let region = Region::shared(4096, PageWish::Small).expect("memory");
        region.store_u64(0, 7, Ordering::Relaxed);
        let fd = region.share(false).expect("share").expect("memfd");
        assert!(Region::from_fd(fd.try_clone().expect("dup"), 4096, true).is_err());
        let peer = Region::from_fd(fd, 4096, false).expect("read-only mapping");
        assert_eq!(peer.load_u64(0, Ordering::Relaxed), 7);
        region.store_u64(0, 8, Ordering::Relaxed);
        assert_eq!(peer.load_u64(0, Ordering::Relaxed), 8);
    }

    #[test]
    #[should_panic(expected = "outside a region")]
    fn an_offset_outside_is_a_bug() {
        Region::private(4096, PageWish::Small)
            .expect("memory")
            .load_u64(4096, Ordering::Relaxed);
    }

    proptest! {
        #[test]
        fn copies_agree_with_a_slice(offset in 0usize..80, len in 0usize..900, fill in any::<u8>()) {
            let region = Region::private(4096, PageWish::Small).expect("memory");
            let bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ fill).collect();
            region.copy_in(offset, &bytes);
            let mut whole = vec![0; 1024];
            region.copy_out(0, &mut whole);
            let mut want = vec![0; 1024];
            want[offset..offset + len].copy_from_slice(&bytes);
            prop_assert_eq!(whole, want);
            let mut out = vec![0; len];
            region.copy_out(offset, &mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
