//! [`Sizes`]: whether an item is small, normal or large beside the others of its cache, and how many bytes a PUT may copy
//! to keep used items *(our choice, made by simulation; see `docs/eviction.md`)*.
//!
//! In a cache of items of one size, all are normal. Where sizes differ, a byte is better spent on small items: small items
//! are kept after fewer uses, large items after more.

/// The number 1 in the format of the logarithms here: fixed-point to base 2, in units of 1/256.
const ONE: u32 = 256;
/// An item at least this much larger than the typical one is large: three times.
const LARGE: u32 = 406;
/// An item at least this much smaller than the typical one is small: a quarter.
const SMALL: u32 = 2 * ONE;
/// Bytes added to every item's size before sizes are compared: about what an item takes in the index, with free slots.
const INDEX_BYTES: u64 = 12;
/// PUTs between two looks at the mean.
const PERIOD: u32 = 64;
/// Bytes that may be copied per byte inserted, over time.
const COPIES_PER_BYTE: u64 = 2;
/// One PUT may copy at most as many bytes as so many mean items have, or twice its own, and at most [`COPY_BYTES_MAX`].
const COPY_ITEMS_MAX: u64 = 5;
/// Most bytes that one PUT may copy to keep used items. A longer item is not kept at the tail of the main log.
const COPY_BYTES_MAX: u64 = 64 << 10;
/// The reserve of free space in the main log has room for so many times what one PUT may copy.
const RESERVE_COPIES: u64 = 16;

/// Size of an item beside the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Small,
    Normal,
    Large,
}

impl Class {
    /// Uses in the small log from which an item moves to the main log.
    pub(super) fn uses_to_move(self) -> u64 {
        match self {
            Class::Small => 0,
            Class::Normal => 1,
            Class::Large => 2,
        }
    }

    /// Uses with which an item begins in the main log.
    pub(super) fn uses_in_main(self) -> u64 {
        match self {
            Class::Small => 2,
            Class::Normal | Class::Large => 0,
        }
    }

    /// Uses that an item loses when it is appended to the main log again; an item with fewer uses leaves.
    pub(super) fn uses_to_stay(self) -> u64 {
        match self {
            Class::Small | Class::Normal => 1,
            Class::Large => 3,
        }
    }
}

/// Running knowledge of the sizes of a cache's items.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// Mean logarithm of the sizes of recent inserts, times 4096.
    recent: u32,
    /// Logarithm of the size of a typical item.
    typical: u32,
    /// PUTs until the next look at the mean.
    until_look: u32,
    /// Bytes that may be copied now.
    credit: u64,
    credit_max: u64,
}

impl Sizes {
    /// Notes the insertion of an item of `size` bytes into a cache of `items` items with `bytes` bytes.
    #[inline]
    pub(super) fn insert(&mut self, size: u64, items: u64, bytes: u64) {
        let log = log2(size + INDEX_BYTES);
        self.recent = match self.recent {
            0 => log << 12,
            recent => recent + log - (recent >> 12),
        };
        if self.until_look == 0 {
            self.look(size, items, bytes);
        }
        self.until_look -= 1;
        self.earn(size);
    }

    /// Notes that `size` bytes are stored, so that more may be copied.
    #[inline]
    pub(super) fn earn(&mut self, size: u64) {
        // Something long that is stored takes its time anyway.
        let most = self.credit_max.max(COPIES_PER_BYTE * size).min(COPY_BYTES_MAX);
        self.credit = (self.credit + COPIES_PER_BYTE * size).min(most);
    }

    /// Typical is the mean item held, but not less than half of a recent one: after a change to larger items, those held
    /// say nothing about those to come. In an empty cache the new item, of `size` bytes, is the mean one.
    #[cold]
    fn look(&mut self, size: u64, items: u64, bytes: u64) {
        let mean = bytes.checked_div(items).unwrap_or(size);
        let held = if items == 0 { 0 } else { log2(mean + INDEX_BYTES) };
        self.typical = held.max((self.recent >> 12).saturating_sub(ONE));
        self.credit_max = (COPY_ITEMS_MAX * mean).min(COPY_BYTES_MAX);
        self.until_look = PERIOD;
    }

