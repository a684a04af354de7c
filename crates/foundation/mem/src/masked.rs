//! [`MaskedRegion`], [`BoundedRegion`] and [`LineTable`]: ranges whose offsets are masked or limited to their length, so
//! that rings, logs and indexes need no bounds check that can fail.

use crate::{AllocError, LINE_BYTES, PageWish, Region, arch, round_up};
use drover_base::{Cpu, Line};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Copies of at least this many bytes use the string instruction.
const BULK_BYTES: usize = 512;

/// 2^n bytes of a [`Region`], addressed by *virtual* offsets: every offset is taken modulo the length and rounded down
/// to a multiple of 8, as a ring needs. Word accesses are Relaxed and cost the same as plain ones; words are
/// little-endian in memory on every machine.
#[derive(Clone)]
pub struct MaskedRegion {
    /// Keeps the mapping alive.
    region: Region,
    base: NonNull<u8>,
    /// Length - 8: clears the bits above the length and the three bits below a word.
    mask: usize,
    /// Mapped bytes from `base` on: at least the length and [`MaskedRef::REACH`].
    span: usize,
}

// SAFETY: as for Region: an address range that `region` keeps mapped, touched only by atomics and opaque copies.
unsafe impl Send for MaskedRegion {}
// SAFETY: as above.
unsafe impl Sync for MaskedRegion {}

impl MaskedRegion {
    /// Length in bytes that a region must have, from `start` on, for a [`MaskedRegion`] of `bytes`:
    /// [`MaskedRef::REACH`] more.
    pub const fn mapped_bytes(bytes: usize) -> usize {
        bytes + MaskedRef::REACH
    }

    /// Creates a view of `bytes` bytes of `region`, from offset `start` on. The region must extend at least
    /// [`MaskedRef::REACH`] bytes beyond them.
    ///
    /// # Panics
    /// If `bytes` is not a power of two of at least one line, `start` is not a multiple of a line, or the region is too
    /// short or read-only.
    pub fn new(region: Region, start: usize, bytes: usize) -> MaskedRegion {
        let base = checked_base(&region, start, bytes, MaskedRegion::mapped_bytes(bytes));
        MaskedRegion {
            span: region.len() - start,
            region,
            base,
            mask: bytes - 8,
        }
    }

    /// Allocates zeroed memory of this process only: `bytes` and [`MaskedRef::REACH`] more, rounded up to whole pages.
    ///
    /// # Errors
    /// [`AllocError`] if the system does not provide the memory.
    ///
    /// # Panics
    /// If `bytes` is not a power of two of at least one line.
    pub fn private(bytes: usize, wish: PageWish) -> Result<MaskedRegion, AllocError> {
        Ok(MaskedRegion::new(
            Region::private(MaskedRegion::mapped_bytes(bytes), wish)?,
            0,
            bytes,
        ))
    }

