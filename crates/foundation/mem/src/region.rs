//! [`Region`]: a range of memory that other processes or devices may read and write at any time.

use crate::map::{AllocError, Mapping, PageKind, PageWish};
use crate::{LINE_BYTES, RawRegion, arch, observe};
use drover_base::{Cpu, Line};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Copies of at least this many bytes use the string instruction instead of words.
const BULK_BYTES: usize = 512;

/// A mapped range of memory, cheap to clone: clones are the same memory. It never gives out a slice of its bytes, only
/// atomic words: devices and peers may change any byte at any time. Offsets are in bytes from its start. A load, store
/// or copy outside is a bug and panics; `unsafe` methods check it only in debug builds.
#[derive(Clone)]
pub struct Region {
    /// Base, length and access right of the mapping, copied here to save a dereference per access.
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    /// Keeps the range mapped.
    mapping: Arc<Mapping>,
}

// SAFETY: as for Mapping, which `mapping` keeps alive: an address range touched only by atomics and opaque copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(mapping: Mapping) -> Region {
        observe::mapped(&mapping);
        Region {
            base: mapping.base,
            len: mapping.len,
            writable: mapping.writable,
            mapping: Arc::new(mapping),
        }
    }

    /// Allocates zeroed memory of this process only (a store's log, buffers of a fabric that registers any memory). The
    /// length is rounded up to whole pages of the [kind](Region::page_kind) obtained: to a multiple of 2 MiB for
    /// [`PageKind::Huge`], otherwise of 4 KiB.
    ///
    /// # Errors
    /// [`AllocError`] if `bytes` is 0 or above 64 TiB, or the system does not provide the memory.
    pub fn private(bytes: usize, wish: PageWish) -> Result<Region, AllocError> {
        Ok(Region::new(Mapping::private(bytes, wish)?))
    }

    /// Allocates zeroed memory that can be passed to other processes: an unnamed memfd, freed when the last process has
    /// closed and unmapped it. The length is rounded up as in [`private`](Region::private).
    ///
    /// # Errors
    /// [`AllocError`] if `bytes` is 0 or above 64 TiB, or the system does not provide the memory.
    pub fn shared(bytes: usize, wish: PageWish) -> Result<Region, AllocError> {
        Ok(Region::new(Mapping::shared(bytes, wish)?))
    }

    /// Maps the first `bytes`, rounded up to whole pages, of memory that a peer passed us. The descriptor is closed
    /// afterwards, so the memory cannot be shared further.
    ///
    /// # Errors
    /// [`AllocError`] if `bytes` is 0, the memory is shorter than that, it is not sealed against shrinking, or
    /// `writable` is true and the peer shared it read-only.
    pub fn from_fd(fd: OwnedFd, bytes: usize, writable: bool) -> Result<Region, AllocError> {
        Ok(Region::new(Mapping::from_fd(fd, bytes, writable, false)?))
    }

    /// As [`from_fd`](Region::from_fd), also for a [file](Region::file), which cannot be sealed: anybody who may write to it
    /// can shorten it, and so kill this process (SIGBUS). For peers that are trusted with more than that.
    ///
    /// # Errors
    /// As [`from_fd`](Region::from_fd).
    pub fn from_trusted_fd(fd: OwnedFd, bytes: usize, writable: bool) -> Result<Region, AllocError> {
        Ok(Region::new(Mapping::from_fd(fd, bytes, writable, true)?))
    }

    /// Whether a descriptor that a peer passed is of reserved huge pages. Of such memory a peer can take a page away again and
    /// use up the reserve: then the next access to it kills this process (SIGBUS).
    ///
    /// # Errors
    /// [`AllocError`] if the descriptor cannot be examined.
    pub fn is_of_huge_pages(fd: BorrowedFd<'_>) -> Result<bool, AllocError> {
        crate::map::is_of_huge_pages(fd)
    }

    /// Maps `bytes`, rounded up to whole pages, of a file from `offset` on, a multiple of the page size: stores go to
    /// the file and outlive the process. Disk space is reserved first if the file system supports it. A program that
    /// shortens the file meanwhile kills this process (SIGBUS).
    ///
    /// # Errors
    /// [`AllocError`] if `bytes` is 0, the file is too short (it is not extended), the file system is full, or the
    /// mapping fails.
    pub fn file(file: &std::fs::File, offset: u64, bytes: usize) -> Result<Region, AllocError> {
        Ok(Region::new(Mapping::file(file, offset, bytes)?))
    }

    /// A new descriptor of this memory, to pass to a peer; `None` unless [`shared`](Region::shared) allocated it, or it is a
    /// [file](Region::file) from its beginning. If `writable` is false, the memory is sealed first, which a file cannot be:
    /// no process can map it for writing from then on (existing mappings, ours included, can still write).
    ///
    /// # Errors
    /// [`AllocError`] if the system refuses the seal or the duplicate.
    pub fn share(&self, writable: bool) -> Result<Option<OwnedFd>, AllocError> {
        self.mapping.share(writable)
    }

    /// Length in bytes: whole pages, so it may be more than was asked for.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Kind of the pages that this region obtained. For memory of a peer or of a file, transparent huge pages are
    /// reported as small.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.kind
    }

    /// Whether [`share`](Region::share) can pass this region to peers: only if [`shared`](Region::shared) allocated it
    /// in this process, or it is a [file](Region::file) from its beginning.
    pub fn is_shared(&self) -> bool {
        self.mapping.fd.is_some()
    }

    /// Descriptor of the memory, for locks on it; `None` unless it [can be shared](Region::is_shared).
    pub fn fd(&self) -> Option<rustix::fd::BorrowedFd<'_>> {
        self.mapping.fd.as_ref().map(rustix::fd::AsFd::as_fd)
    }

    /// Whether this process may store to this region. If not, stores panic.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Address of the region's first byte in this process, as a number (for keys, cache models and devices).
    #[inline]
    pub fn addr(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// The cache line that contains `offset`, for [`Cpu::touch`] and [`Cpu::prefetch`]. Does not check the offset.
    #[inline]
    pub fn line(&self, offset: usize) -> Line {
        Line(self.addr() + offset)
    }

    /// Prefetches the cache line that contains `offset`, through `cpu`; a simulated core pays for it.
    #[inline(always)]
    pub fn prefetch<C: Cpu>(&self, cpu: &C, offset: usize) {
        cpu.prefetch(self.line(offset));
    }

    /// Prefetches the cache line that contains `offset`, without a [`Cpu`]: for fabrics. Protocols use
    /// [`prefetch`](Region::prefetch). Harmless outside the region.
    #[inline(always)]
    pub fn prefetch_read(&self, offset: usize) {
        arch::prefetch(self.addr().wrapping_add(offset));
    }

    /// Prefetches the cache line that contains `offset` in order to write it soon, without a [`Cpu`]: for fabrics.
    /// Other cores lose their copies of the line. Harmless outside the region.
    #[inline(always)]
    pub fn prefetch_write(&self, offset: usize) {
        arch::prefetch_write(self.addr().wrapping_add(offset));
    }

    /// Loads the word at `offset`, a multiple of 8, in the machine's byte order.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, or if `order` is `Release` or `AcqRel`.
    #[inline(always)]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    /// Stores `value` to the word at `offset`, a multiple of 8, in the machine's byte order.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, the region is read-only, or `order` is `Acquire` or
    /// `AcqRel`.
    #[inline(always)]
    pub fn store_u64(&self, offset: usize, value: u64, order: Ordering) {
        self.writable_word(offset).store(value, order);
    }

    /// Replaces the word at `offset`, a multiple of 8, by `new` if its value is `current` (CAS; AcqRel on success, else
    /// Acquire). Returns the previous value in both cases.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, or if the region is read-only.
    #[inline]
    pub fn compare_swap_u64(&self, offset: usize, current: u64, new: u64) -> u64 {
        match self
            .writable_word(offset)
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(old) | Err(old) => old,
        }
    }

    /// Adds `add` to the word at `offset`, a multiple of 8, modulo 2^64 (FAA, AcqRel). Returns the previous value.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, or if the region is read-only.
    #[inline]
    pub fn fetch_add_u64(&self, offset: usize, add: u64) -> u64 {
        self.writable_word(offset).fetch_add(add, Ordering::AcqRel)
    }

    /// The same region without checks, in a register, for the loops of fabrics.
    #[inline(always)]
    pub fn raw(&self) -> RawRegion<'_> {
        RawRegion::new(self.base, self)
    }

    /// Address of the word at `offset`, a multiple of 8: the offset is checked once, for callers that poll the word
    /// often. The pointer may be dereferenced while this region or a clone of it lives; in a read-only region only
    /// loads are allowed.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned.
    #[inline]
    pub fn word_ptr(&self, offset: usize) -> *const AtomicU64 {
        std::ptr::from_ref(self.word(offset))
    }

    /// The `N` cache lines from `offset` on, a multiple of 64, as atomic words: the range is checked once, for callers
    /// that loop over them.
    ///
    /// # Panics
    /// If the lines are not inside the region or not aligned, or if it is read-only, because the references could
    /// store.
    #[inline]
    pub fn lines<const N: usize>(&self, offset: usize) -> &[[AtomicU64; LINE_BYTES / 8]; N] {
        assert!(
            offset.is_multiple_of(LINE_BYTES),
            "offset {offset} is not aligned to {LINE_BYTES}"
        );
        self.check_writable(offset, N * LINE_BYTES);
        // SAFETY: inside (checked), aligned (the base is page-aligned), mapped while `self` is borrowed; all accesses
        // are atomic.
        unsafe { &*self.ptr(offset).cast() }
    }

    /// The 32-bit word at `offset`, a multiple of 4, for use as a futex.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, or if it is read-only, because the reference could store.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset & 3 == 0, "offset {offset} is not aligned to 4");
        self.check_writable(offset, 4);
        // SAFETY: inside (checked), aligned (the base is page-aligned), mapped while `self` is borrowed; all accesses
        // are atomic.
        unsafe { AtomicU32::from_ptr(self.ptr(offset).cast()) }
    }

    /// Copies `bytes` to `offset`. Fewer than 512 bytes: each aligned 8-byte word inside the range is stored whole, and
    /// partial words at its ends in up to three steps. From 512 bytes on, any word may be split. The copy has no
    /// ordering: publish with a Release store afterwards. About 2 ns for 64 bytes.
    ///
    /// # Panics
    /// If the range is not inside the region, or if the region is read-only.
    #[inline]
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        self.check_writable(offset, bytes.len());
        // SAFETY: bounds and rights checked above; `bytes` is a live slice that cannot overlap a Region.
        unsafe {
            copy(
                arch::shared_mut(self.ptr(offset)),
                arch::own(bytes.as_ptr()),
                bytes.len(),
                offset,
            )
        };
    }

    /// As [`copy_in`](Region::copy_in), but stores the last word (the part of the range in its last aligned 8 bytes)
    /// last, with Release: a reader that loads it with Acquire sees all bytes before it. A last word of fewer than 8
    /// bytes may be stored in several steps.
    ///
    /// # Panics
    /// As [`copy_in`](Region::copy_in).
    #[inline]
    pub fn copy_in_release(&self, offset: usize, bytes: &[u8]) {
        self.check_writable(offset, bytes.len());
        // SAFETY: bounds and rights checked above.
        unsafe { self.raw().copy_in_release(offset, bytes) };
    }

    /// Ranges that end on a word boundary and have bytes other than whole words before the last word.
    #[inline(never)]
    pub(crate) fn copy_in_release_odd(&self, offset: usize, bytes: &[u8]) {
        let end = offset.wrapping_add(bytes.len());
        let Some((body, last)) = bytes.split_last_chunk::<8>().filter(|_| end & 7 == 0) else {
            return self.copy_in_release_slow(offset, bytes);
        };
        self.copy_in(offset, body);
        // Release: as above.
        self.unchecked_word(end - 8)
            .store(u64::from_ne_bytes(*last), Ordering::Release);
    }

    #[inline(never)]
    pub(crate) fn copy_in_release_slow(&self, offset: usize, bytes: &[u8]) {
        let end = offset.wrapping_add(bytes.len());
        let last = (if end & 7 == 0 { 8 } else { end & 7 }).min(bytes.len());
        let (body, last) = bytes.split_at(bytes.len() - last);
        self.copy_in(offset, body);
        fence(Ordering::Release);
        self.copy_in(offset + body.len(), last);
    }

    /// Fills `out` from `offset` on. Bytes written meanwhile may be torn: between aligned 8-byte words, and within a
    /// partial word at either end; from 512 bytes on, within any word. Check a version or a checksum where that
    /// matters. The copy has no ordering: load a flag with Acquire first.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: bounds checked above; `out` is exclusively ours and cannot overlap a Region.
        unsafe {
            copy(
                arch::own_mut(out.as_mut_ptr()),
                arch::shared(self.ptr(offset)),
                out.len(),
                offset,
            )
        };
    }

    /// As [`copy_out`](Region::copy_out), for memory without concurrent writers: words may be split. Takes the fewest
    /// instructions for short lengths; any length is allowed.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline(always)]
    pub fn copy_short_out(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: bounds checked above; `out` is exclusively ours and cannot overlap a Region.
        unsafe {
            arch::small_copy(
                arch::own_mut(out.as_mut_ptr()),
                arch::shared(self.ptr(offset)),
                out.len(),
            )
        };
    }

    /// Copies `len` bytes from `offset` of this region to `to_offset` of `to`, as a DMA engine does: fewer than 512
    /// bytes are copied without splitting an aligned word if both offsets are equal modulo 8. Both regions may be the
    /// same one if the ranges do not overlap.
    ///
    /// # Panics
    /// If a range is not inside its region, or if `to` is read-only.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &Region, to_offset: usize, len: usize) {
        self.check(offset, len);
        to.check_writable(to_offset, len);
        // SAFETY: bounds and rights checked above.
        unsafe { self.raw().copy_to(offset, to.raw(), to_offset, len) };
    }

    /// As [`copy_to`](Region::copy_to), but the last word becomes visible last, as for
    /// [`copy_in_release`](Region::copy_in_release).
    ///
    /// # Panics
    /// If a range is not inside its region, or if `to` is read-only.
    #[inline]
    pub fn copy_to_release(&self, offset: usize, to: &Region, to_offset: usize, len: usize) {
        self.check(offset, len);
        to.check_writable(to_offset, len);
        // SAFETY: bounds and rights checked above.
        unsafe { self.raw().copy_to_release(offset, to.raw(), to_offset, len) };
    }

    /// Fills `len` bytes from `offset` on with zeros, without ordering.
    ///
    /// # Panics
    /// If the range is not inside the region (bytes of it that are inside may be zero by then), or if the region is
    /// read-only.
    pub fn zero(&self, offset: usize, len: usize) {
        const ZEROS: [u8; 256] = [0; 256];
        let mut at = 0;
        while at < len {
            let n = (len - at).min(ZEROS.len());
            self.copy_in(offset + at, &ZEROS[..n]);
            at += n;
        }
    }

    /// Zeroes `len` bytes from `offset` on, without ordering, and returns the memory of whole pages to the system where it
    /// can be: they take memory again when they are next touched.
    ///
    /// # Panics
    /// As [`zero`](Region::zero).
    pub fn discard(&self, offset: usize, len: usize) {
        self.check_writable(offset, len);
        let page = crate::map::PAGE_BYTES;
        let (start, end) = (offset.next_multiple_of(page), (offset + len) / page * page);
        if start >= end || !self.mapping.discard(start, end - start) {
            return self.zero(offset, len);
        }
        self.zero(offset, start - offset);
        self.zero(end, offset + len - end);
    }

    /// Says that the memory from `offset` on is not used for now. A transparent huge page takes memory as a whole when it is
    /// first touched, so the system is asked for small pages from `offset` to the end of the huge page that it is in.
    ///
    /// # Panics
    /// If `offset` is outside the region.
    pub fn end_huge_page(&self, offset: usize) {
        self.check(offset, 0);
        self.mapping.end_huge_page(offset);
    }

    /// Whether `[offset, offset + len)` is inside the region. Never panics: for numbers that came from a peer.
    #[inline]
    pub fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len() && len <= self.len() - offset
    }

    #[inline(always)]
    fn check(&self, offset: usize, len: usize) {
        if !self.contains(offset, len) {
            self.is_outside(offset, len);
        }
    }

    /// Panics. With its arguments by value: for references to them they would be stored before every check.
    #[cold]
    #[inline(never)]
    fn is_outside(&self, offset: usize, len: usize) -> ! {
        panic!("[{offset}, +{len}) outside a region of {} bytes", self.len());
    }

    #[inline(always)]
    pub(crate) fn check_writable(&self, offset: usize, len: usize) {
        self.check(offset, len);
        assert!(self.writable, "store to a read-only region");
    }

    #[inline(always)]
    pub(crate) fn ptr(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset & 7 == 0, "offset {offset} is not aligned to 8");
        self.check(offset, 8);
        self.unchecked_word(offset)
    }

    #[inline(always)]
    fn writable_word(&self, offset: usize) -> &AtomicU64 {
        assert!(self.writable, "store to a read-only region");
        self.word(offset)
    }

    /// The word at `offset`, which the caller has checked to be inside and aligned.
    #[inline(always)]
    fn unchecked_word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers checked bounds and alignment (the base is page-aligned); all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.ptr(offset).cast()) }
    }
}