    /// Class of an item of `size` bytes.
    #[inline]
    pub(super) fn class(&self, size: u64) -> Class {
        let log = log2(size + INDEX_BYTES);
        if log >= self.typical + LARGE {
            Class::Large
        } else if log + SMALL <= self.typical {
            Class::Small
        } else {
            Class::Normal
        }
    }

    /// As [`spend`](Sizes::spend), if then at least a quarter of what may be copied at once is left.
    pub(super) fn spend_surplus(&mut self, bytes: u64) -> bool {
        self.credit >= self.credit_max / 4 + bytes && self.spend(bytes)
    }

    /// Bytes of the main log to keep free.
    pub(super) fn reserve(&self) -> u64 {
        RESERVE_COPIES * self.credit_max
    }

    /// As [`spend`](Sizes::spend), if nothing has been spent lately: what the next PUTs earn makes up for it.
    pub(super) fn spend_excess(&mut self, bytes: u64) -> bool {
        self.credit >= self.credit_max && self.spend(bytes)
    }

    /// Takes `bytes` from what may be copied; returns whether there was enough.
    #[inline]
    pub(super) fn spend(&mut self, bytes: u64) -> bool {
        let enough = self.credit >= bytes;
        if enough {
            self.credit -= bytes;
        }
        enough
    }
}

/// Logarithm of `x`, which is at least 1, to base 2 in 1/256, linear between powers of two.
#[inline]
fn log2(x: u64) -> u32 {
    let whole = x.ilog2();
    let below = x << (63 - whole) << 1;
    whole * ONE + (below >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_rise_between() {
        assert_eq!([1, 2, 4, 1 << 40].map(log2), [0, 256, 512, 40 * 256]);
        assert_eq!(log2(3), 256 + 128);
        assert!((1..10_000u64).all(|x| log2(x) <= log2(x + 1)));
    }

    #[test]
    fn items_of_about_one_size_are_all_normal() {
        let mut sizes = Sizes::default();
        for i in 0..10_000u64 {
            let size = 424 + 8 * (i % 20);
            sizes.insert(size, i, i * 500);
            assert_eq!(sizes.class(size), Class::Normal);
        }
        let classes = [40, 100, 1400, 4000].map(|size| sizes.class(size));
        assert_eq!(classes, [Class::Small, Class::Small, Class::Normal, Class::Large]);
    }

    #[test]
    fn larger_items_are_normal_soon_after_they_have_become_usual() {
        let mut sizes = Sizes::default();
        (0..10_000).for_each(|i| sizes.insert(100, i, 100 * i));
        assert_eq!(sizes.class(4000), Class::Large);
        (0..10_000).for_each(|i| sizes.insert(4000, 10_000 + i, 1_000_000 + 100 * i));
        assert_eq!(sizes.class(4000), Class::Normal);
    }

    #[test]
    fn an_empty_cache_may_copy_soon() {
        let mut sizes = Sizes::default();
        sizes.insert(64, 0, 0);
        assert!(sizes.spend(2 * 64) && !sizes.spend(8));
    }

    #[test]
    fn copies_are_limited_over_time_and_at_once() {
        let mut sizes = Sizes::default();
        let (mut inserted, mut copied) = (0, 0);
        for i in 1..10_000u64 {
            sizes.insert(64, i, 64 * i);
            inserted += 64;
            let mut at_once = 0;
            while i % 100 == 0 && sizes.spend(64) {
                at_once += 64;
            }
            assert!(at_once <= COPY_ITEMS_MAX * 64);
            copied += at_once;
        }
        assert!(copied > 0 && copied <= COPIES_PER_BYTE * inserted);
        (0..200).for_each(|_| sizes.insert(1 << 20, 1, 1 << 20));
        assert!(sizes.spend(COPY_BYTES_MAX) && !sizes.spend(8));
    }
}