    /// Length of the addressed range in bytes, a power of two.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.mask + 8
    }

    /// The whole region given to [`new`](MaskedRegion::new), which is longer than the addressed range.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The cache line that contains `offset` modulo the length, for [`Cpu::touch`] and [`Cpu::prefetch`].
    #[inline(always)]
    pub fn line(&self, offset: u64) -> Line {
        self.place(offset).line(0)
    }

    /// Prefetches the cache line that contains `offset` modulo the length.
    #[inline(always)]
    pub fn prefetch<C: Cpu>(&self, cpu: &C, offset: u64) {
        cpu.prefetch(self.line(offset));
    }

    /// A reference to the bytes from `offset` on, after `offset` was taken modulo the length and rounded down to a
    /// multiple of 8. Distances from it do not wrap: bytes beyond the end of the range are those after it in the
    /// region.
    #[inline(always)]
    pub fn place(&self, offset: u64) -> MaskedRef<'_> {
        let offset = offset as usize & self.mask;
        MaskedRef {
            // SAFETY: the masked offset is at most length - 8, and `new` checked that the length is mapped.
            ptr: unsafe { self.base.add(offset) },
            left: self.span - offset,
            region: PhantomData,
        }
    }

    /// Loads the 8-byte little-endian word at `offset`, modulo the length and rounded down to a multiple of 8. Relaxed.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        self.place(offset).load(0)
    }

    /// Stores the 8-byte little-endian word at `offset`, modulo the length and rounded down to a multiple of 8.
    /// Relaxed.
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64) {
        self.place(offset).store(0, value);
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

/// Bytes of a [`Region`] addressed by offsets; their number need not be a power of two. An offset that is not inside is
/// taken as 0. Otherwise as [`MaskedRegion`], at the price of a comparison.
#[derive(Clone)]
pub struct BoundedRegion {
    /// Keeps the mapping alive.
    region: Region,
    base: NonNull<u8>,
    /// Number of addressed bytes, a multiple of 8.
    len: usize,
    /// Mapped bytes from `base` on: at least the length and [`MaskedRef::REACH`].
    span: usize,
}

// SAFETY: as for MaskedRegion.
unsafe impl Send for BoundedRegion {}
// SAFETY: as above.
unsafe impl Sync for BoundedRegion {}

impl BoundedRegion {
    /// Creates a view of the first `bytes` bytes of `region`, which must extend at least [`MaskedRef::REACH`] bytes
    /// beyond them.
    ///
    /// # Panics
    /// If `bytes` is 0 or not a multiple of 8, or the region is too short or read-only.
    pub fn new(region: Region, bytes: usize) -> BoundedRegion {
        assert!(
            bytes > 0 && bytes.is_multiple_of(8),
            "{bytes} is not a positive multiple of 8"
        );
        BoundedRegion {
            base: start_of(&region, 0, MaskedRegion::mapped_bytes(bytes)),
            span: region.len(),
            region,
            len: bytes,
        }
    }

    /// Allocates zeroed memory of this process only: `bytes` and [`MaskedRef::REACH`] more, rounded up to whole pages.
    ///
    /// # Errors
    /// [`AllocError`] if the system does not provide the memory.
    ///
    /// # Panics
    /// If `bytes` is 0 or not a multiple of 8.
    pub fn private(bytes: usize, wish: PageWish) -> Result<BoundedRegion, AllocError> {
        let region = Region::private(MaskedRegion::mapped_bytes(bytes), wish)?;
        Ok(BoundedRegion::new(region, bytes))
    }

    /// Length of the addressed range in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The whole region given to [`new`](BoundedRegion::new), which is longer than the addressed range.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// A reference to the bytes from `offset` on, after `offset` was rounded down to a multiple of 8, or from 0 on if
    /// `offset` is not inside.
    #[inline(always)]
    pub fn place(&self, offset: u64) -> MaskedRef<'_> {
        let offset = offset as usize & !7;
        // A conditional move, not a branch.
        let offset = if offset < self.len { offset } else { 0 };
        MaskedRef {
            // SAFETY: the offset is below the length, and `new` checked that the length is mapped.
            ptr: unsafe { self.base.add(offset) },
            left: self.span - offset,
            region: PhantomData,
        }
    }

    /// Address of the cache line at `offset`, for prefetching: meaningless if the offset is not inside, but harmless.
    #[inline(always)]
    pub fn line(&self, offset: u64) -> Line {
        Line((self.base.as_ptr() as usize).wrapping_add(offset as usize))
    }

    /// Loads the 8-byte little-endian word at `offset`, treated as in [`place`](BoundedRegion::place). Relaxed.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        self.place(offset).load(0)
    }

    /// Stores the 8-byte little-endian word at `offset`, treated as in [`place`](BoundedRegion::place). Relaxed.
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64) {
        self.place(offset).store(0, value);
    }
}

impl std::fmt::Debug for BoundedRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BoundedRegion({} bytes, {})",
            self.len,
            self.region.page_kind()
        )
    }
}

/// A place in a [`MaskedRegion`] or [`BoundedRegion`], for access to the bytes from it on; `at` is a distance from it in
/// bytes. At least [`REACH`](MaskedRef::REACH) bytes from it on are mapped, so a word within that distance costs one
/// instruction, and bytes that cross the end of the range are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct MaskedRef<'a> {
    ptr: NonNull<u8>,
    /// Mapped bytes from `ptr` on.
    left: usize,
    region: PhantomData<&'a Region>,
}

