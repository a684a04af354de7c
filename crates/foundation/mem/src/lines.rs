//! [`LineTable`]: memory as cache lines, the shape of a bucket table, and how hashes are spread over them.

use crate::masked::start_of;
use crate::{LINE_BYTES, Region, arch};
use drover_base::Line;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Stores `new` if the word is `old`, as one step; returns whether it was. Relaxed.
    #[inline]
    pub fn replace(self, old: u64, new: u64) -> bool {
        let (old, new) = (old.to_le(), new.to_le());
        let swapped = self
            .word()
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        swapped.is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageWish;
    use proptest::prelude::*;

    #[test]
    fn every_line_is_inside() {
        let t = LineTable::new(Region::private(4096, PageWish::Small).expect("memory"), 64, 3);
        t.at(1).store(15, 9);
        assert_eq!(
            (
                t.at(1).load(7),
                t.region().load_u64(64 + 64 + 56, Ordering::Relaxed)
            ),
            (9, 9)
        );
        assert_eq!(
            (t.at(3).line(), t.at(u64::MAX).line()),
            (t.at(0).line(), t.at(0).line())
        );
        t.zero();
        assert_eq!(t.at(1).load(7), 0);
    }

    #[test]
    fn hashes_are_spread_over_any_number_of_lines() {
        for count in [1usize, 3, 7, 64] {
            let region = Region::private(4096, PageWish::Small).expect("memory");
            let t = LineTable::new(region, 0, count);
            let mut seen = vec![0; count];
            for part in 0..1 << 10u64 {
                let hash = part << 54 | u64::MAX >> 10;
                let index = t.spread().index_of(hash);
                seen[index as usize] += 1;
                assert_eq!(t.of_hash(hash).line(), t.at(index).line());
                assert_eq!(t.of_hash(hash).line(), t.addrs().of_hash(hash));
            }
            let even = 1024 / count;
            assert!(seen.iter().all(|&n| (even..=even + 1).contains(&n)), "{seen:?}");
        }
    }

    #[test]
    fn a_boundary_divides_the_hashes() {
        let region = Region::private(4096, PageWish::Small).expect("memory");
        let mut t = LineTable::new(region, 0, 8);
        let spread = Spread {
            low: 4,
            high: 8,
            boundary: 1 << 63,
        };
        t.set_spread(spread);
        assert_eq!((spread.index_of((1 << 63) - 1), spread.index_of(1 << 63)), (1, 4));
        assert_eq!(t.of_hash(u64::MAX).line(), t.at(7).line());
        assert_eq!((spread.lines(), Spread::even(3).lines()), (8, 3));
        assert_eq!(spread.line_of((1 << 63) - 1), (1, 1 << 62..=(1 << 63) - 1));
        assert_eq!(spread.line_of(1 << 63), (4, 1 << 63..=(5 << 61) - 1));
        assert_eq!(spread.line_of(u64::MAX), (7, 7 << 61..=u64::MAX));
    }

    #[test]
    #[should_panic(expected = "of 8 lines")]
    fn a_spread_beyond_the_mapping_is_refused() {
        let region = Region::private(4096, PageWish::Small).expect("memory");
        LineTable::new(region, 0, 8).set_spread(Spread::even(9));
    }

    proptest! {
        #[test]
        fn high_halves_match_like_a_loop(picks in prop::array::uniform8(0usize..5), pick in 0usize..5) {
            const HIGHS: [u16; 5] = [0, 1, 0x7fff, 0x8000, 0xffff];
            let t = LineTable::new(Region::private(4096, PageWish::Small).expect("memory"), 0, 2);
            for (i, &p) in picks.iter().enumerate() {
                t.at(1).store(i, (u64::from(HIGHS[p]) << 48) | 0xffff_ffff);
            }
            let want = (0..8).filter(|&i| picks[i] == pick).map(|i| 1 << i).sum::<u32>();
            prop_assert_eq!(t.at(1).match_high16(HIGHS[pick]), want);
        }
    }
}