/// Copies so that no aligned word is split on the side whose offset is `align`: bytes up to the first boundary, words,
/// then the remaining bytes.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
#[inline(always)]
pub(crate) unsafe fn copy(to: arch::Target, from: arch::Source, len: usize, align: usize) {
    if len >= BULK_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { arch::bulk_copy(to, from, len) };
    }
    let lead = len.min(align.wrapping_neg() & 7);
    if lead > 0 {
        // SAFETY: `lead` bytes of the caller's range.
        unsafe { arch::copy_under_8(to, from, lead) };
    }
    let words = (len - lead) & !7;
    // SAFETY: `words` bytes after the lead.
    unsafe { arch::copy_words(to.wrapping_add(lead), from.wrapping_add(lead), words) };
    let done = lead + words;
    if done < len {
        // SAFETY: the remaining bytes of the range.
        unsafe { arch::copy_under_8(to.wrapping_add(done), from.wrapping_add(done), len - done) };
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
    #[cfg_attr(miri, ignore = "the interpreter maps no files")]
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

    /// Guards against a regression: 240 partitions of 64 KiB took half a gigabyte, and a PUT waited 4 to 40 ms for the
    /// kernel to zero a huge page.
    #[test]
    fn little_memory_takes_no_huge_page() {
        let bytes = |len| {
            [
                Region::private(len, PageWish::HugeIfAny),
                Region::shared(len, PageWish::HugeIfAny),
            ]
        };
        for region in bytes(80 << 10) {
            assert_eq!(region.expect("memory").len(), 80 << 10);
        }
    }

    /// Guards against a regression: a partition of 64 MiB and a few bytes took 66 MiB.
    #[test]
    fn only_reserved_huge_pages_round_up_to_huge_pages() {
        let bytes = (4 << 20) + 1;
        for region in [
            Region::private(bytes, PageWish::HugeIfAny),
            Region::shared(bytes, PageWish::HugeIfAny),
        ] {
            let region = region.expect("memory");
            let page_bytes = match region.page_kind() {
                PageKind::Huge => 2 << 20,
                PageKind::Transparent | PageKind::Small => 4096,
            };
            assert_eq!(region.len(), (4 << 20) + page_bytes);
            region.store_u64(region.len() - 8, 1, Ordering::Relaxed);
        }
        let private = Region::private(bytes, PageWish::HugeIfAny).expect("memory");
        assert!(cfg!(miri) || private.addr().is_multiple_of(2 << 20));
    }

    #[test]
    #[should_panic(expected = "outside a region")]
    fn an_offset_outside_is_a_bug() {
        Region::private(4096, PageWish::Small)
            .expect("memory")
            .load_u64(4096, Ordering::Relaxed);
    }

    #[test]
    fn lines_are_the_words_at_their_offset() {
        let region = Region::private(4096, PageWish::Small).expect("memory");
        let lines: &[_; 2] = region.lines(128);
        lines[1][7].store(5, Ordering::Relaxed);
        assert_eq!(region.load_u64(128 + 64 + 56, Ordering::Relaxed), 5);
        assert_eq!(region.lines::<64>(0)[3][7].load(Ordering::Relaxed), 5);
    }

    #[test]
    #[should_panic(expected = "outside a region")]
    fn lines_behind_the_end_are_a_bug() {
        let region = Region::private(4096, PageWish::Small).expect("memory");
        region.lines::<64>(64);
    }

    const LEN_END: usize = if cfg!(miri) { 100 } else { 900 };

    proptest! {
        #[test]
        fn copies_agree_with_a_slice(offset in 0usize..80, len in 0..LEN_END, fill in any::<u8>()) {
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

        #[test]
        fn release_copies_agree_with_plain_ones(from in 0usize..40, offset in 0usize..80, len in 0..LEN_END) {
            let bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) | 1).collect();
            let plain = Region::private(4096, PageWish::Small).expect("memory");
            plain.copy_in(offset, &bytes);
            let mut want = vec![0; 1024];
            plain.copy_out(0, &mut want);
            let released = Region::private(4096, PageWish::Small).expect("memory");
            released.copy_in_release(offset, &bytes);
            let mut got = vec![0; 1024];
            released.copy_out(0, &mut got);
            prop_assert_eq!(&got, &want);
            let source = Region::private(4096, PageWish::Small).expect("memory");
            source.copy_in(from, &bytes);
            let target = Region::private(4096, PageWish::Small).expect("memory");
            source.copy_to_release(from, &target, offset, len);
            target.copy_out(0, &mut got);
            prop_assert_eq!(&got, &want);
        }
    }
}