impl MaskedRef<'_> {
    /// Number of bytes that are mapped from every offset on, so that accesses to them need no bounds check.
    pub const REACH: usize = 512;

    /// The cache line that contains the byte `at` bytes from here, for [`Cpu::touch`] and [`Cpu::prefetch`].
    #[inline(always)]
    pub fn line(self, at: usize) -> Line {
        Line(self.ptr.as_ptr() as usize + at)
    }

    /// Loads the 8-byte little-endian word `at` bytes from here, Relaxed. `at` is a multiple of 8 and at most
    /// [`REACH`](MaskedRef::REACH) - 8; other values are masked into that range, at no cost for a constant.
    #[inline(always)]
    pub fn load(self, at: usize) -> u64 {
        u64::from_le(self.word(at).load(Ordering::Relaxed))
    }

    /// Stores the word `at` bytes from here, Relaxed; `at` is masked as in [`load`](MaskedRef::load).
    #[inline(always)]
    pub fn store(self, at: usize, value: u64) {
        self.word(at).store(value.to_le(), Ordering::Relaxed);
    }

    /// Copies `bytes` to the position `at` bytes from here, rounded down to a multiple of 8, and zeroes the rest of the
    /// last word. A concurrent reader may see torn words.
    ///
    /// # Panics
    /// If the words would leave the mapping.
    #[inline(always)]
    pub fn copy_in_padded(self, at: usize, bytes: &[u8]) {
        let (at, len) = self.checked(at, bytes.len());
        let to = self.ptr.as_ptr().wrapping_add(at & !7);
        if len & 7 != 0 {
            // SAFETY: the last word starts before at + len, so it is mapped (what is left is a multiple of 8).
            unsafe { AtomicU64::from_ptr(to.wrapping_add(len & !7).cast()) }.store(0, Ordering::Relaxed);
        }
        if len >= BULK_BYTES {
            // SAFETY: `len` bytes at `to` are mapped, checked above; a slice cannot overlap a Region.
            return unsafe { arch::bulk_copy(arch::shared_mut(to), arch::own(bytes.as_ptr()), len) };
        }
        // SAFETY: as above.
        unsafe { arch::small_copy(arch::shared_mut(to), arch::own(bytes.as_ptr()), len) };
    }

    /// Copies `bytes` to the position `at` bytes from here, at any alignment, and changes no other byte: for values
    /// that arrive in pieces.
    ///
    /// # Panics
    /// If the bytes would leave the mapping.
    #[inline]
    pub fn copy_in(self, at: usize, bytes: &[u8]) {
        let (at, len) = self.checked(at, bytes.len());
        let to = arch::shared_mut(self.ptr.as_ptr().wrapping_add(at));
        let from = arch::own(bytes.as_ptr());
        if len >= BULK_BYTES {
            // SAFETY: `len` bytes at `to` are mapped, checked above; a slice cannot overlap a Region.
            return unsafe { arch::bulk_copy(to, from, len) };
        }
        // SAFETY: as above.
        unsafe { arch::small_copy(to, from, len) };
    }

    /// Fills `out` from the position `at` bytes from here. Bytes written meanwhile may be torn, within words too.
    ///
    /// # Panics
    /// If the bytes would leave the mapping.
    #[inline(always)]
    pub fn copy_out(self, at: usize, out: &mut [u8]) {
        let (at, len) = self.checked(at, out.len());
        let from = arch::shared(self.ptr.as_ptr().wrapping_add(at));
        if len >= BULK_BYTES {
            // SAFETY: `len` bytes at `from` are mapped, checked above; a slice cannot overlap a Region.
            return unsafe { arch::bulk_copy(arch::own_mut(out.as_mut_ptr()), from, len) };
        }
        // SAFETY: as above.
        unsafe { arch::small_copy(arch::own_mut(out.as_mut_ptr()), from, len) };
    }

    /// Copies the whole cache line that contains this place, from the line's start: 8 instructions, no branch. A word
    /// written meanwhile is copied whole; the line may be torn.
    #[inline(always)]
    pub fn copy_line_out(self, out: &mut [u8; LINE_BYTES]) {
        let into_line = self.ptr.as_ptr() as usize & (LINE_BYTES - 1);
        let line = self.ptr.as_ptr().wrapping_sub(into_line);
        // SAFETY: a mapping consists of whole lines, and this one holds a mapped byte; `out` is ours alone.
        unsafe { arch::copy_line(arch::own_mut(out.as_mut_ptr()), arch::shared(line)) };
    }

    /// Copies `len` bytes from the position `at` bytes from here to `to_offset` of `to`. Bytes written meanwhile may be
    /// torn, within words too.
    ///
    /// # Panics
    /// If the bytes would leave the mapping or `to`, or if `to` is read-only.
    pub fn copy_to(self, at: usize, to: &Region, to_offset: usize, len: usize) {
        assert!(
            at <= self.left && len <= self.left - at,
            "a copy leaves the mapping"
        );
        to.check_writable(to_offset, len);
        // SAFETY: `len` bytes are mapped at both ends, checked above.
        unsafe {
            arch::bulk_copy(
                arch::shared_mut(to.ptr(to_offset)),
                arch::shared(self.ptr.as_ptr().wrapping_add(at)),
                len,
            )
        };
    }

    /// Copies `len` bytes, a multiple of 8, from here to `to`, words in ascending order: the ranges may overlap if `to` is
    /// the lower one. Words written meanwhile are copied whole.
    ///
    /// # Panics
    /// If the bytes would leave either mapping.
    #[inline]
    pub fn move_words(self, to: MaskedRef<'_>, len: usize) {
        assert!(
            len <= self.left && len <= to.left && len.is_multiple_of(8),
            "a copy leaves the mapping"
        );
        for at in (0..len).step_by(8) {
            let [from, to] = [self.ptr, to.ptr].map(|start| start.as_ptr().wrapping_add(at).cast());
            // SAFETY: a word of `len` mapped bytes at both ends, checked above; both starts are multiples of 8 from a
            // page-aligned base; all accesses are atomic or opaque copies.
            let [from, to] = unsafe { [AtomicU64::from_ptr(from), AtomicU64::from_ptr(to)] };
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether the memory from the position `at` bytes from here on equals `bytes`. Always false if the comparison
    /// would extend beyond [`REACH`](MaskedRef::REACH).
    #[inline(always)]
    pub fn equals(self, at: usize, bytes: &[u8]) -> bool {
        let len = bytes.len();
        if at > MaskedRef::REACH || len > MaskedRef::REACH - at {
            return false;
        }
        // SAFETY: the bytes are within REACH, so they are mapped.
        unsafe { arch::equal(self.ptr.as_ptr().wrapping_add(at), bytes.as_ptr(), len) }
    }

    /// `at` and `len`, the length of a slice, if the range stays inside the mapping.
    #[inline(always)]
    fn checked(self, at: usize, len: usize) -> (usize, usize) {
        // Each is at most half the address space (`len` is the length of a slice), so the sum cannot overflow.
        let at = at & (usize::MAX >> 1);
        let end = at.wrapping_add(len);
        // A range within REACH needs no check against the length of the mapping.
        assert!(
            end <= MaskedRef::REACH || end <= self.left,
            "a copy leaves the mapping"
        );
        (at, len)
    }

    /// Whether `len` bytes from the position `at` bytes from here on are mapped, be it in or after the addressed range.
    /// Call it before a copy whose length is untrusted, because the copy panics if they are not.
    #[inline(always)]
    pub fn maps(self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.left)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        let at = at & (MaskedRef::REACH - 8);
        // SAFETY: `at` is below REACH, which is mapped; it and the place are multiples of 8 from a page-aligned
        // base; all accesses are atomic or opaque copies; the region outlives the place.
        unsafe { AtomicU64::from_ptr(self.ptr.as_ptr().wrapping_add(at).cast()) }
    }
}

/// Bytes of a [`Region`] as cache lines of 8 words: the shape of a bucket table. The number of lines in use need not be a
/// power of two, and may change ([`Spread`]). Accesses are Relaxed; words are little-endian in memory on every machine.
#[derive(Clone)]
pub struct LineTable {
    /// Keeps the mapping alive.
    region: Region,
    base: NonNull<u8>,
    /// Number of lines that are mapped, 1 to 2^31.
    capacity: u64,
    /// Number of words that are mapped.
    words: u64,
    spread: Spread,
}

/// How the 2^64 hashes are spread over lines. Hash h belongs to line h n / 2^64, rounded down, where n is `low` for hashes
/// below `boundary` and `high` for all others. So a table changes its size line by line: the boundary moves past the
/// hashes of the lines whose contents have been moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Number of lines for hashes below the boundary.
    pub low: u64,
    /// Number of lines for the other hashes.
    pub high: u64,
    /// The first hash of the others; 0 = `high` is the number for all hashes.
    pub boundary: u64,
}

impl Spread {
    /// The same number of lines for all hashes.
    pub const fn even(count: u64) -> Spread {
        Spread {
            low: count,
            high: count,
            boundary: 0,
        }
    }

    /// Index of the line of `hash`.
    #[inline(always)]
    pub fn index_of(self, hash: u64) -> u64 {
        // A branch, because it is predicted: a table seldom changes its size.
        if hash < self.boundary {
            return self.index_of_low(hash);
        }
        scaled(hash, self.high)
    }

    #[cold]
    #[inline(never)]
    fn index_of_low(self, hash: u64) -> u64 {
        scaled(hash, self.low)
    }

    /// Number of lines over which hashes like `hash` are spread.
    #[inline(always)]
    pub fn count_of(self, hash: u64) -> u64 {
        if hash < self.boundary { self.low } else { self.high }
    }

    /// Index of the line of `hash`, and the hashes that belong to that line.
    pub fn line_of(self, hash: u64) -> (u64, RangeInclusive<u64>) {
        let is_low = hash < self.boundary;
        let count = self.count_of(hash);
        let index = scaled(hash, count);
        let (first, last) = (first_of(index, count), first_of(index + 1, count) - 1);
        match is_low {
            true => (index, first as u64..=(last as u64).min(self.boundary - 1)),
            false => (index, (first as u64).max(self.boundary)..=last as u64),
        }
    }

    /// Number of lines that may be in use.
    pub fn lines(self) -> u64 {
        if self.boundary == 0 {
            self.high
        } else {
            self.low.max(self.high)
        }
    }
}

/// `hash` / 2^64 of `count`, rounded down.
#[inline(always)]
fn scaled(hash: u64, count: u64) -> u64 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u64
}

/// The first hash of line `index` of `count`; 2^64 for the line after the last.
pub const fn first_of(index: u64, count: u64) -> u128 {
    ((index as u128) << 64).div_ceil(count as u128)
}

// SAFETY: as for MaskedRegion.
unsafe impl Send for LineTable {}
// SAFETY: as above.
unsafe impl Sync for LineTable {}

impl LineTable {
    /// Creates a view of `count` lines of `region`, from offset `start` on, all of them in use.
    ///
    /// # Panics
    /// If `count` is not 1 to 2^31, `start` is not a multiple of a line, or the region is too short or read-only.
    pub fn new(region: Region, start: usize, count: usize) -> LineTable {
        assert!((1..=1 << 31).contains(&count), "{count} lines: want 1 to 2^31");
        LineTable {
            base: start_of(&region, start, count * LINE_BYTES),
            region,
            capacity: count as u64,
            words: 8 * count as u64,
            spread: Spread::even(count as u64),
        }
    }

    /// Number of lines that are mapped, 1 to 2^31.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How hashes are spread over the lines.
    #[inline(always)]
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// Changes how hashes are spread over the lines.
    ///
    /// # Panics
    /// If a number of lines is 0 or more than are mapped.
    pub fn set_spread(&mut self, spread: Spread) {
        let fits = |count| (1..=self.capacity).contains(&count);
        assert!(
            fits(spread.low) && fits(spread.high),
            "{spread:?} of {} lines",
            self.capacity
        );
        self.spread = spread;
    }

    /// The whole region given to [`new`](LineTable::new), which may be longer than the table.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The line with index `index`; that with index 0 if it is not mapped.
    #[inline(always)]
    pub fn at(&self, index: u64) -> LineRef<'_> {
        let index = if index < self.capacity { index } else { 0 };
        LineRef {
            // SAFETY: the index is below the number of lines, which `new` checked to be mapped.
            ptr: unsafe { self.base.add(index as usize * LINE_BYTES) },
            table: PhantomData,
        }
    }

    /// Word `number` of the table, counted over all lines; that numbered 0 if it is not mapped.
    #[inline(always)]
    pub fn word(&self, number: u64) -> WordRef<'_> {
        let number = if number < self.words { number } else { 0 };
        WordRef {
            // SAFETY: the line is below the number of lines, which `new` checked to be mapped.
            ptr: unsafe { self.base.cast().add(number as usize) },
            table: PhantomData,
        }
    }

    /// The line of `hash`, as [`spread`](LineTable::spread) says. Costs a multiplication, and no check.
    #[inline(always)]
    pub fn of_hash(&self, hash: u64) -> LineRef<'_> {
        let index = self.spread.index_of(hash) as usize;
        LineRef {
            // SAFETY: a product of a number below 2^64 and a number of lines, divided by 2^64, is below the latter, which
            // is at most the number of mapped lines.
            ptr: unsafe { self.base.add(index * LINE_BYTES) },
            table: PhantomData,
        }
    }

    /// A copy of the table's address and spread, which computes addresses of lines for prefetches in a loop.
    #[inline(always)]
    pub fn addrs(&self) -> LineAddrs {
        LineAddrs {
            base: self.base.as_ptr() as usize,
            spread: self.spread,
        }
    }

    /// Stores zero to every word of every line in use.
    pub fn zero(&self) {
        for index in 0..self.spread.lines() {
            (0..8).for_each(|i| self.at(index).store(i, 0));
        }
    }
}

impl std::fmt::Debug for LineTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "LineTable({:?} of {} lines, {})",
            self.spread,
            self.capacity,
            self.region.page_kind()
        )
    }
}

/// Computes addresses of lines of a [`LineTable`] without a reference to it: for prefetches in a loop, where the
/// compiler would otherwise assume that a store changes the fields of the `LineTable` and reload them.
#[derive(Clone, Copy, Debug)]
pub struct LineAddrs {
    base: usize,
    spread: Spread,
}

impl LineAddrs {
    /// The address of the line that [`LineTable::of_hash`] returns.
    #[inline(always)]
    pub fn of_hash(self, hash: u64) -> Line {
        let index = self.spread.index_of(hash) as usize;
        Line(self.base.wrapping_add(index * LINE_BYTES))
    }
}

/// One line of a [`LineTable`].
#[derive(Clone, Copy, Debug)]
pub struct LineRef<'a> {
    ptr: NonNull<u8>,
    table: PhantomData<&'a LineTable>,
}

/// One word of a [`LineTable`].
#[derive(Clone, Copy, Debug)]
pub struct WordRef<'a> {
    ptr: NonNull<u64>,
    table: PhantomData<&'a LineTable>,
}

impl WordRef<'_> {
    /// The address of the line of this word, for [`Cpu::touch`].
    #[inline(always)]
    pub fn line(self) -> Line {
        Line(self.ptr.as_ptr() as usize & !(LINE_BYTES - 1))
    }

    /// Loads this word. Relaxed.
    #[inline(always)]
    pub fn load(self) -> u64 {
        u64::from_le(self.word().load(Ordering::Relaxed))
    }

    /// Stores `value` to this word. Relaxed.
    #[inline(always)]
    pub fn store(self, value: u64) {
        self.word().store(value.to_le(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the word is mapped while the table lives, and aligned; all accesses are atomic or opaque copies.
        unsafe { AtomicU64::from_ptr(self.ptr.as_ptr()) }
    }
}

impl<'a> LineRef<'a> {
    /// Word `index`, modulo 8, of this line.
    #[inline(always)]
    pub fn word_ref(self, index: usize) -> WordRef<'a> {
        WordRef {
            // SAFETY: word (index mod 8) is inside the line.
            ptr: unsafe { self.ptr.cast().add(index & 7) },
            table: PhantomData,
        }
    }

    /// The address of this line, for [`Cpu::touch`] and [`Cpu::prefetch`].
    #[inline(always)]
    pub fn line(self) -> Line {
        Line(self.ptr.as_ptr() as usize)
    }

    /// Loads word `index`, modulo 8, of this line. Relaxed.
    #[inline(always)]
    pub fn load(self, index: usize) -> u64 {
        self.word_ref(index).load()
    }

    /// Stores `value` to word `index`, modulo 8, of this line. Relaxed.
    #[inline(always)]
    pub fn store(self, index: usize, value: u64) {
        self.word_ref(index).store(value);
    }

    /// Finds the words of this line whose upper 16 bits equal `high`: bit i (0 to 7) of the result is 1 if word i
    /// matches. About 14 instructions and no branch.
    #[inline(always)]
    pub fn match_high16(self, high: u16) -> u32 {
        // SAFETY: the line is mapped for as long as the table lives, and lines are aligned.
        unsafe { arch::match_high16(self.ptr.as_ptr(), high) }
    }
}

/// The address of `start`, after the checks that masked accesses rely on.
fn checked_base(region: &Region, start: usize, bytes: usize, mapped: usize) -> NonNull<u8> {
    assert!(
        bytes.is_power_of_two() && bytes >= LINE_BYTES,
        "{bytes} is not a power of two of at least a line"
    );
    start_of(region, start, mapped)
}

/// The address of `start`, from which `mapped` bytes of the region can be read and written.
fn start_of(region: &Region, start: usize, mapped: usize) -> NonNull<u8> {
    assert!(
        start == round_up(start, LINE_BYTES),
        "start {start} is not a multiple of a line"
    );
    assert!(
        region.contains(start, mapped),
        "{mapped} bytes from {start} of a region of {}",
        region.len()
    );
    assert!(region.is_writable(), "a masked view of a read-only region");
    NonNull::new(region.ptr(start)).expect("a mapping is never at null")
}

#[cfg(test)]
mod tests;
